"""Rows that cannot be written become dead letters: records of another topic, in the same transaction.

Invariants: a row becomes a record or a dead letter, and never both. A dead letter can always be written: if it is too
large for its topic, only the beginning of its value is kept. A change of state is never a dead letter, because the
state would miss it without anybody noticing: the batch fails instead.

`letter` says what a dead letter looks like.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.cluster import Cluster
from fencepost.client.encode import Blob, Encoder
from fencepost.client.faults import Fault
from fencepost.client.identity import MADE_UP_IDS
from fencepost.client.probes import check_may_write
from fencepost.client.row_faults import refuse, source_of
from fencepost.client.shapes import DEFAULT_MAX_MESSAGE_BYTES, TopicShape, shape_of
from fencepost.dead_letters import letter
from fencepost.errors import ConfigError, TopicNotFound
from fencepost.wire.batch import HEADER_BYTES
from fencepost.wire.compression import Compression

OPTION = "deadLetters"
NOT_OF_STATE = "It is a change of state, which cannot be a dead letter: the state would miss it from then on"
#: What a record takes beside key, value and headers, and a header beside its name and value, at the very most.
RECORD_OVERHEAD_BYTES, HEADER_OVERHEAD_BYTES = 64, 10
#: What is left for the value of a letter that is cut, and for its key if that is cut as well.
VALUE_BYTES_MIN = 1024

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)])

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where the dead letters of one batch go, and what they all say."""

    topic: str
    shape: TopicShape
    pipeline: str | None = None
    batch_id: int | None = None
    never: frozenset[str] = frozenset()  #: topics whose records cannot be dead letters: changelogs


def look_up(cluster: Cluster, topic: str) -> TopicShape:
    """The topic for dead letters. Raises, before anything is written, if it could not take every one of them."""
    try:
        shape = shape_of(cluster, topic)
    except TopicNotFound:
        raise TopicNotFound(
            f"the topic for dead letters, {topic!r}, does not exist: create it, or change the option {OPTION}"
        ) from None
    check_may_write(cluster, topic)
    if shape.needs_key:
        raise ConfigError(
            f"the topic for dead letters, {topic!r}, is compacted. It would lose letters of equal keys and refuse "
            "those without a key: use a topic with cleanup.policy=delete"
        )
    if shape.max_message_bytes is not None and shape.max_message_bytes < letter.RECORD_BYTES_MIN:
        raise ConfigError(
            f"max.message.bytes of the topic for dead letters, {topic!r}, is {shape.max_message_bytes}: it must be "
            f"{letter.RECORD_BYTES_MIN} or more, so that at least the beginning of every record fits"
        )
    return shape


def pipeline_name(given: str) -> str | None:
    """None if it is an id that we made up for one write: it says nothing to anybody."""
    return None if given.startswith(MADE_UP_IDS) else given


@dataclass(slots=True)
class DeadLetterBox:
    """Takes the rows that an encoder cannot write (its `on_fault`), and counts them."""

    settings: DeadLetters
    compression: Compression = Compression.NONE
    target_bytes: int = 512 << 10
    spread: int = 0
    counts: Counter[str] = field(default_factory=Counter)  #: by reason
    _encoder: Encoder | None = None

    def __call__(self, rows: Any, faults: Sequence[Fault]) -> list[Blob]:
        for row, fault in enumerate(faults):
            if fault.topic in self.settings.never:
                refuse(rows.slice(row), faults[row:], NOT_OF_STATE)
        self.counts.update(fault.reason.value for fault in faults)
        if self._encoder is None:
            self._encoder = self._new_encoder(on_fault=self._cut_and_encode)
        return self._encoder.encode(_table(self._letters(rows, faults)))

    def _new_encoder(self, **more: Any) -> Encoder:
        topic = self.settings.topic
        return Encoder(
            {topic: self.settings.shape},
            topic=topic,
            compression=self.compression,
            target_bytes=self.target_bytes,
            spread=self.spread,
            **more,
        )

    def _letters(self, rows: Any, faults: Sequence[Fault]) -> list["_Letter"]:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        names = columns.keys() & {"key", "value", "headers", "partition"}
        plain = {name: columns[name].to_pylist() for name in names}
        times = _times(columns.get("timestamp"))
        return [
            _Letter(
                _bytes(plain["key"][row]) if "key" in plain else None,
                _bytes(plain["value"][row]),
                _own(plain["headers"][row] if "headers" in plain else None),
                letter.own_headers(
                    {
                        letter.ERROR: fault.text,
                        letter.REASON: fault.reason.value,
                        letter.TOPIC: fault.topic,
                        letter.PARTITION: plain["partition"][row] if "partition" in plain else None,
                        letter.TIMESTAMP: times[row] if times else None,
                        letter.PIPELINE: self.settings.pipeline,
                        letter.BATCH: self.settings.batch_id,
                        **_where_from(columns, row),
                    }
                ),
            )
            for row, fault in enumerate(faults)
        ]

    def _cut_and_encode(self, rows: Any, _faults: Sequence[Fault]) -> list[Blob]:
        """Letters that are too large, even compressed. What is left of them is not, not even uncompressed."""
        limit = self.settings.shape.max_message_bytes or DEFAULT_MAX_MESSAGE_BYTES
        return self._new_encoder().encode(_table([_cut(_read(row), limit) for row in rows.to_pylist()]))


