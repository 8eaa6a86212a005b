"""Columns to record batches, as machine code: which partition a row goes to, and the bytes it becomes there.

Import through `jit.load`. A column of bytes comes as Arrow has it: offsets (row i lies between `offsets[i]` and
`offsets[i + 1]`), data, and a bitmap of what is not null, which starts at some bit and is empty when nothing is null.
A column that is absent has no offsets at all, and every row of it is null.

The layout of a batch is in `wire.batch`, that of a record in `wire.records`; tests hold the two against each other.
"""

from typing import Any

import numba
from numba import int32, int64, uint8, uint64, void

from fencepost.client import jit

copy_bytes = jit.copier()

BATCH_HEADER_BYTES = 61

#: What a record takes beside key, value and headers, at the very most: length, attributes, two deltas, three counts.
RECORD_OVERHEAD_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5
#: The same for one header: two lengths.
RECORD_HEADER_OVERHEAD_BYTES = 5 + 5

#: Columns of the table of batches that `encode_rows` fills.
ROUTE, BEGIN, END, COUNT, FIRST_ROW, COLUMNS = 0, 1, 2, 3, 4, 5

_SEED, _M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF

_types: Any = numba.types
_u8 = _types.Array(uint8, 1, "C", readonly=True)
_i32 = _types.Array(int32, 1, "C", readonly=True)
_i64 = _types.Array(int64, 1, "C", readonly=True)
_bytes = _types.Tuple((_i32, _u8, _u8, int64))  # offsets, data, bitmap, first bit
_lists = _types.Tuple((_i32, _u8, int64))  # offsets, bitmap, first bit


@jit.helper
def _is_null(bitmap: Any, bit: Any) -> Any:
    return bitmap.size > 0 and (bitmap[bit >> 3] >> (bit & 7)) & 1 == 0


