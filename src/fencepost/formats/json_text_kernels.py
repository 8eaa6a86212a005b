"""JSON text to Arrow buffers, as machine code: strings, bytes in Base64, and whole values as Jackson writes them.

Import through `jit.load`. As in `json_value_kernels`, `valid` is PRESENT where there is a value, and what is rare makes
its document odd.
"""

from typing import Any

import numba
from numba import int32, int64, uint8

from fencepost.client import jit

copy_bytes = jit.copier()

ABSENT, NULL, STRING, ESCAPED, INTEGER, FLOAT, TRUE, FALSE, OBJECT, ARRAY, DOCUMENT = range(11)
PRESENT = 1

#: Java writes a double of so many digits in the way that it was written: no shorter one means the same.
SURE_DIGITS = 15

_types: Any = numba.types
_u8 = _types.Array(uint8, 1, "C", readonly=True)
_i32 = _types.Array(int32, 1, "C", readonly=True)
_documents = _types.Tuple((_u8, uint8[::1], uint8[::1]))
_spans = _types.Tuple((_i32, _i32, _u8, _i32))


@jit.helper
def _hex(data: Any, at: Any) -> Any:
    """The number of four hexadecimal digits."""
    value = int64(0)
    for index in range(4):
        byte = int64(data[at + index])
        value = value * 16 + (byte - 48 if byte <= 57 else (byte | 32) - 87)
    return value


@jit.helper
def _put_code(out: Any, used: Any, code: Any) -> Any:
    """Append a code point as UTF-8; returns how many bytes there are then."""
    if code < 0x80:
        out[used] = uint8(code)
        return used + 1
    if code < 0x800:
        out[used] = uint8(0xC0 | (code >> 6))
        out[used + 1] = uint8(0x80 | (code & 0x3F))
        return used + 2
    if code < 0x10000:
        out[used] = uint8(0xE0 | (code >> 12))
        out[used + 1] = uint8(0x80 | ((code >> 6) & 0x3F))
        out[used + 2] = uint8(0x80 | (code & 0x3F))
        return used + 3
    out[used] = uint8(0xF0 | (code >> 18))
    out[used + 1] = uint8(0x80 | ((code >> 12) & 0x3F))
    out[used + 2] = uint8(0x80 | ((code >> 6) & 0x3F))
    out[used + 3] = uint8(0x80 | (code & 0x3F))
    return used + 4


@jit.helper
def _unescape(data: Any, at: Any, end: Any, out: Any, used: Any) -> Any:
    """Append a string whose escapes are known to be right. Half of a surrogate pair becomes ?, as in Java."""
    while at < end:
        byte = data[at]
        if byte != 92:
            out[used] = byte
            used += 1
            at += 1
            continue
        byte = data[at + 1]
        if byte != 117:
            code = int64(byte)
            if byte == 98:
                code = 8
            elif byte == 102:
                code = 12
            elif byte == 110:
                code = 10
            elif byte == 114:
                code = 13
            elif byte == 116:
                code = 9
            used = _put_code(out, used, code)
            at += 2
            continue
        code = _hex(data, at + 2)
        at += 6
        if 0xD800 <= code < 0xDC00 and end - at >= 6 and data[at] == 92 and data[at + 1] == 117:
            second = _hex(data, at + 2)
            if 0xDC00 <= second < 0xE000:
                code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00)
                at += 6
        used = _put_code(out, used, int64(63) if 0xD800 <= code < 0xE000 else code)
    return used


@jit.helper
def _number_end(data: Any, at: Any, end: Any) -> Any:
    while at < end and (
        48 <= data[at] <= 57 or data[at] == 43 or data[at] == 45 or data[at] == 46 or data[at] | 32 == 101
    ):
        at += 1
    return at


@jit.helper
def _stays(data: Any, at: Any, end: Any) -> Any:
    """Whether Jackson would write a number as it is written: from 0.001 to 10 million, without needless zeros."""
    negative = data[at] == 45
    first, point = at + negative, int64(-1)
    for index in range(first, end):
        if data[index] == 46:
            point = int64(index)
        elif data[index] < 48 or data[index] > 57:
            return False
    if point < 0:
        return not negative or data[first] != 48  # -0 is written as 0
    if data[end - 1] == 48 and end - point > 2:
        return False
    if data[first] == 48:  # zero, or one of the first three places is not zero
        if end - point == 2 and data[point + 1] == 48:
            return True
        some = data[point + 1] != 48
        for index in range(point + 2, min(point + 4, end)):
            some = some or data[index] != 48
        return some and end - point - 1 <= SURE_DIGITS
    return point - first <= 7 and end - first - 1 <= SURE_DIGITS


