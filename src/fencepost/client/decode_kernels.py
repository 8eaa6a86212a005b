"""Record batches to columns, as machine code: find batches in fetched bytes, lay their records into Arrow buffers.

Import through `jit.load`. The bytes come from outside, and machine code checks no bounds by itself: every read here is
preceded by a check, and what does not fit ends the work with a `Fault` instead of a look beyond the buffer.
"""

from typing import Any

import numba
from numba import int32, int64, uint8, uint64

from fencepost.client import jit

copy_bytes = jit.copier()

BATCH_HEADER_BYTES = 61

#: Columns of the table of batches. POSITION and SIZE say where one lies in the fetched bytes, BODY and BODY_END where
#: its records lie, unfolded, in the bytes that are decoded.
(
    POSITION, SIZE, BASE_OFFSET, LAST_OFFSET_DELTA, ATTRIBUTES, BASE_MS, MAX_MS, PRODUCER_ID, COUNT, CRC,
    BODY, BODY_END, BATCH_COLUMNS,
) = range(13)  # fmt: skip

#: What `find_batches` and `decode_records` report instead of a count.
BAD_LENGTH, BAD_MAGIC, BAD_RECORD, BAD_HEADER = -1, -2, -3, -4

#: What the kernels report in `totals`: bytes and nulls of the two columns they wrote; after a fault, where it is.
FIRST_BYTES, SECOND_BYTES, FIRST_NULLS, SECOND_NULLS, FAULT_BATCH, TOTALS = range(6)

#: Length, attributes, two deltas, two lengths and a count take a byte each.
MIN_RECORD_BYTES = 7

_types: Any = numba.types
_u8 = _types.Array(uint8, 1, "C", readonly=True)
_table = _types.Array(int64, 2, "C", readonly=True)
_out = _types.Tuple((int32[::1], uint8[::1], uint8[::1]))  # offsets, data, bitmap of what is not null


@jit.helper
def _number(buffer: Any, at: Any, size: Any) -> Any:
    """Big-endian and signed."""
    value = int64(buffer[at])
    if value > 127:
        value -= 256
    for index in range(1, size):
        value = (value << 8) | int64(buffer[at + index])
    return value


@jit.compiled(int64(_u8, int64[:, ::1], int64[::1]))
def find_batches(fetched: Any, batches: Any, end: Any) -> Any:
    """List the whole batches, as many as the table has room for; a last one that is cut short is left out.

    `end[0]` is where to go on. Returns how many were found, or a fault at `end[0]`.
    """
    found = 0
    at = int64(0)
    while found < batches.shape[0] and at + BATCH_HEADER_BYTES <= fetched.size:
        length = _number(fetched, at + 8, 4)
        end[0] = at
        if length < BATCH_HEADER_BYTES - 12:
            return BAD_LENGTH
        if at + 12 + length > fetched.size:
            break
        if fetched[at + 16] != 2:
            return BAD_MAGIC
        batches[found, POSITION] = at
        batches[found, SIZE] = 12 + length
        batches[found, BASE_OFFSET] = _number(fetched, at, 8)
        batches[found, CRC] = _number(fetched, at + 17, 4) & 0xFFFFFFFF
        batches[found, ATTRIBUTES] = _number(fetched, at + 21, 2)
        batches[found, LAST_OFFSET_DELTA] = _number(fetched, at + 23, 4)
        batches[found, BASE_MS] = _number(fetched, at + 27, 8)
        batches[found, MAX_MS] = _number(fetched, at + 35, 8)
        batches[found, PRODUCER_ID] = _number(fetched, at + 43, 8)
        batches[found, COUNT] = _number(fetched, at + 57, 4)
        batches[found, BODY] = at + BATCH_HEADER_BYTES
        batches[found, BODY_END] = at + 12 + length
        found += 1
        at += 12 + length
    end[0] = at
    return found


@jit.helper
def _varint(body: Any, at: Any, end: Any) -> Any:
    """A signed variable-length integer and the position after it, which is -1 when it runs past `end`."""
    if at < end and body[at] < 0x80:  # nearly always
        low = int64(body[at])
        return (low >> 1) ^ -(low & 1), at + 1
    value, shift = uint64(0), uint64(0)
    while at < end and shift < uint64(70):
        byte = uint64(body[at])
        value |= (byte & uint64(0x7F)) << shift
        at += 1
        if byte < uint64(0x80):
            return int64(value >> uint64(1)) ^ -int64(value & uint64(1)), at
        shift += uint64(7)
    return int64(0), int64(-1)


@jit.helper
def _field(body: Any, at: Any, end: Any) -> Any:
    """Length (-1 for null) and beginning of a value, which is -1 when it does not lie before `end`."""
    length, at = _varint(body, at, end)
    if at < 0:
        return length, at
    if length < 0:
        return int64(-1), at
    if length > end - at:
        return length, int64(-1)
    return length, at


