"""Arrow columns to finished record batches: routed by Kafka's own partitioner, cut to size, compressed.

Columns are those of Spark's Kafka sink: `value`, and optionally `key`, `topic`, `partition`, `timestamp`, `headers`.
The result are *blobs*: whole record batches that only lack their producer and checksum (see `stamp`). Any number of
processes can make them before a transaction is open, and send them to the writer of their partition.

The same rows give the same blobs, except for the timestamps of rows without one.
"""

import struct
import time
from collections.abc import Mapping, Sequence
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
    Longs,
    bytes_column,
    header_columns,
    times_ms,
    wanted_partitions,
)
from fencepost.errors import ConfigError, TopicNotFound, WriteFailed
from fencepost.wire.batch import ATTRIBUTES_OFFSET, HEADER_BYTES, LENGTH_OFFSET, LOG_OVERHEAD
from fencepost.wire.codec import Buffer
from fencepost.wire.compression import Compression, compress

DEFAULT_TARGET_BYTES = 512 << 10
MIN_TARGET_BYTES = 1 << 10
#: Kafka's default of `max.message.bytes`.
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
#: Rows without a key fill one partition with this much before the next, like Kafka's sticky partitioner (batch.size).
STICKY_BYTES = 16 << 10
#: What `add` collects before it encodes: enough for full batches, little enough for a processor's cache.
MAX_PENDING_BYTES = 8 << 20

