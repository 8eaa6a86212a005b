"""A Produce request as a list of parts, so that record batches are sent from where they lie.

`wire.produce` reads what is written here; a test holds the two, and the tables, against each other in every version.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fencepost.wire.codec import Buffer
from fencepost.wire.produce import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS
from fencepost.wire.varint import write_unsigned

ACKS_ALL, ACKS_LEADER = -1, 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_ACKS_TIMEOUT = struct.Struct(">hi")
_INDEX_LENGTH = struct.Struct(">ii")


class Records(NamedTuple):
    """One batch for one partition, in pieces."""

    partition: int
    pieces: Sequence[Buffer]


def produce_parts(
    version: int,
    transactional_id: str | None,
    timeout_ms: int,
    topics: Mapping[str | bytes, Sequence[Records]],
    acks: int = ACKS_ALL,
) -> list[Buffer]:
    """The body of a request. Topics are named from version 13 on by their ids, before by their names."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray()
    _put_string(out, transactional_id, flexible)
    out += _ACKS_TIMEOUT.pack(acks, timeout_ms)
    _put_count(out, len(topics), flexible)
    parts: list[Buffer] = [out]
    for topic, entries in topics.items():
        if version >= FIRST_WITH_TOPIC_IDS and isinstance(topic, bytes):
            out += topic
        else:
            _put_string(out, str(topic), flexible)
        _put_count(out, len(entries), flexible)
        for partition, pieces in entries:
            size = sum(len(piece) for piece in pieces)
            if flexible:
                out += _INT32.pack(partition)
                write_unsigned(out, size + 1)
            else:
                out += _INDEX_LENGTH.pack(partition, size)
            parts += pieces
            out = bytearray(b"\x00" if flexible else b"")  # the partition's tagged fields
            parts.append(out)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    return [part for part in parts if len(part)]


def _put_string(out: bytearray, text: str | None, flexible: bool) -> None:
    data = b"" if text is None else text.encode()
    if flexible:
        write_unsigned(out, 0 if text is None else len(data) + 1)
    else:
        out += _INT16.pack(-1 if text is None else len(data))
    out += data


def _put_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_unsigned(out, count + 1)
    else:
        out += _INT32.pack(count)