@jit.helper
def _murmur2(data: Any, start: Any, end: Any) -> Any:
    """The 32-bit hash of Kafka's default partitioner (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    mask, m = uint64(_MASK), uint64(_M)
    length = end - start
    h = uint64(_SEED) ^ uint64(length)
    position = start
    for _ in range(length >> 2):
        k = uint64(data[position]) | uint64(data[position + 1]) << uint64(8)
        k |= uint64(data[position + 2]) << uint64(16) | uint64(data[position + 3]) << uint64(24)
        k = (k * m) & mask
        k ^= k >> uint64(24)
        k = (k * m) & mask
        h = ((h * m) & mask) ^ k
        position += 4
    left = end - position
    if left == 3:
        h ^= uint64(data[position + 2]) << uint64(16)
    if left >= 2:
        h ^= uint64(data[position + 1]) << uint64(8)
    if left >= 1:
        h ^= uint64(data[position])
        h = (h * m) & mask
    h ^= h >> uint64(13)
    h = (h * m) & mask
    return h ^ (h >> uint64(15))


@jit.compiled(void(_bytes, _i32, _i32, _i32, _i32, int64, int64, int32[::1]))
def route_rows(
    keys: Any, topics: Any, first_routes: Any, counts: Any, wanted: Any, spread: Any, sticky: Any, routes: Any
) -> None:
    """Give each row its route: its topic's first route plus its partition.

    `topics` has each row's topic (or nothing when all are of topic 0); `wanted` its partition, -1 where the key
    decides (or nothing). Both have been checked. A row without a key goes where the rows before it went, `sticky` rows
    at a time, in turn from the partition `spread` on.
    """
    offsets, data, bitmap, first_bit = keys
    unkeyed = 0
    for row in range(routes.size):
        topic = topics[row] if topics.size else 0
        count = counts[topic]
        partition = int64(wanted[row]) if wanted.size else -1
        if partition < 0:
            if offsets.size == 0 or _is_null(bitmap, first_bit + row):
                partition = (spread + unkeyed // sticky) % count
                unkeyed += 1
            else:
                partition = int64(_murmur2(data, offsets[row], offsets[row + 1]) & uint64(0x7FFFFFFF)) % count
        routes[row] = first_routes[topic] + partition


@jit.compiled(void(_i32, int64[::1], int64[::1]))
def sort_by_route(routes: Any, ends: Any, order: Any) -> None:
    """A counting sort: rows in order of route and then of row; `ends[r]` is where route r ends in that order.

    `ends` is zero when this begins.
    """
    for row in range(routes.size):
        ends[routes[row]] += 1
    total = 0
    for route in range(ends.size):  # from counts to where each route begins
        count = ends[route]
        ends[route] = total
        total += count
    for row in range(routes.size):
        route = routes[row]
        order[ends[route]] = row
        ends[route] += 1


@jit.helper
def _zigzag(value: Any) -> Any:
    return uint64((value << 1) ^ (value >> 63))


@jit.helper
def _varint_size(value: Any) -> Any:
    """Bytes of a signed variable-length integer."""
    left = _zigzag(int64(value))
    size = 1
    while left > uint64(0x7F):
        left >>= uint64(7)
        size += 1
    return size


@jit.helper
def _put_varint(out: Any, at: Any, value: Any) -> Any:
    left = _zigzag(int64(value))
    while left > uint64(0x7F):
        out[at] = uint8(left & uint64(0x7F)) | uint8(0x80)
        left >>= uint64(7)
        at += 1
    out[at] = uint8(left)
    return at + 1


@jit.helper
def _length(offsets: Any, bitmap: Any, first_bit: Any, row: Any) -> Any:
    """Bytes of one value, -1 when it is null."""
    if offsets.size == 0 or _is_null(bitmap, first_bit + row):
        return int64(-1)
    return int64(offsets[row + 1]) - int64(offsets[row])


@jit.helper
def _size(length: Any) -> Any:
    """Bytes that a value of this length takes in a record."""
    return _varint_size(length) + max(length, 0)


@jit.helper
def _put_field(out: Any, at: Any, length: Any, offsets: Any, data: Any, row: Any) -> Any:
    at = _put_varint(out, at, length)
    if length > 0:
        copy_bytes(out, at, data, int64(offsets[row]), length)
        at += length
    return at


@jit.helper
def _put_number(out: Any, at: Any, value: Any, size: Any) -> None:
    """Big-endian."""
    for index in range(size):
        out[at + size - 1 - index] = uint8((value >> (8 * index)) & 0xFF)


@jit.helper
def _put_batch_header(out: Any, begin: Any, end: Any, count: Any, first_ms: Any, last_ms: Any) -> None:
    """Without producer and CRC: the writer stamps the producer, and then computes the CRC."""
    _put_number(out, begin, 0, 8)  # base offset
    _put_number(out, begin + 8, end - begin - 12, 4)
    _put_number(out, begin + 12, -1, 4)  # leader epoch
    out[begin + 16] = 2  # magic
    _put_number(out, begin + 17, 0, 6)  # CRC and attributes
    _put_number(out, begin + 23, count - 1, 4)
    _put_number(out, begin + 27, first_ms, 8)
    _put_number(out, begin + 35, last_ms, 8)
    _put_number(out, begin + 43, -1, 8)  # producer id, epoch and sequence: none
    _put_number(out, begin + 51, -1, 2)
    _put_number(out, begin + 53, -1, 4)
    _put_number(out, begin + 57, count, 4)


@jit.compiled(int64(_i64, _i64, _bytes, _bytes, _i64, _lists, _bytes, _bytes, int64, uint8[::1], int64[:, ::1]))
def encode_rows(
    order: Any,
    ends: Any,
    keys: Any,
    values: Any,
    times_ms: Any,
    headers: Any,
    header_keys: Any,
    header_values: Any,
    target_bytes: Any,
    out: Any,
    batches: Any,
) -> Any:
    """Write the rows in this order as batches into `out`, which is large enough, and list them in `batches`.

    A batch holds rows of one route, and as many as fit into `target_bytes`, but one at least. Returns their number.
    """
    # Unpacked once: handing the tuples down would count references, atomically, for every record.
    key_offsets, key_data, key_bits, key_bit = keys
    value_offsets, value_data, value_bits, value_bit = values
    list_offsets, list_bits, list_bit = headers
    name_offsets, name_data, name_bits, name_bit = header_keys
    content_offsets, content_data, content_bits, content_bit = header_values
    at = row = made = 0
    for route in range(ends.size):
        while row < ends[route]:
            begin, count, first_row = at, 0, order[row]
            at += BATCH_HEADER_BYTES
            first_ms = last_ms = times_ms[first_row]
            while row < ends[route]:
                source = order[row]
                delta_ms = times_ms[source] - first_ms
                key_length = _length(key_offsets, key_bits, key_bit, source)
                value_length = _length(value_offsets, value_bits, value_bit, source)
                first_header = end_header = int64(0)
                if list_offsets.size > 0 and not _is_null(list_bits, list_bit + source):
                    first_header, end_header = int64(list_offsets[source]), int64(list_offsets[source + 1])
                size = 1 + _varint_size(delta_ms) + _varint_size(count) + _varint_size(end_header - first_header)
                size += _size(key_length) + _size(value_length)
                for header in range(first_header, end_header):
                    size += _size(_length(name_offsets, name_bits, name_bit, header))
                    size += _size(_length(content_offsets, content_bits, content_bit, header))
                if count and at - begin + size + _varint_size(size) > target_bytes:
                    break
                at = _put_varint(out, at, size)
                out[at] = 0  # attributes
                at = _put_varint(out, at + 1, delta_ms)
                at = _put_varint(out, at, count)
                at = _put_field(out, at, key_length, key_offsets, key_data, source)
                at = _put_field(out, at, value_length, value_offsets, value_data, source)
                at = _put_varint(out, at, end_header - first_header)
                for header in range(first_header, end_header):
                    name_length = _length(name_offsets, name_bits, name_bit, header)
                    at = _put_field(out, at, name_length, name_offsets, name_data, header)
                    content_length = _length(content_offsets, content_bits, content_bit, header)
                    at = _put_field(out, at, content_length, content_offsets, content_data, header)
                last_ms = max(last_ms, times_ms[source])
                count += 1
                row += 1
            _put_batch_header(out, begin, at, count, first_ms, last_ms)
            batches[made, ROUTE], batches[made, BEGIN], batches[made, END] = route, begin, at
            batches[made, COUNT], batches[made, FIRST_ROW] = count, first_row
            made += 1
    return made
