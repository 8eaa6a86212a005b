"""Why a record cannot be written, and bytes as text that a person can read. Words only, without NumPy or PyArrow.

`Reason` is stable: it is a header of dead letters, and what people filter by. A value is never renamed.
"""

import enum
import re
from dataclasses import dataclass

READABLE_BYTES = 64
#: Kafka's rule for the names of topics.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Reason(enum.StrEnum):
    """What is wrong with one record. Other records of the batch are not concerned."""

    QUERY = "query"  #: the query says so, in its column `error`
    NO_TOPIC = "no-topic"  #: the topic is null
    UNKNOWN_TOPIC = "unknown-topic"  #: the topic does not exist
    UNKNOWN_PARTITION = "unknown-partition"  #: the topic has no such partition
    NULL_HEADER = "null-header"  #: a header is null, or its key
    NO_KEY = "no-key"  #: a compacted topic takes no record without a key
    TIMESTAMP = "timestamp"  #: too far from the present for the topic
    TOO_LARGE = "too-large"  #: larger than the topic's max.message.bytes
    FORMAT = "format"  #: its key or value cannot be written in the format that was asked for
    CORRUPT = "corrupt"  #: the source could not read it: the column `_corrupt_record`


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one row."""

    reason: Reason
    text: str
    topic: str | None = None  #: the topic it was for


def is_topic_name(name: str) -> bool:
    """Whether Kafka allows the name."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def readable(data: bytes | str | None, limit: int | None = READABLE_BYTES) -> str:
    """One line: text in quotes if it is UTF-8, else escaped bytes; the first `limit` bytes, and then the size."""
    if data is None:
        return "null"
    whole = data.encode() if isinstance(data, str) else data
    shown = whole if limit is None else whole[:limit]
    try:
        text = repr(_decoded(shown, is_cut=len(shown) < len(whole)))
    except UnicodeDecodeError:
        text = repr(shown)
    return text if len(shown) == len(whole) else f"{text}… ({len(whole)} bytes)"


def _decoded(data: bytes, *, is_cut: bool) -> str:
    """A cut may leave up to three bytes of the last character."""
    for left_out in range(4 if is_cut else 1):
        try:
            return data[: len(data) - left_out].decode()
        except UnicodeDecodeError as error:
            last = error
    raise last
