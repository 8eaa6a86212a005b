"""The Fetch response, written by hand: a list of parts, so that stored bytes are sent straight from the file.

`tests/unit/wire` compares it with the tables in every version.
"""

import struct
from collections.abc import Sequence, Sized
from typing import NamedTuple

from fencepost.wire.frame import finish_response, start_response, write_count, write_topic

API_KEY = 1
VERSIONS = (4, 18)
FIRST_WITH_SESSIONS = 7
FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_IDS = 13

_INT32 = struct.Struct(">i")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqq")
_INT64 = struct.Struct(">q")
_ABORTED = struct.Struct(">qq")
_DIVERGING = struct.Struct(">iq")


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int


class PartitionAnswer(NamedTuple):
    topic: str | bytes
    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None  #: (producer id, first offset); None unless read_committed
    diverging: tuple[int, int] | None = None  #: (epoch, end offset) where the reader's log diverged from ours
    records: Sized | None = None  #: stored bytes: a slice of a file, or bytes in memory


def encode_response(
    version: int,
    correlation_id: int,
    answers: Sequence[PartitionAnswer],
    *,
    error_code: int = 0,
    session_id: int = 0,
) -> list[Sized]:
    """The parts of the response in order: our bytearrays, with the slices of records between them."""
    flexible = version >= FIRST_FLEXIBLE
    first = out = start_response(correlation_id, flexible=flexible)
    parts: list[Sized] = [out]
    if version >= FIRST_WITH_SESSIONS:
        out += _THROTTLE_ERROR_SESSION.pack(0, error_code, session_id)
    else:
        out += _INT32.pack(0)
    groups = _by_topic(answers)
    write_count(out, len(groups), flexible=flexible)
    for topic, group in groups.items():
        write_topic(out, topic, flexible=flexible)
        write_count(out, len(group), flexible=flexible)
        for answer in group:
            _write_partition(out, version, answer, flexible)
            records = answer.records
            if records is not None and len(records):
                parts.append(records)
                out = bytearray()
                parts.append(out)
            if flexible:
                _write_tags(out, answer)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    finish_response(first, more=sum(len(part) for part in parts[1:]))
    return parts


def _write_partition(out: bytearray, version: int, answer: PartitionAnswer, flexible: bool) -> None:
    out += _PARTITION.pack(answer.partition, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    if version >= 5:
        out += _INT64.pack(answer.log_start_offset)
    if answer.aborted is None:
        out += b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        write_count(out, len(answer.aborted), flexible=flexible)
        for producer_id, first_offset in answer.aborted:
            out += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                out.append(0)
    if version >= 11:
        out += b"\xff\xff\xff\xff"  # preferred read replica: none
    # Empty, never null: old clients fail on null records.
    write_count(out, 0 if answer.records is None else len(answer.records), flexible=flexible)


def _write_tags(out: bytearray, answer: PartitionAnswer) -> None:
    if answer.diverging is None:
        out.append(0)
    else:
        out += b"\x01\x00\x0d" + _DIVERGING.pack(*answer.diverging) + b"\x00"


def _by_topic(answers: Sequence[PartitionAnswer]) -> dict[str | bytes, list[PartitionAnswer]]:
    groups: dict[str | bytes, list[PartitionAnswer]] = {}
    for answer in answers:
        groups.setdefault(answer.topic, []).append(answer)
    return groups