BLOB_SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("records", pa.int32()), ("blob", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class TopicShape:
    """What the encoder must know about a topic."""

    partitions: int
    max_message_bytes: int | None = DEFAULT_MAX_MESSAGE_BYTES  #: None if unknown: the broker checks it


@dataclass(frozen=True, slots=True)
class Blob:
    topic: str
    partition: int
    data: Buffer
    records: int


class Encoder:
    """Encodes for these topics. If `topic` is given, all rows go there.

    `encode` takes rows and gives all of their batches. `add` and `finish` do the same for rows that come in pieces, and
    give larger batches. `spread` is the partition where rows without a key begin: tasks should not all have the same.
    """

    def __init__(
        self,
        topics: Mapping[str, TopicShape],
        *,
        topic: str | None = None,
        compression: Compression = Compression.NONE,
        target_bytes: int = DEFAULT_TARGET_BYTES,
        spread: int = 0,
    ) -> None:
        if not topics or target_bytes < MIN_TARGET_BYTES or any(shape.partitions < 1 for shape in topics.values()):
            raise ConfigError(
                f"an encoder needs topics with partitions, and batches of {MIN_TARGET_BYTES} bytes or more"
            )
        self._kernels: Any = jit.load("encode_kernels")
        self._topics = dict(topics)
        self._topic = next(iter(topics)) if topic is None and len(topics) == 1 else topic
        self._ignores_column = topic is not None
        self._names = list(topics)
        self._counts = np.array([shape.partitions for shape in topics.values()], np.int32)
        self._first_routes = np.concatenate([[0], np.cumsum(self._counts)[:-1]]).astype(np.int32)
        self._where = [(name, partition) for name, shape in topics.items() for partition in range(shape.partitions)]
        self._compression = compression
        self._target_bytes = min(
            target_bytes, *(shape.max_message_bytes or DEFAULT_MAX_MESSAGE_BYTES for shape in topics.values())
        )
        self._spread = spread
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._pending_max = min(MAX_PENDING_BYTES, self._target_bytes * len(self._where))

    def add(self, rows: Any) -> list[Blob]:
        """Add a RecordBatch. Returns the blobs that are complete."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        return self.finish() if self._pending_bytes >= self._pending_max else []

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
        return [blob for batch in batches if len(batch) for blob in self._encode(batch)]

    def _encode(self, rows: Any) -> list[Blob]:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if "value" not in columns:
            raise WriteFailed(f"the rows have no column 'value', only {', '.join(rows.schema.names)}")
        keys = bytes_column("key", columns["key"]) if "key" in columns else ABSENT
        values = bytes_column("value", columns["value"])
        lists, names, contents = NO_LISTS, ABSENT, ABSENT
        if "headers" in columns:
            lists, names, contents = header_columns(columns["headers"])
        count = len(rows)
        size = keys.size + values.size + names.size + contents.size
        routes = self._route(columns, keys, count, size)
        ends, order = np.zeros(len(self._where), np.int64), np.empty(count, np.int64)
        self._kernels.sort_by_route(routes, ends, order)

        headers = max(0, names.offsets.size - 1)
        size += count * self._kernels.RECORD_OVERHEAD_BYTES + headers * self._kernels.RECORD_HEADER_OVERHEAD_BYTES
        # Two batches of one partition in a row are together larger than the target.
        batches_max = min(count, len(self._where) + 4 * size // self._target_bytes)
        out = np.empty(size + batches_max * HEADER_BYTES, np.uint8)
        table = np.empty((batches_max, self._kernels.COLUMNS), np.int64)
        times = times_ms(columns.get("timestamp"), time.time_ns() // 1_000_000, count)
        made = self._kernels.encode_rows(
            order, ends, tuple(keys), tuple(values), times, tuple(lists), tuple(names), tuple(contents),
            self._target_bytes, out, table,
        )  # fmt: skip
        return self._finished(out.data, table[:made])

    def _route(self, columns: Mapping[str, Any], keys: BytesColumn, count: int, size: int) -> Ints:
        """Each row's place among all partitions of all topics."""
        topics = self._topic_indexes(columns.get("topic"), count)
        wanted = wanted_partitions(columns.get("partition"))
        if wanted.size and int(wanted.min()) < -1:
            raise WriteFailed(f"row {int(wanted.argmin())} asks for the partition {int(wanted.min())}")
        unkeyed = columns["key"].null_count if keys.offsets.size else count
        sticky = max(1, -(-unkeyed // int(self._counts.max())), STICKY_BYTES * count // max(1, size))
        routes = np.empty(count, np.int32)
        bad = self._kernels.route_rows(
            tuple(keys), topics, self._first_routes, self._counts, wanted, self._spread, sticky, routes
        )
        if bad >= 0:
            name = self._names[int(topics[bad]) if topics.size else 0]
            raise WriteFailed(
                f"row {bad} asks for partition {int(wanted[bad])} of topic {name!r}, "
                f"which has {self._topics[name].partitions}"
            )
        self._spread += -(-unkeyed // sticky)
        return routes

    def _topic_indexes(self, column: Any, count: int) -> Ints:
        """Each row's topic as a number; empty when all rows are of the first one."""
        if self._topic is not None and (column is None or self._ignores_column):
            index = self._index(self._topic)
            return np.full(count, index, np.int32) if index else NO_INTS
        if column is None:
            raise WriteFailed("the rows have no column 'topic', and there is more than one topic to write to")
        if column.null_count:
            raise WriteFailed("a row's topic is null")
        encoded = column.cast(pa.string()).dictionary_encode()
        own = np.array([self._index(name) for name in encoded.dictionary.to_pylist()], np.int32)
        return np.ascontiguousarray(own[encoded.indices.to_numpy(zero_copy_only=False)])

    def _index(self, name: str) -> int:
        if name not in self._topics:
            raise TopicNotFound(f"a row is for topic {name!r}, which is not one of {', '.join(sorted(self._topics))}")
        return self._names.index(name)

    def _finished(self, out: memoryview, batches: Longs) -> list[Blob]:
        blobs = []
        for route, begin, end, count in batches.tolist():
            name, partition = self._where[route]
            data: Buffer = out[begin:end]
            if self._compression is not Compression.NONE:
                data = _compressed(out[begin:end], self._compression)
            limit = self._topics[name].max_message_bytes
            if limit is not None and len(data) > limit:
                raise WriteFailed(
                    f"a record for {name}-{partition} makes a batch of {len(data)} bytes, but the topic's "
                    f"max.message.bytes is {limit}"
                )
            blobs.append(Blob(name, partition, data, count))
        return blobs


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