@jit.helper
def _render_string(data: Any, at: Any, end: Any, out: Any, used: Any) -> Any:
    """Copy a string with its quotes: where it ends, -1 if Jackson would write it in another way; and the bytes used."""
    start = at
    at += 1
    while at < end and data[at] != 34:
        byte = data[at]
        if byte == 92:
            at += 1
            byte = data[at]
            same = byte == 34 or byte == 92 or byte == 98 or byte == 102 or byte == 110 or byte == 114 or byte == 116
            if not same:
                return int64(-1), used
        elif byte >= 0xF0:  # written as two escapes
            return int64(-1), used
        at += 1
    copy_bytes(out, used, data, start, at + 1 - start)
    return at + 1, used + at + 1 - start


@jit.helper
def _render(data: Any, at: Any, end: Any, out: Any, used: Any) -> Any:
    """Append a value, which was checked before, without white space; -1 if Jackson would write it in another way."""
    while at < end:
        byte = data[at]
        if byte == 34:
            at, used = _render_string(data, at, end, out, used)
            if at < 0:
                return int64(-1)
        elif byte == 45 or 48 <= byte <= 57:
            after = _number_end(data, at, end)
            if not _stays(data, at, after):
                return int64(-1)
            copy_bytes(out, used, data, at, after - at)
            used += after - at
            at = after
        else:
            if byte > 32:
                out[used] = byte
                used += 1
            at += 1
    return used


@jit.compiled(int64(_documents, _spans, _i32, uint8[::1], int32[::1], uint8[::1]))
def read_texts(documents: Any, spans: Any, owners: Any, out: Any, offsets: Any, valid: Any) -> Any:
    """Strings without their escapes, and any other value as Jackson writes it; returns their bytes.

    `out` has room for all spans together, `offsets` a place more than there are rows.
    """
    data, odd, _ = documents
    begins, ends, kinds, _ = spans
    used = int64(0)
    for row in range(begins.size):
        kind, at, end = kinds[row], int64(begins[row]), int64(ends[row])
        after = used
        if kind in (STRING, TRUE, FALSE):
            copy_bytes(out, used, data, at, end - at)
            after = used + end - at
        elif kind == ESCAPED:
            after = _unescape(data, at, end, out, used)
        elif kind > NULL:
            after = _render(data, at, end, out, used)
        if after < 0:
            odd[owners[row]] = 1
        elif kind > NULL:
            used = after
            valid[row] = PRESENT
        offsets[row + 1] = int32(used)
    return used


@jit.helper
def _six_bits(byte: Any) -> Any:
    """What a character of Base64 stands for, -1 if it is none."""
    if 65 <= byte <= 90:
        return int64(byte) - 65
    if 97 <= byte <= 122:
        return int64(byte) - 71
    if 48 <= byte <= 57:
        return int64(byte) + 4
    return int64(62) if byte == 43 else int64(63) if byte == 47 else int64(-1)


@jit.compiled(int64(_documents, _spans, _i32, uint8[::1], int32[::1], uint8[::1]))
def read_base64(documents: Any, spans: Any, owners: Any, out: Any, offsets: Any, valid: Any) -> Any:
    """Bytes from Base64 that is whole and in one piece; returns how many bytes there are."""
    data, odd, _ = documents
    begins, ends, kinds, _ = spans
    used = int64(0)
    for row in range(begins.size):
        kind, at, end = kinds[row], int64(begins[row]), int64(ends[row])
        offsets[row + 1] = int32(used)
        if kind <= NULL:
            continue
        good = kind == STRING and (end - at) % 4 == 0
        start = used
        while good and at < end:
            last = at + 4 == end
            first, second = _six_bits(data[at]), _six_bits(data[at + 1])
            pads = (1 if data[at + 2] != 61 else 2) if last and data[at + 3] == 61 else 0
            third = _six_bits(data[at + 2]) if pads < 2 else int64(0)
            fourth = _six_bits(data[at + 3]) if pads < 1 else int64(0)
            good = first >= 0 and second >= 0 and third >= 0 and fourth >= 0
            out[used] = uint8(((first << 2) | (second >> 4)) & 255)
            out[used + 1] = uint8(((second << 4) | (third >> 2)) & 255)
            out[used + 2] = uint8(((third << 6) | fourth) & 255)
            used += 3 - pads
            at += 4
        if good:
            offsets[row + 1] = int32(used)
            valid[row] = PRESENT
        else:
            used = start
            odd[owners[row]] = 1
    return used