@jit.helper
def _put(row: Any, length: Any, body: Any, at: Any, used: Any, offsets: Any, data: Any, bitmap: Any) -> Any:
    """Append a value to a column that has `used` bytes; returns how many it has then."""
    if length >= 0:
        bitmap[row >> 3] |= uint8(1 << (row & 7))
        copy_bytes(data, used, body, at, length)
        used += length
    offsets[row + 1] = int32(used)
    return used


@jit.compiled(
    int64(_u8, _table, int64, int64, _out, _out, int64[::1], int64[::1], int32[::1], int64[:, ::1], int64[::1])
)
def decode_records(
    body: Any,
    batches: Any,
    start: Any,
    end: Any,
    keys: Any,
    values: Any,
    record_offsets: Any,
    times_us: Any,
    time_types: Any,
    tails: Any,
    totals: Any,
) -> Any:
    """Lay the records with offsets from `start` to before `end` into the columns, which have room for all of them.

    Where a record's headers begin and end is noted in `tails`, if that has rows. Returns how many rows there are, or a
    fault in the batch `totals[FAULT_BATCH]`.
    """
    key_starts, key_data, key_bits = keys
    value_starts, value_data, value_bits = values
    key_used = value_used = row = null_keys = null_values = int64(0)
    for batch in range(batches.shape[0]):
        totals[FAULT_BATCH] = batch
        at, body_end = batches[batch, BODY], batches[batch, BODY_END]
        base_offset, base_ms = batches[batch, BASE_OFFSET], batches[batch, BASE_MS]
        append_time = (batches[batch, ATTRIBUTES] >> 3) & 1
        for _ in range(batches[batch, COUNT]):
            length, at = _varint(body, at, body_end)
            if at < 0 or length < 1 or length > body_end - at:
                return BAD_RECORD
            record_end = at + length
            delta_ms, at = _varint(body, at + 1, record_end)
            if at < 0:
                return BAD_RECORD
            delta, at = _varint(body, at, record_end)
            if at < 0:
                return BAD_RECORD
            offset = base_offset + delta
            if offset < start or offset >= end:
                at = record_end
                continue
            key_length, key_at = _field(body, at, record_end)
            if key_at < 0:
                return BAD_RECORD
            value_length, value_at = _field(body, key_at + max(key_length, 0), record_end)
            if value_at < 0:
                return BAD_RECORD
            key_used = _put(row, key_length, body, key_at, key_used, key_starts, key_data, key_bits)
            value_used = _put(row, value_length, body, value_at, value_used, value_starts, value_data, value_bits)
            null_keys += key_length < 0
            null_values += value_length < 0
            record_offsets[row] = offset
            times_us[row] = 1000 * (batches[batch, MAX_MS] if append_time else base_ms + delta_ms)
            time_types[row] = int32(append_time)
            if tails.shape[0] > 0:
                tails[row, 0], tails[row, 1] = value_at + max(value_length, 0), record_end
            row += 1
            at = record_end
        if at != body_end:
            return BAD_RECORD
    totals[FIRST_BYTES], totals[SECOND_BYTES] = key_used, value_used
    totals[FIRST_NULLS], totals[SECOND_NULLS] = null_keys, null_values
    return row


@jit.compiled(int64(_u8, _table, int64, int32[::1]))
def count_headers(body: Any, tails: Any, rows: Any, list_offsets: Any) -> Any:
    """Where each row's headers begin among all of them; returns how many there are, or a fault."""
    total = int64(0)
    for row in range(rows):
        count, at = _varint(body, tails[row, 0], tails[row, 1])
        if at < 0 or count < 0 or 2 * count > tails[row, 1] - at:  # a header is two lengths at least
            return BAD_HEADER
        total += count
        list_offsets[row + 1] = int32(total)
    return total


@jit.compiled(int64(_u8, _table, int64, _out, _out, int64[::1]))
def decode_headers(body: Any, tails: Any, rows: Any, names: Any, contents: Any, totals: Any) -> Any:
    """Lay all headers into the columns. Returns how many, or a fault; a header's key must not be null."""
    name_starts, name_data, name_bits = names
    content_starts, content_data, content_bits = contents
    name_used = content_used = header = nulls = int64(0)
    for row in range(rows):
        end = tails[row, 1]
        count, at = _varint(body, tails[row, 0], end)
        for _ in range(count):
            name_length, name_at = _field(body, at, end)
            if name_at < 0 or name_length < 0:
                return BAD_HEADER
            length, content_at = _field(body, name_at + name_length, end)
            if content_at < 0:
                return BAD_HEADER
            name_used = _put(header, name_length, body, name_at, name_used, name_starts, name_data, name_bits)
            content_used = _put(
                header, length, body, content_at, content_used, content_starts, content_data, content_bits
            )
            nulls += length < 0
            at = content_at + max(length, 0)
            header += 1
        if at != end:
            return BAD_HEADER
    totals[FIRST_BYTES], totals[SECOND_BYTES], totals[SECOND_NULLS] = name_used, content_used, nulls
    return header
