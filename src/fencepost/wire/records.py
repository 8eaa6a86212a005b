"""The records inside a batch: read for lookups, written and read for compaction and the coordinators' logs.

A record is `length attributes timestampDelta offsetDelta keyLength key valueLength value headerCount headers`. Every
number is a zigzag varint, except the attributes byte.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fencepost.errors import Malformed
from fencepost.wire import batch as batches
from fencepost.wire.batch import BatchHeader
from fencepost.wire.compression import Compression, compress, decompress
from fencepost.wire.varint import read_signed, read_unsigned, write_signed

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes | None
    value: bytes | None
    timestamp: int = batches.NO_TIMESTAMP
    offset: int = 0
    headers: Headers = field(default=())


@dataclass(frozen=True, slots=True)
class Marker:
    """The value of a control record: how a transaction ended. Its key is `version=0, type`."""

    commit: bool
    coordinator_epoch: int


def encode_batch(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    producer_id: int = batches.NO_PRODUCER_ID,
    producer_epoch: int = batches.NO_PRODUCER_EPOCH,
    base_sequence: int = batches.NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """A batch of these records at consecutive offsets. Their own `offset` is ignored."""
    base_timestamp = records[0].timestamp
    body = bytearray()
    for delta, record in enumerate(records):
        encode_record(body, record, record.timestamp - base_timestamp, delta)
    attributes = (
        int(compression)
        | (batches.TRANSACTIONAL_FLAG if transactional else 0)
        | (batches.CONTROL_FLAG if control else 0)
    )
    return batches.pack_batch(
        compress(compression, bytes(body)),
        record_count=len(records),
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        base_offset=base_offset,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(b"\x00")
    write_signed(body, timestamp_delta)
    write_signed(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_signed(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, value)
    write_signed(out, len(body))
    out += body


def decode_batch(batch: bytes | bytearray | memoryview, header: BatchHeader | None = None) -> Iterator[Record]:
    """The records of one whole batch. Raises Malformed if the bytes do not match the header."""
    if len(batch) < batches.HEADER_BYTES:
        raise Malformed("batch is shorter than its header")
    header = header or batches.read_header(batch)
    body = decompress(header.compression, memoryview(batch)[batches.HEADER_BYTES : header.size])
    position = 0
    for _ in range(header.record_count):
        record, position = _decode_record(body, position, header)
        yield record
    if position != len(body):
        raise Malformed("batch has more bytes than its record count explains")


#: `_STRIDES[first][second]`: the size of a record that begins with these two bytes, its length included. None where two
#: bytes do not tell, or the length is negative.
_STRIDES: tuple[tuple[Any, ...], ...] = tuple(
    (None,) * 256
    if first & 1
    else (1 + (first >> 1),) * 256
    if first < 0x80
    else tuple(None if second >= 0x80 else 2 + ((first & 0x7F | second << 7) >> 1) for second in range(256))
    for first in range(256)
)


def count_records(body: bytes | bytearray | memoryview) -> int:
    """The number of whole records in these (decompressed) bytes, by their lengths alone.

    This is the hot path, so lengths of one and two bytes (records up to 8 KB) are looked up.
    """
    data, strides = b"".join((body, b"\0")), _STRIDES
    position = count = 0
    end = len(data) - 1
    while position < end:
        try:
            while position < end:
                position += strides[data[position]][data[position + 1]]
                count += 1
        except TypeError:  # None
            length, position = read_unsigned(data, position)
            if length & 1:
                raise Malformed("record has a negative length") from None
            position += length >> 1
            count += 1
    if position != end:
        raise Malformed("last record of the batch is truncated")
    return count


def encode_marker(
    *, commit: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp: int
) -> bytearray:
    """A control batch of one record that ends a transaction on a partition."""
    return bytearray(_marker(commit, coordinator_epoch, producer_id, producer_epoch, timestamp))


@lru_cache(16)
def _marker(commit: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp: int) -> bytes:
    """Kept, because a transaction's marker is the same on all of its partitions within a millisecond."""
    record = Record(struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch), timestamp)
    batch = encode_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )
    return bytes(batch)


def decode_marker(batch: bytes | bytearray | memoryview) -> Marker | None:
    """The marker in a control batch, or None if its record is of another kind."""
    record = next(decode_batch(batch), None)
    if record is None or record.key is None or len(record.key) < 4 or record.value is None or len(record.value) < 6:
        return None
    _, kind = struct.unpack_from(">hh", record.key)
    if kind not in (0, 1):
        return None
    _, coordinator_epoch = struct.unpack_from(">hi", record.value)
    return Marker(commit=kind == 1, coordinator_epoch=coordinator_epoch)


def _decode_record(body: bytes | memoryview, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_signed(body, position)
    end = position + length
    if length < 1 or end > len(body):
        raise Malformed("record's length runs past the end of its batch")
    timestamp_delta, position = read_signed(body, position + 1)
    offset_delta, position = read_signed(body, position)
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    count, position = read_signed(body, position)
    if not 0 <= count <= end - position:
        raise Malformed("record's header count does not fit its length")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        header_value, position = _read_bytes(body, position, end)
        if name is None:
            raise Malformed("header has no key")
        try:
            headers.append((name.decode(), header_value))
        except UnicodeDecodeError:
            raise Malformed("header key is not UTF-8") from None
    if position != end:
        raise Malformed("record's length does not fit its content")
    timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + timestamp_delta
    return Record(key, value, timestamp, header.base_offset + offset_delta, tuple(headers)), position


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_signed(out, -1)
    else:
        write_signed(out, len(value))
        out += value


def _read_bytes(body: bytes | memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_signed(body, position)
    if length < 0:
        return None, position
    if position + length > end:
        raise Malformed("key, value or header runs past the end of its record")
    return bytes(body[position : position + length]), position + length