@dataclass(frozen=True, slots=True)
class _Letter:
    key: bytes | None
    value: bytes | None
    own: list[Header]  #: headers of the record
    said: list[tuple[str, bytes]]  #: headers of ours


def _cut(given: _Letter, limit: int) -> _Letter:
    """As much of the letter as fits: our headers, then the key, then the record's headers, then the value."""
    said = dict(given.said)
    left = limit - HEADER_BYTES - RECORD_OVERHEAD_BYTES - letter.OWN_BYTES_MAX - VALUE_BYTES_MIN
    key, own, value = given.key, given.own, given.value
    if key is not None and len(key) > left:
        said[letter.KEY_SIZE] = b"%d" % len(key)
        key = key[:left]
    left -= len(key or b"")
    if _size(own) > left:
        said[letter.HEADERS_SIZE] = b"%d" % _size(own)
        own = []
    left -= _size(own)
    if value is not None and len(value) > left + VALUE_BYTES_MIN:
        said[letter.VALUE_SIZE] = b"%d" % len(value)
        value = value[: left + VALUE_BYTES_MIN]
    return _Letter(key, value, own, [*said.items()])


def _size(headers: Sequence[Header]) -> int:
    return sum(len(name.encode()) + len(value or b"") + HEADER_OVERHEAD_BYTES for name, value in headers)


def _table(letters: Sequence[_Letter]) -> Any:
    headers = [[{"key": name, "value": value} for name, value in (*each.own, *each.said)] for each in letters]
    columns = [[each.key for each in letters], [each.value for each in letters], headers]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, _SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _read(row: Mapping[str, Any]) -> _Letter:
    """A letter as `_table` wrote it."""
    headers = [(each["key"], each["value"]) for each in row["headers"]]
    own = [(name, value) for name, value in headers if name not in letter.NAMES]
    said = [(name, value) for name, value in headers if name in letter.NAMES]
    return _Letter(row["key"], row["value"], own, said)


def _own(headers: Sequence[Mapping[str, Any] | None] | None) -> list[Header]:
    """A record's headers, without the faulty ones and without those of a former life as a dead letter."""
    given = [(each["key"], each["value"]) for each in headers or () if each is not None and each["key"] is not None]
    return letter.without_own((name, _bytes(value)) for name, value in given)


def _where_from(columns: Mapping[str, Any], row: int) -> dict[str, object]:
    found = source_of(columns, row) or {}
    names = {letter.SOURCE_TOPIC: "topic", letter.SOURCE_PARTITION: "partition", letter.SOURCE_OFFSET: "offset"}
    return {name: found.get(key) for name, key in names.items()}


def _times(column: Any) -> list[int | None]:
    """Milliseconds; empty without a column."""
    if column is None or pa.types.is_null(column.type):
        return []
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    times: list[int | None] = column.cast(pa.int64()).to_pylist()
    return times


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
