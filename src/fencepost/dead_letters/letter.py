"""A dead letter: the record that could not be written, and headers that say what, where from and why.

A letter has the key, the value and the headers of the record, and these headers, as text::

    fencepost.error              what is wrong, for people
    fencepost.error.reason       the same as one of `Reason`, for programs
    fencepost.topic              the topic that the record was for; absent if it was null
    fencepost.partition          the partition that the query asked for, if it did
    fencepost.timestamp          the record's own timestamp in milliseconds, if the query gave one
    fencepost.pipeline           who wrote it
    fencepost.batch              the micro-batch, if there was one
    fencepost.source.topic       the input record it is from, if the query kept that; likewise .partition and .offset
    fencepost.value.size         the full size of a value of which only the beginning is here
    fencepost.key.size           the same for a key
    fencepost.headers.size       the size of the record's headers, which were too large to be kept

A letter's timestamp is the time at which it was written. With the record's own, retention could delete an old one at
once. A name of a header is never changed or reused; a reader ignores those that it does not know.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fencepost.wire.records import Headers, Record
from fencepost.wire.terms import TopicPartition

PREFIX = "fencepost."
ERROR = PREFIX + "error"
REASON = PREFIX + "error.reason"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
TIMESTAMP = PREFIX + "timestamp"
PIPELINE = PREFIX + "pipeline"
BATCH = PREFIX + "batch"
SOURCE_TOPIC = PREFIX + "source.topic"
SOURCE_PARTITION = PREFIX + "source.partition"
SOURCE_OFFSET = PREFIX + "source.offset"
VALUE_SIZE = PREFIX + "value.size"
KEY_SIZE = PREFIX + "key.size"
HEADERS_SIZE = PREFIX + "headers.size"
SIZES = (VALUE_SIZE, KEY_SIZE, HEADERS_SIZE)
#: Every header of ours. The others are the record's own.
NAMES = frozenset(
    {ERROR, REASON, TOPIC, PARTITION, TIMESTAMP, PIPELINE, BATCH, SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, *SIZES}
)
#: The longest text of a header of ours, in bytes. So all of them together fit into a small record.
TEXT_BYTES_MAX = 1024
#: What all headers of ours take at most.
OWN_BYTES_MAX = len(NAMES) * (TEXT_BYTES_MAX + 64)
#: A topic for dead letters must take records of at least this size.
RECORD_BYTES_MIN = 32 << 10


def own_headers(said: Mapping[str, object]) -> list[tuple[str, bytes]]:
    """Headers of ours, without those that are None."""
    return [(name, _cut(str(text))) for name, text in said.items() if text is not None]


def _cut(text: str) -> bytes:
    data = text.encode(errors="replace")
    return data if len(data) <= TEXT_BYTES_MAX else data[: TEXT_BYTES_MAX - 3].decode(errors="ignore").encode() + b"..."


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter, as it was read."""

    where: TopicPartition
    offset: int
    time_ms: int  #: when it was written
    key: bytes | None
    value: bytes | None
    headers: Headers = ()  #: the record's own
    said: Mapping[str, str] = field(default_factory=dict)  #: headers of ours, by name

    @classmethod
    def of(cls, where: TopicPartition, record: Record) -> "Letter":
        own = tuple((name, value) for name, value in record.headers if name not in NAMES)
        said = {name: (value or b"").decode(errors="replace") for name, value in record.headers if name in NAMES}
        return cls(where, record.offset, record.timestamp, record.key, record.value, own, said)

    @property
    def reason(self) -> str:
        return self.said.get(REASON, "")

    @property
    def topic(self) -> str | None:
        return self.said.get(TOPIC)

    @property
    def is_cut(self) -> bool:
        """Whether only a part of the record is here."""
        return any(name in self.said for name in SIZES)

    def number(self, name: str) -> int | None:
        """A header of ours as a number; None if it is absent, or not one."""
        try:
            return int(self.said[name])
        except (KeyError, ValueError):
            return None


def without_own(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """The headers of a record that was a dead letter before."""
    return [(name, value) for name, value in headers if name not in NAMES]
