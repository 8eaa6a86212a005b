"""Strings, bytes and structures to JSON text, as machine code. Import through `jit.load`.

Every kernel appends the texts of all rows to `out`, which is large enough, and notes in `ends[row + 1]` where row's
text ends. A row that is null has no text. `bitmap` says what is not null, from `first_bit` on; it is empty when nothing
is null.
"""

from typing import Any

import numba
from numba import int32, int64, uint8, void

from fencepost.client import jit

copy_bytes = jit.copier()
copy_from = jit.gatherer()
load_long = jit.loader(int64)
load_byte = jit.loader(uint8)

#: Columns of the table of fields that `join_fields` takes: addresses of offsets, data and bitmap, and the first bit.
OFFSETS, DATA, BITMAP, FIRST_BIT = 0, 1, 2, 3

_types: Any = numba.types
_u8 = _types.Array(uint8, 1, "C", readonly=True)
_i32 = _types.Array(int32, 1, "C", readonly=True)
_i64 = _types.Array(int64, 1, "C", readonly=True)
_texts = _types.Tuple((_i64, _u8, _u8, int64))  # ends, data, bitmap, first bit
_fields = _types.Array(int64, 2, "C", readonly=True)

_QUOTE, _BACKSLASH, _COMMA, _COLON, _ZERO = 34, 92, 44, 58, 48


@jit.helper
def _is_null(bitmap: Any, bit: Any) -> Any:
    return bitmap.size > 0 and (bitmap[bit >> 3] >> (bit & 7)) & 1 == 0


@jit.helper
def _put(out: Any, at: Any, text: Any) -> Any:
    for index in range(len(text)):
        out[at + index] = text[index]
    return at + len(text)


# -- texts -------------------------------------------------------------------------------------------------------------


@jit.compiled(void(_u8, int64, int64, int64[::1]))
def survey(data: Any, begin: Any, end: Any, found: Any) -> None:
    """How much longer escapes make these bytes at most, and whether one of them is not ASCII."""
    special, control, high = int64(0), int64(0), uint8(0)
    for place in range(begin, end):
        byte = data[place]
        special += 1 if byte in (_QUOTE, _BACKSLASH) else 0
        control += 1 if byte < 32 else 0
        high |= byte
    found[0] = special + 5 * control
    found[1] = high >> 7


@jit.helper
def _put_escaped(out: Any, at: Any, byte: Any) -> Any:
    """As Jackson does: the short escapes, and capitals in the long ones."""
    if byte != _QUOTE and byte != _BACKSLASH and byte >= 32:
        out[at] = byte
        return at + 1
    out[at] = _BACKSLASH
    short = byte
    if byte < 32:
        short = uint8(0)
        if byte == 8:
            short = uint8(98)
        elif byte == 9:
            short = uint8(116)
        elif byte == 10:
            short = uint8(110)
        elif byte == 12:
            short = uint8(102)
        elif byte == 13:
            short = uint8(114)
    if short:
        out[at + 1] = short
        return at + 2
    at = _put(out, at + 1, b"u00")
    out[at] = _ZERO + (byte >> 4)
    low = byte & 15
    out[at + 1] = _ZERO + low if low < 10 else 55 + low
    return at + 2


@jit.compiled(int64(_i32, _u8, int64, _u8, int64, uint8[::1], int64[::1]))
def quote_strings(offsets: Any, data: Any, has_escapes: Any, bitmap: Any, first_bit: Any, out: Any, ends: Any) -> Any:
    at = int64(0)
    ends[0] = 0
    for row in range(ends.size - 1):
        if not _is_null(bitmap, first_bit + row):
            begin, end = int64(offsets[row]), int64(offsets[row + 1])
            out[at] = _QUOTE
            at += 1
            if has_escapes:
                for place in range(begin, end):
                    at = _put_escaped(out, at, data[place])
            else:
                copy_bytes(out, at, data, begin, end - begin)
                at += end - begin
            out[at] = _QUOTE
            at += 1
        ends[row + 1] = at
    return at


