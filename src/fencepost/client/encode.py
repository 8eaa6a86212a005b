"""Arrow columns to finished record batches: routed by Kafka's own partitioner, cut to size, compressed.

Columns are those of Spark's Kafka sink: `value`, and optionally `key`, `topic`, `partition`, `timestamp`, `headers`.
The result are *blobs*: whole record batches that only lack their producer and checksum (see `stamp`). Any number of
processes can make them before a transaction is open, and send them to the writer of their partition.

The same rows give the same blobs, except for the timestamps of rows without one.

A row that cannot be written has a *fault* (`faults`). Faults are found a column at a time (`row_faults`), so they cost
nothing where there are none. Invariant: a row is in exactly one blob of its topic, or among the rows that `on_fault`
was given. Unless told otherwise, `on_fault` raises.
"""

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client import jit
from fencepost.client.arrow import (
    ABSENT,
    NO_BYTES,
    NO_INTS,
    NO_LISTS,
    BytesColumn,
    Ints,
    ListColumn,
    Longs,
    bytes_column,
    header_columns,
    times_ms,
    wanted_partitions,
)
from fencepost.client.faults import Fault, Reason, readable
from fencepost.client.row_faults import (
    NO_TOPIC,
    SAID,
    OnFault,
    RowFaults,
    missing_keys,
    null_headers,
    refuse,
    said,
    time_text,
    wrong_partitions,
    wrong_times,
)
from fencepost.client.shapes import DEFAULT_MAX_MESSAGE_BYTES, FOREVER_MS, TopicShape
from fencepost.errors import ConfigError, WriteFailed
from fencepost.wire.batch import ATTRIBUTES_OFFSET, HEADER_BYTES, LENGTH_OFFSET, LOG_OVERHEAD
from fencepost.wire.codec import Buffer
from fencepost.wire.compression import Compression, compress

DEFAULT_TARGET_BYTES = 512 << 10
MIN_TARGET_BYTES = 1 << 10
#: Rows without a key fill one partition with this much before the next, like Kafka's sticky partitioner (batch.size).
STICKY_BYTES = 16 << 10
#: What is encoded at once: enough for full batches, little enough for a processor's cache. `add` collects this much;
#: more than twice as much is encoded in pieces. An Arrow batch of Spark has a number of rows, whatever their size: with
#: 10 KB each it is 100 MB, and eight times as slow per byte if it is encoded whole, into memory that is new every time.
MAX_PENDING_BYTES = 8 << 20

