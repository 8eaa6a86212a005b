"""Fetched bytes to Arrow columns with the schema of Spark's Kafka source.

There are two steps, so that the next fetch can run during the second. `scan` only looks at batch headers: where the
bytes end, and which batches to read. `columns` verifies, decompresses and decodes those, in pieces of limited size. It
drops control batches, records outside the range and, with read_committed, aborted transactions.

Any bytes either decode or raise Malformed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from crc32c import crc32c

from fencepost.client import jit
from fencepost.client.arrow import Bytes, Ints, Longs
from fencepost.errors import Malformed
from fencepost.wire.batch import ATTRIBUTES_OFFSET, COMPRESSION_MASK, CONTROL_FLAG, TRANSACTIONAL_FLAG
from fencepost.wire.compression import Compression, decompress
from fencepost.wire.fetch import Aborted
from fencepost.wire.records import decode_marker
from fencepost.wire.terms import TopicPartition

#: Spark's timestamps are microseconds.
TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS))

DEFAULT_BATCH_BYTES = 8 << 20
#: Arrow's binary columns count bytes in 31 bits.
MAX_BATCH_BYTES = 1 << 30

BATCHES_PER_SCAN = 4096


class Scanned(NamedTuple):
    """The batches in fetched bytes."""

    fetched: Bytes
    start: int  #: records before this offset are not wanted
    batches: Longs  #: those that hold records to be read; columns as in `decode_kernels`
    next_offset: int  #: one past the last whole batch, -1 when there is none


class _Buffers(NamedTuple):
    """A column of bytes that is being filled."""

    offsets: Ints
    data: Bytes
    bitmap: Bytes

    @classmethod
    def room_for(cls, rows: int, size: int) -> "_Buffers":
        return cls(np.zeros(rows + 1, np.int32), np.empty(size, np.uint8), np.zeros((rows + 7) >> 3, np.uint8))

    def array(self, kind: Any, rows: int, size: int, nulls: int) -> Any:
        bitmap = pa.py_buffer(self.bitmap) if nulls else None
        buffers = [bitmap, pa.py_buffer(self.offsets), pa.py_buffer(self.data[:size])]
        return pa.Array.from_buffers(kind, rows, buffers, nulls)


class Decoder:
    """Decodes one partition's records before `end`."""

    def __init__(
        self,
        where: TopicPartition,
        end: int,
        *,
        include_headers: bool = False,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
    ) -> None:
        self._kernels: Any = jit.load("client.decode_kernels")
        self._where = where
        self._end = end
        self._include_headers = include_headers
        self._batch_bytes = min(batch_bytes, MAX_BATCH_BYTES)
        self._topics: Any = pa.array([], pa.string())
        self._partitions: Any = pa.array([], pa.int32())

    # -- headers -----------------------------------------------------------------------------------------------------

    def scan(self, fetched: memoryview, start: int, aborted: Sequence[Aborted]) -> Scanned:
        """What was fetched from offset `start` on, which may lie inside the first batch.

        `aborted` are the aborted transactions that the answer named; none unless read_committed was asked for.
        """
        kernels = self._kernels
        buffer = np.frombuffer(fetched, np.uint8) if len(fetched) else np.empty(0, np.uint8)
        tables = []
        position, end = 0, np.zeros(1, np.int64)
        while True:
            table = np.empty((BATCHES_PER_SCAN, kernels.BATCH_COLUMNS), np.int64)
            found = kernels.find_batches(buffer[position:], table, end)
            if found < 0:
                what = "an unknown format" if found == kernels.BAD_MAGIC else "an impossible length"
                raise Malformed(f"{self._where}: a batch has {what}, {position + int(end[0])} bytes into the answer")
            table = table[:found]
            for column in (kernels.POSITION, kernels.BODY, kernels.BODY_END):
                table[:, column] += position
            tables.append(table)
            position += int(end[0])
            if found < BATCHES_PER_SCAN:
                break
        batches = np.concatenate(tables) if len(tables) > 1 else tables[0]
        if not len(batches):
            return Scanned(buffer, start, batches, -1)
        last = batches[:, kernels.BASE_OFFSET] + batches[:, kernels.LAST_OFFSET_DELTA]
        wanted = (last >= start) & (batches[:, kernels.BASE_OFFSET] < self._end)
        wanted &= batches[:, kernels.ATTRIBUTES] & CONTROL_FLAG == 0
        if aborted:
            wanted &= ~self._aborted(buffer, batches, last, aborted)
        return Scanned(buffer, start, np.ascontiguousarray(batches[wanted]), int(last[-1]) + 1)

    def _aborted(self, buffer: Bytes, batches: Longs, last: Longs, aborted: Sequence[Aborted]) -> Any:
        """Which batches belong to aborted transactions.

        A producer's transaction is aborted from its first offset on until its marker; several may follow each other.
        """
        kernels = self._kernels
        coming = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        active: set[int] = set()
        skipped = np.zeros(len(batches), np.bool_)
        columns = (kernels.PRODUCER_ID, kernels.ATTRIBUTES, kernels.POSITION, kernels.SIZE)
        rows = zip(last.tolist(), *(batches[:, column].tolist() for column in columns), strict=True)
        for index, (last_offset, producer_id, attributes, position, size) in enumerate(rows):
            while coming and coming[-1].first_offset <= last_offset:
                active.add(coming.pop().producer_id)
            if producer_id not in active or not attributes & TRANSACTIONAL_FLAG:
                continue
            if not attributes & CONTROL_FLAG:
                skipped[index] = True
            elif (marker := decode_marker(buffer[position : position + size].data)) is not None and not marker.commit:
                active.discard(producer_id)
        return skipped

    # -- records -----------------------------------------------------------------------------------------------------

    def columns(self, scanned: Scanned) -> Iterator[Any]:
        """The records as RecordBatches of about `batch_bytes`. The fetched bytes are not referred to afterwards."""
        for body, batches in self._unfold(scanned):
            made = self._to_arrow(body, batches, scanned.start)
            if len(made):
                yield made

    def _unfold(self, scanned: Scanned) -> Iterator[tuple[Bytes, Longs]]:
        """Groups of batches whose records lie in one buffer: the fetched bytes, or what compressed ones unfold to."""
        kernels = self._kernels
        first = size = 0
        pieces: list[Bytes] = []
        batches = scanned.batches
        is_plain = not np.any(batches[:, kernels.ATTRIBUTES] & COMPRESSION_MASK)
        for index in range(len(batches)):
            body = self._body(scanned.fetched, batches[index])
            if not is_plain:
                batches[index, kernels.BODY], batches[index, kernels.BODY_END] = size, size + len(body)
                pieces.append(body)
            size += len(body)
            if not 0 <= batches[index, kernels.COUNT] * kernels.MIN_RECORD_BYTES <= len(body):
                raise self._malformed(batches[index], "it cannot hold as many records as it claims")
            if size >= self._batch_bytes or index == len(batches) - 1:
                yield scanned.fetched if is_plain else np.concatenate(pieces), batches[first : index + 1]
                first, size, pieces = index + 1, 0, []

    def _body(self, fetched: Bytes, batch: Longs) -> Bytes:
        """A batch's records, verified and decompressed."""
        kernels = self._kernels
        begin, end = int(batch[kernels.POSITION]), int(batch[kernels.BODY_END])
        if crc32c(fetched[begin + ATTRIBUTES_OFFSET : end].data) != int(batch[kernels.CRC]):
            raise self._malformed(batch, "its checksum is wrong")
        body = fetched[begin + kernels.BATCH_HEADER_BYTES : end]
        codec = int(batch[kernels.ATTRIBUTES]) & COMPRESSION_MASK
        if not codec:
            return body
        try:
            return np.frombuffer(decompress(Compression(codec), body.data), np.uint8)
        except (Malformed, ValueError) as error:
            raise self._malformed(batch, str(error)) from None

    def _to_arrow(self, body: Bytes, batches: Longs, start: int) -> Any:
        kernels = self._kernels
        size = int((batches[:, kernels.BODY_END] - batches[:, kernels.BODY]).sum())
        room = int(batches[:, kernels.COUNT].sum())
        keys, values = _Buffers.room_for(room, size), _Buffers.room_for(room, size)
        offsets, times_us = np.empty(room, np.int64), np.empty(room, np.int64)
        time_types = np.empty(room, np.int32)
        tails = np.empty((room if self._include_headers else 0, 2), np.int64)
        totals = np.zeros(kernels.TOTALS, np.int64)
        rows = kernels.decode_records(
            body, batches, start, self._end, tuple(keys), tuple(values), offsets, times_us, time_types, tails,
            totals,
        )  # fmt: skip
        if rows < 0:
            raise self._malformed(batches[int(totals[kernels.FAULT_BATCH])], "a record does not fit its length")
        key_bytes, value_bytes, null_keys, null_values = totals[: kernels.SECOND_NULLS + 1].tolist()
        arrays = [
            keys.array(pa.binary(), rows, key_bytes, null_keys),
            values.array(pa.binary(), rows, value_bytes, null_values),
            *self._constants(rows),
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets)], 0),
            pa.Array.from_buffers(TIMESTAMP, rows, [None, pa.py_buffer(times_us)], 0),
            pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(time_types)], 0),
        ]
        if not self._include_headers:
            return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        return pa.RecordBatch.from_arrays([*arrays, self._headers(body, tails, rows)], schema=SCHEMA_WITH_HEADERS)

    def _constants(self, rows: int) -> tuple[Any, Any]:
        """Topic and partition of every row: slices of what was made for the largest batch so far."""
        if len(self._topics) < rows:
            self._topics = pa.repeat(pa.scalar(self._where.topic, pa.string()), rows)
            self._partitions = pa.repeat(pa.scalar(self._where.partition, pa.int32()), rows)
        return self._topics.slice(0, rows), self._partitions.slice(0, rows)

    def _headers(self, body: Bytes, tails: Longs, rows: int) -> Any:
        kernels = self._kernels
        starts = np.zeros(rows + 1, np.int32)
        count = kernels.count_headers(body, tails, rows, starts)
        if count < 0:
            raise Malformed(f"{self._where}: a record's header count does not fit its length")
        size = int((tails[:rows, 1] - tails[:rows, 0]).sum())
        names, contents = _Buffers.room_for(count, size), _Buffers.room_for(count, size)
        totals = np.zeros(kernels.TOTALS, np.int64)
        if kernels.decode_headers(body, tails, rows, tuple(names), tuple(contents), totals) < 0:
            raise Malformed(f"{self._where}: a record's headers do not fit their length")
        name_bytes, content_bytes, _, nulls = totals[: kernels.SECOND_NULLS + 1].tolist()
        fields = [
            _text(names.array(pa.binary(), count, name_bytes, 0)),
            contents.array(pa.binary(), count, content_bytes, nulls),
        ]
        items = pa.StructArray.from_arrays(fields, fields=list(HEADERS.value_type))
        has_any = np.diff(starts) > 0  # a record without headers has null, as in Spark's own source
        without = rows - int(np.count_nonzero(has_any))
        bitmap = pa.py_buffer(np.packbits(has_any, bitorder="little")) if without else None
        return pa.Array.from_buffers(HEADERS, rows, [bitmap, pa.py_buffer(starts)], without, children=[items])

    def _malformed(self, batch: Longs, what: str) -> Malformed:
        offset = int(batch[self._kernels.BASE_OFFSET])
        return Malformed(f"{self._where}: the batch at offset {offset} is corrupt: {what}")


def _text(array: Any) -> Any:
    """Bytes as text; what is not UTF-8 gets replacement characters, as in Kafka's own clients."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([item.decode("utf-8", "replace") for item in array.to_pylist()], pa.string())