@jit.compiled(int64(_i32, _u8, _u8, _u8, int64, uint8[::1], int64[::1]))
def quote_base64(offsets: Any, data: Any, alphabet: Any, bitmap: Any, first_bit: Any, out: Any, ends: Any) -> Any:
    at = int64(0)
    ends[0] = 0
    for row in range(ends.size - 1):
        if not _is_null(bitmap, first_bit + row):
            begin, end = int64(offsets[row]), int64(offsets[row + 1])
            out[at] = _QUOTE
            at += 1
            place = begin
            while place < end:
                left = end - place
                three = int64(data[place]) << 16
                if left > 1:
                    three |= int64(data[place + 1]) << 8
                if left > 2:
                    three |= int64(data[place + 2])
                out[at], out[at + 1] = alphabet[three >> 18], alphabet[(three >> 12) & 63]
                out[at + 2] = alphabet[(three >> 6) & 63] if left > 1 else uint8(61)
                out[at + 3] = alphabet[three & 63] if left > 2 else uint8(61)
                at += 4
                place += 3
            out[at] = _QUOTE
            at += 1
        ends[row + 1] = at
    return at


# -- structures --------------------------------------------------------------------------------------------------------


@jit.compiled(int64(_fields, _i64, _u8, _u8, int64, uint8[::1], int64[::1]))
def join_fields(fields: Any, name_ends: Any, names: Any, bitmap: Any, first_bit: Any, out: Any, ends: Any) -> Any:
    """Objects, of one field for each row of the table `fields`. Fields that are null are left out.

    `names` has each name with its quotes and colon, one after another.
    """
    at = int64(0)
    ends[0] = 0
    for row in range(ends.size - 1):
        if not _is_null(bitmap, first_bit + row):
            out[at] = 123
            at += 1
            is_first = True
            for field in range(fields.shape[0]):
                bits = fields[field, BITMAP]
                bit = fields[field, FIRST_BIT] + row
                if bits == 0 or (load_byte(bits, bit >> 3) >> (bit & 7)) & 1:
                    if not is_first:
                        out[at] = _COMMA
                        at += 1
                    is_first = False
                    size = name_ends[field + 1] - name_ends[field]
                    copy_bytes(out, at, names, name_ends[field], size)
                    at += size
                    offsets = fields[field, OFFSETS]
                    begin = load_long(offsets, row)
                    size = load_long(offsets, row + 1) - begin
                    copy_from(out, at, fields[field, DATA] + begin, size)
                    at += size
            out[at] = 125
            at += 1
        ends[row + 1] = at
    return at


@jit.helper
def _put_item(out: Any, at: Any, offsets: Any, data: Any, bitmap: Any, first_bit: Any, item: Any) -> Any:
    if _is_null(bitmap, first_bit + item):
        return _put(out, at, b"null")
    size = offsets[item + 1] - offsets[item]
    copy_bytes(out, at, data, offsets[item], size)
    return at + size


@jit.compiled(int64(_i64, _u8, int64, _texts, int64, int64, _texts, uint8[::1], int64[::1]))
def join_items(
    offsets: Any,
    bitmap: Any,
    first_bit: Any,
    keys: Any,
    is_map: Any,
    quotes_keys: Any,
    items: Any,
    out: Any,
    ends: Any,
) -> Any:
    """Arrays, or objects if `is_map`. Row i has the items from `offsets[i]` to `offsets[i + 1]`."""
    key_ends, key_data, key_bits, key_bit = keys
    item_ends, item_data, item_bits, item_bit = items
    at = int64(0)
    ends[0] = 0
    for row in range(ends.size - 1):
        if not _is_null(bitmap, first_bit + row):
            out[at] = 123 if is_map else 91
            at += 1
            for item in range(offsets[row], offsets[row + 1]):
                if item > offsets[row]:
                    out[at] = _COMMA
                    at += 1
                if is_map:
                    if quotes_keys:
                        at = _put(out, at, b'"')
                    at = _put_item(out, at, key_ends, key_data, key_bits, key_bit, item)
                    if quotes_keys:
                        at = _put(out, at, b'"')
                    out[at] = _COLON
                    at += 1
                at = _put_item(out, at, item_ends, item_data, item_bits, item_bit, item)
            out[at] = 125 if is_map else 93
            at += 1
        ends[row + 1] = at
    return at