BLOB_SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("records", pa.int32()), ("blob", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class Blob:
    topic: str
    partition: int
    data: Buffer
    records: int


@dataclass(frozen=True, slots=True)
class _Columns:
    """A batch of rows as the kernels take it."""

    given: Mapping[str, Any]  #: the Arrow arrays
    count: int
    keys: BytesColumn
    values: BytesColumn
    lists: ListColumn
    names: BytesColumn
    contents: BytesColumn
    topics: Ints  #: each row's topic as a number, NO_TOPIC if it has none; empty if all rows are of the first one
    wanted: Ints  #: partitions
    times: Longs

    @property
    def size(self) -> int:
        return self.keys.size + self.values.size + self.names.size + self.contents.size


class Encoder:
    """Encodes for these topics. If `topic` is given, all rows go there.

    `encode` takes rows and gives all of their batches. `add` and `finish` do the same for rows that come in pieces, and
    give larger batches. `spread` is the partition where rows without a key begin: tasks should not all have the same.
    `on_fault` gets the rows that cannot be written and gives what is written instead; by default it raises.
    """

    def __init__(
        self,
        topics: Mapping[str, TopicShape],
        *,
        topic: str | None = None,
        compression: Compression = Compression.NONE,
        target_bytes: int = DEFAULT_TARGET_BYTES,
        spread: int = 0,
        on_fault: OnFault = refuse,
    ) -> None:
        if target_bytes < MIN_TARGET_BYTES or any(shape.partitions < 1 for shape in topics.values()):
            raise ConfigError(
                f"an encoder needs topics with partitions, and batches of {MIN_TARGET_BYTES} bytes or more"
            )
        self._kernels: Any = jit.load("client.encode_kernels")
        self._topics = dict(topics)
        self._topic = next(iter(topics)) if topic is None and len(topics) == 1 else topic
        self._ignores_column = topic is not None
        self._names = list(topics)
        shapes = list(topics.values())
        self._counts = np.array([shape.partitions for shape in shapes], np.int32)
        self._first_routes = np.concatenate([[0], np.cumsum(self._counts)[:-1]]).astype(np.int32)
        self._where = [(name, partition) for name, shape in topics.items() for partition in range(shape.partitions)]
        self._needs_key = np.array([shape.needs_key for shape in shapes], np.bool_)
        self._past_ms = np.array([shape.past_max_ms for shape in shapes], np.int64)
        self._future_ms = np.array([shape.future_max_ms for shape in shapes], np.int64)
        self._compression = compression
        self._target_bytes = min(
            [target_bytes, *(shape.max_message_bytes or DEFAULT_MAX_MESSAGE_BYTES for shape in shapes)]
        )
        self._spread = spread
        self._on_fault = on_fault
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._pending_max = min(MAX_PENDING_BYTES, self._target_bytes * len(self._where))

    def add(self, rows: Any) -> list[Blob]:
        """Add a RecordBatch. Returns the blobs that are complete."""
        is_whole = rows.nbytes >= self._pending_max  # to collect it would copy it
        made = self.finish() if is_whole or (self._pending and self._pending[0].schema != rows.schema) else []
        if is_whole:
            return [*made, *self.encode(rows)]
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        return [*made, *self.finish()] if self._pending_bytes >= self._pending_max else made

    def finish(self) -> list[Blob]:
        """Encode the rest of what has been added."""
        if not self._pending:
            return []
        table = pa.Table.from_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        return self.encode(table)

    def encode(self, rows: Any) -> list[Blob]:
        """A RecordBatch or a Table, in the order of its rows within each partition."""
        batches = rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]
        return [blob for batch in batches for piece in pieces(batch) for blob in self._encode(piece)]

    def _encode(self, rows: Any) -> list[Blob]:
        columns = self._read(rows)
        faults = self._faults(columns)
        places: Longs | None = None  # of the good rows among all
        if faults.found:
            places = np.flatnonzero(faults.good)
            columns = self._read(rows.take(pa.array(places)))
        blobs = self._finished(columns, places, faults) if columns.count else []
        if faults.found:
            bad = faults.rows
            blobs += self._on_fault(rows.take(pa.array(bad)), [faults.found[row] for row in bad])
        return blobs

    def _read(self, rows: Any) -> _Columns:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if "value" not in columns:
            raise WriteFailed(f"the rows have no column 'value', only {', '.join(rows.schema.names)}")
        count = len(rows)
        lists, names, contents = NO_LISTS, ABSENT, ABSENT
        if "headers" in columns:
            lists, names, contents = header_columns(columns["headers"])
        return _Columns(
            given=columns,
            count=count,
            keys=bytes_column("key", columns["key"]) if "key" in columns else ABSENT,
            values=bytes_column("value", columns["value"]),
            lists=lists,
            names=names,
            contents=contents,
            topics=self._topic_indexes(columns.get("topic"), count),
            wanted=wanted_partitions(columns.get("partition")),
            times=times_ms(columns.get("timestamp"), time.time_ns() // 1_000_000, count),
        )

    def _topic_indexes(self, column: Any, count: int) -> Ints:
        if self._topic is not None and (column is None or self._ignores_column):
            index = self._index(self._topic)
            return np.full(count, index, np.int32) if index else NO_INTS
        if column is None:
            raise WriteFailed("the rows have no column 'topic', and there is more than one topic to write to")
        encoded = column.cast(pa.string()).dictionary_encode()
        own = np.array([*(self._index(name) for name in encoded.dictionary.to_pylist()), NO_TOPIC], np.int32)
        indices = encoded.indices.fill_null(len(own) - 1) if column.null_count else encoded.indices
        return np.ascontiguousarray(own[indices.to_numpy(zero_copy_only=False)])

    def _index(self, name: str) -> int:
        return self._names.index(name) if name in self._topics else NO_TOPIC

    # -- faults ------------------------------------------------------------------------------------------------------

    def _faults(self, columns: _Columns) -> RowFaults:
        """Of all rows, but for those that turn out to be too large."""
        given, topics = columns.given, columns.topics
        faults = RowFaults(columns.count)
        for name, reason in SAID.items():
            if (told := said(given.get(name))) is not None:
                faults.add(told, self._told(columns, reason, given[name]))
        if topics.size and int(topics.min()) < 0:
            faults.add(topics < 0, lambda row: self._no_topic(columns, row))
        if not self._names:
            return faults  # then none of the rows has a topic
        if (wrong := null_headers(given.get("headers"))) is not None:
            faults.add(wrong, self._fault(columns, Reason.NULL_HEADER, "a header, or a header's key, is null"))
        if (wrong := wrong_partitions(columns.wanted, given.get("partition"), self._counts, topics)) is not None:
            faults.add(wrong, lambda row: self._no_partition(columns, row))
        if (wrong := missing_keys(given.get("key"), self._needs_key, topics)) is not None:
            text = "it has no key, and a compacted topic takes no record without one"
            faults.add(wrong, self._fault(columns, Reason.NO_KEY, text))
        if "timestamp" in given:
            now_ms = time.time_ns() // 1_000_000
            last_ms = np.minimum(self._future_ms, FOREVER_MS - now_ms) + now_ms
            if (wrong := wrong_times(columns.times, now_ms - self._past_ms, last_ms, topics)) is not None:
                faults.add(wrong, lambda row: self._wrong_time(columns, row))
        return faults

    def _topic_name(self, columns: _Columns, row: int) -> str | None:
        index = int(columns.topics[row]) if columns.topics.size else 0
        if index >= 0:
            return self._names[index]
        if self._ignores_column or "topic" not in columns.given:
            return self._topic
        name: str | None = columns.given["topic"].cast(pa.string())[row].as_py()
        return name

    def _told(self, columns: _Columns, reason: Reason, texts: Any) -> Callable[[int], Fault]:
        return lambda row: Fault(reason, texts[row].as_py(), self._topic_name(columns, row))

    def _fault(self, columns: _Columns, reason: Reason, text: str) -> Callable[[int], Fault]:
        return lambda row: Fault(reason, text, self._topic_name(columns, row))

    def _no_topic(self, columns: _Columns, row: int) -> Fault:
        name = self._topic_name(columns, row)
        if name is None:
            return Fault(Reason.NO_TOPIC, "its topic is null")
        return Fault(Reason.UNKNOWN_TOPIC, f"topic {readable(name)} does not exist", name)

    def _no_partition(self, columns: _Columns, row: int) -> Fault:
        name = self._topic_name(columns, row)
        count = self._topics[name].partitions if name is not None else 0
        text = f"it asks for partition {int(columns.wanted[row])} of topic {readable(name)}, which has {count}"
        return Fault(Reason.UNKNOWN_PARTITION, text, name)

    def _wrong_time(self, columns: _Columns, row: int) -> Fault:
        name, time_ms = self._topic_name(columns, row), int(columns.times[row])
        side = "after" if time_ms > time.time_ns() // 1_000_000 else "before"
        text = f"its timestamp {time_text(time_ms)} is further from now than message.timestamp.{side}.max.ms allows"
        return Fault(Reason.TIMESTAMP, text, name)

    # -- bytes -------------------------------------------------------------------------------------------------------

    def _finished(self, columns: _Columns, places: Longs | None, faults: RowFaults) -> list[Blob]:
        """The blobs of rows without a fault. A record that is too large gets one, at its place among all rows."""
        out, batches = self._batches(columns)
        blobs = []
        for route, begin, end, count, row in batches.tolist():
            name, partition = self._where[route]
            data: Buffer = out[begin:end]
            if self._compression is not Compression.NONE:
                data = _compressed(out[begin:end], self._compression)
            limit = self._topics[name].max_message_bytes
            if limit is not None and len(data) > limit:  # then it holds one record, because the target is not above it
                text = f"its record makes a batch of {len(data)} bytes, but the topic's max.message.bytes is {limit}"
                faults.found[row if places is None else int(places[row])] = Fault(Reason.TOO_LARGE, text, name)
            else:
                blobs.append(Blob(name, partition, data, count))
        return blobs

    def _batches(self, columns: _Columns) -> tuple[memoryview, Longs]:
        count, size = columns.count, columns.size
        routes = self._route(columns)
        ends, order = np.zeros(len(self._where), np.int64), np.empty(count, np.int64)
        self._kernels.sort_by_route(routes, ends, order)

        headers = max(0, columns.names.offsets.size - 1)
        size += count * self._kernels.RECORD_OVERHEAD_BYTES + headers * self._kernels.RECORD_HEADER_OVERHEAD_BYTES
        # Two batches of one partition in a row are together larger than the target.
        batches_max = min(count, len(self._where) + 4 * size // self._target_bytes)
        out = np.empty(size + batches_max * HEADER_BYTES, np.uint8)
        table = np.empty((batches_max, self._kernels.COLUMNS), np.int64)
        made = self._kernels.encode_rows(
            order, ends, tuple(columns.keys), tuple(columns.values), columns.times, tuple(columns.lists),
            tuple(columns.names), tuple(columns.contents), self._target_bytes, out, table,
        )  # fmt: skip
        return out.data, table[:made]

    def _route(self, columns: _Columns) -> Ints:
        """Each row's place among all partitions of all topics."""
        keys, count = columns.keys, columns.count
        unkeyed = columns.given["key"].null_count if keys.offsets.size else count
        sticky = max(1, -(-unkeyed // int(self._counts.max())), STICKY_BYTES * count // max(1, columns.size))
        routes = np.empty(count, np.int32)
        self._kernels.route_rows(
            tuple(keys), columns.topics, self._first_routes, self._counts, columns.wanted, self._spread, sticky, routes
        )
        self._spread += -(-unkeyed // sticky)
        return routes


def pieces(rows: Any) -> Iterator[Any]:
    """A RecordBatch in slices of about MAX_PENDING_BYTES, if it has much more than that. None if it has no rows.

    Who encodes one piece after the other, and lets go of its blobs before the next, writes into memory that is in use.
    """
    step = len(rows)
    if rows.nbytes > 2 * MAX_PENDING_BYTES:
        step = -(-len(rows) * MAX_PENDING_BYTES // rows.nbytes)
    for first in range(0, len(rows), step or 1):
        yield rows.slice(first, step)


def _compressed(batch: memoryview, codec: Compression) -> Buffer:
    """The batch with its records compressed, or unchanged if that is not smaller."""
    records = compress(codec, bytes(batch[HEADER_BYTES:]))
    if len(records) >= len(batch) - HEADER_BYTES:
        return batch
    out = bytearray(batch[:HEADER_BYTES])
    struct.pack_into(">i", out, LENGTH_OFFSET, HEADER_BYTES - LOG_OVERHEAD + len(records))
    struct.pack_into(">h", out, ATTRIBUTES_OFFSET, codec)
    out += records
    return out


def blobs_to_arrow(blobs: Sequence[Blob]) -> Any:
    """Blobs as rows of `BLOB_SCHEMA`, for their writers. They must come from one call of `add` or `finish`."""
    starts = np.concatenate([[0], np.cumsum([len(blob.data) for blob in blobs])]).astype(np.int32)
    data = np.concatenate([np.frombuffer(blob.data, np.uint8) for blob in blobs]) if blobs else NO_BYTES
    return pa.RecordBatch.from_arrays(
        [
            pa.array([blob.topic for blob in blobs], pa.string()),
            pa.array([blob.partition for blob in blobs], pa.int32()),
            pa.array([blob.records for blob in blobs], pa.int32()),
            pa.Array.from_buffers(pa.binary(), len(blobs), [None, pa.py_buffer(starts), pa.py_buffer(data)], 0),
        ],
        schema=BLOB_SCHEMA,
    )


def blobs_from_arrow(rows: Any) -> list[Blob]:
    """The reverse, without copying the batches."""
    column = bytes_column("blob", rows.column("blob"))
    data, starts = column.data.data, column.offsets.tolist()
    heads = zip(*(rows.column(name).to_pylist() for name in ("topic", "partition", "records")), strict=True)
    return [
        Blob(topic, partition, data[starts[row] : starts[row + 1]], records)
        for row, (topic, partition, records) in enumerate(heads)
    ]
