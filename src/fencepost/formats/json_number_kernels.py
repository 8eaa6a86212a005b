"""Numbers and times to JSON text, as machine code. Import through `jit.load`.

Numbers look as Java writes them: `Double.toString` of JDK 19 and later, by the same algorithm (R. Giulietti, "The
Schubfach way to render doubles"). The parameters that all kernels have are explained in `json_encode_kernels`.
"""

from typing import Any

import numba
from numba import int64, uint8, uint64

from fencepost.client import jit

#: The longest texts, in bytes.
LONG_BYTES, DOUBLE_BYTES, TIME_BYTES = 20, 26, 48
#: How a time is written.
DATE, LOCAL, ZONED, TIME_OF_DAY = 0, 1, 2, 3
#: The powers of ten that `format_doubles` needs, from the first to the last.
K_MIN, K_MAX = -324, 292

_types: Any = numba.types
_u8 = _types.Array(uint8, 1, "C", readonly=True)
_i64 = _types.Array(int64, 1, "C", readonly=True)
_u64 = _types.Array(uint64, 1, "C", readonly=True)

_QUOTE, _COLON, _DOT, _DASH, _PLUS, _ZERO = 34, 58, 46, 45, 43, 48


@jit.helper
def _is_null(bitmap: Any, bit: Any) -> Any:
    return bitmap.size > 0 and (bitmap[bit >> 3] >> (bit & 7)) & 1 == 0


@jit.helper
def _put(out: Any, at: Any, text: Any) -> Any:
    for index in range(len(text)):
        out[at + index] = text[index]
    return at + len(text)


@jit.helper
def _digits(value: Any) -> Any:
    """How many decimal digits a number has."""
    count = int64(1)
    limit = uint64(10)
    while count < 19 and value >= limit:
        limit *= uint64(10)
        count += 1
    return count


@jit.helper
def _put_digits(out: Any, at: Any, value: Any, count: Any) -> Any:
    """The last `count` digits, with leading zeros."""
    for place in range(at + count - 1, at - 1, -1):
        rest = value // uint64(10)
        out[place] = uint8(uint64(_ZERO) + value - rest * uint64(10))
        value = rest
    return at + count


# -- numbers -----------------------------------------------------------------------------------------------------------


@jit.compiled(int64(_i64, _u8, int64, uint8[::1], int64[::1]))
def format_longs(values: Any, bitmap: Any, first_bit: Any, out: Any, ends: Any) -> Any:
    at = int64(0)
    ends[0] = 0
    for row in range(values.size):
        if not _is_null(bitmap, first_bit + row):
            value = values[row]
            size = uint64(value)
            if value < 0:
                out[at] = _DASH
                at += 1
                size = uint64(0) - size
            at = _put_digits(out, at, size, _digits(size))
        ends[row + 1] = at
    return at


@jit.helper
def _multiply_high(left: Any, right: Any) -> Any:
    """The upper half of the product, which has 128 bits."""
    mask, half = uint64(0xFFFFFFFF), uint64(32)
    left_low, left_high, right_low, right_high = left & mask, left >> half, right & mask, right >> half
    one, other = left_low * right_high, left_high * right_low
    middle = ((left_low * right_low) >> half) + (one & mask) + (other & mask)
    return left_high * right_high + (one >> half) + (other >> half) + (middle >> half)


@jit.helper
def _scaled(g1: Any, g0: Any, factor: Any) -> Any:
    """The product, 127 bits to the right; its last bit is 1 if anything was lost ("round to odd")."""
    mask = uint64(0x7FFFFFFFFFFFFFFF)
    low = ((g1 * factor) >> uint64(1)) + _multiply_high(g0, factor)
    high = _multiply_high(g1, factor) + (low >> uint64(63))
    return high | (((low & mask) + mask) >> uint64(63))


@jit.helper
def _shortest(q: Any, c: Any, is_regular: Any, powers: Any) -> Any:
    """The shortest decimal that means c * 2**q and no other number, as digits and exponent; the nearest of several."""
    odd = c & uint64(1)
    middle = c << uint64(2)
    if is_regular:
        below = middle - uint64(2)
        k = (q * 661_971_961_083) >> 41  # floor(log10(2**q))
    else:  # a power of two: numbers below it are nearer
        below = middle - uint64(1)
        k = (q * 661_971_961_083 - 274_743_187_321) >> 41
    above = middle + uint64(2)
    shift = uint64(q + ((-k * 913_124_641_741) >> 38) + 2)
    g1, g0 = powers[2 * (k - K_MIN)], powers[2 * (k - K_MIN) + 1]
    v, v_below, v_above = (
        _scaled(g1, g0, middle << shift), _scaled(g1, g0, below << shift), _scaled(g1, g0, above << shift),
    )  # fmt: skip
    s = v >> uint64(2)
    if s >= uint64(100):
        down = (s // uint64(10)) * uint64(10)
        up = down + uint64(10)
        has_down, has_up = v_below + odd <= down << uint64(2), (up << uint64(2)) + odd <= v_above
        if has_down != has_up:
            return (down if has_down else up), k
    t = s + uint64(1)
    has_down, has_up = v_below + odd <= s << uint64(2), (t << uint64(2)) + odd <= v_above
    if has_down != has_up:
        return (s if has_down else t), k
    twice = (s + t) << uint64(1)
    return (s if v < twice or (v == twice and s & uint64(1) == uint64(0)) else t), k


@jit.helper
def _put_decimal(out: Any, at: Any, f: Any, e: Any) -> Any:
    """f * 10**e as Java lays it out: plain from 10**-3 to 10**7, else with an exponent; always one decimal place."""
    if f % uint64(100_000_000) == uint64(0):
        f //= uint64(100_000_000)
        e += 8
    while f % uint64(10) == uint64(0):
        f //= uint64(10)
        e += 1
    count = _digits(f)
    point = count + e  # of 0.f
    if 0 < point <= 7:
        if count <= point:
            at = _put_digits(out, at, f, count)
            for _ in range(point - count):
                out[at] = _ZERO
                at += 1
            return _put(out, at, b".0")
        _put_digits(out, at + 1, f, count)
        for place in range(at, at + point):
            out[place] = out[place + 1]
        out[at + point] = _DOT
        return at + count + 1
    if -3 < point <= 0:
        at = _put(out, at, b"0.")
        for _ in range(-point):
            out[at] = _ZERO
            at += 1
        return _put_digits(out, at, f, count)
    _put_digits(out, at + 1, f, count)
    out[at] = out[at + 1]
    out[at + 1] = _DOT
    at += 1 + count
    if count == 1:
        at = _put(out, at, b"0")
    at = _put(out, at, b"E")
    exponent = point - 1
    if exponent < 0:
        out[at] = _DASH
        at += 1
        exponent = -exponent
    return _put_digits(out, at, uint64(exponent), _digits(uint64(exponent)))


@jit.compiled(int64(_i64, int64, int64, _u64, int64, _u8, int64, uint8[::1], int64[::1]))
def format_doubles(
    values: Any,
    fraction_bits: Any,
    tiny: Any,
    powers: Any,
    quotes: Any,
    bitmap: Any,
    first_bit: Any,
    out: Any,
    ends: Any,
) -> Any:
    """`values` are the bits of doubles (`fraction_bits` 52, `tiny` 3) or of floats (23, 8).

    `quotes` are 1 to write "NaN" and 0 to write NaN. Below `tiny` a subnormal number needs more digits than it has bits
    for: then Java computes one digit more.
    """
    fraction_mask = (int64(1) << fraction_bits) - 1
    exponent_mask = int64(0x7FF) if fraction_bits == 52 else int64(0xFF)
    q_min = 1 - (exponent_mask >> 1) - fraction_bits
    sign_bit = int64(63) if fraction_bits == 52 else int64(31)
    at = int64(0)
    ends[0] = 0
    for row in range(values.size):
        if not _is_null(bitmap, first_bit + row):
            bits = values[row]
            fraction, biased = bits & fraction_mask, (bits >> fraction_bits) & exponent_mask
            is_negative = (bits >> sign_bit) & 1 == 1
            if biased == exponent_mask:
                if quotes:
                    at = _put(out, at, b'"')
                if fraction:
                    at = _put(out, at, b"NaN")
                else:
                    at = _put(out, at, b"-Infinity") if is_negative else _put(out, at, b"Infinity")
                if quotes:
                    at = _put(out, at, b'"')
            else:
                if is_negative:
                    out[at] = _DASH
                    at += 1
                if biased == 0 and fraction == 0:
                    at = _put(out, at, b"0.0")
                elif biased == 0:
                    if fraction < tiny:
                        f, e = _shortest(q_min, uint64(10 * fraction), True, powers)
                        e -= 1
                    else:
                        f, e = _shortest(q_min, uint64(fraction), True, powers)
                    at = _put_decimal(out, at, f, e)
                else:
                    c = fraction | (int64(1) << fraction_bits)
                    down = 1 - q_min - biased
                    if 0 < down <= fraction_bits and (c >> down) << down == c:
                        at = _put_decimal(out, at, uint64(c >> down), int64(0))
                    else:
                        f, e = _shortest(-down, uint64(c), fraction != 0 or biased == 1, powers)
                        at = _put_decimal(out, at, f, e)
        ends[row + 1] = at
    return at


# -- times -------------------------------------------------------------------------------------------------------------


@jit.helper
def _put_date(out: Any, at: Any, days: Any) -> Any:
    """Days since 1970 in the Gregorian calendar. Years beyond four digits have a sign."""
    shifted = days + 719_468  # from 0000-03-01
    era = shifted // 146_097
    day = shifted - era * 146_097
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += era * 400
    if month < 10:
        month += 3
    else:
        month -= 9
        year += 1
    if year < 0:
        out[at] = _DASH
        at += 1
        year = -year
    elif year > 9999:
        out[at] = _PLUS
        at += 1
    at = _put_digits(out, at, uint64(year), max(int64(4), _digits(uint64(year))))
    out[at] = _DASH
    at = _put_digits(out, at + 1, uint64(month), 2)
    out[at] = _DASH
    return _put_digits(out, at + 1, uint64(day + 1), 2)


@jit.helper
def _put_clock(out: Any, at: Any, seconds: Any) -> Any:
    at = _put_digits(out, at, uint64(seconds // 3600), 2)
    out[at] = _COLON
    at = _put_digits(out, at + 1, uint64(seconds // 60 % 60), 2)
    out[at] = _COLON
    return _put_digits(out, at + 1, uint64(seconds % 60), 2)


@jit.helper
def _put_offset(out: Any, at: Any, seconds: Any) -> Any:
    if seconds == 0:
        return _put(out, at, b"Z")
    out[at] = _DASH if seconds < 0 else _PLUS
    size = abs(seconds)
    _put_clock(out, at + 1, size)
    return at + (9 if size % 60 else 6)


@jit.compiled(int64(_i64, _i64, int64, _u8, int64, uint8[::1], int64[::1]))
def format_times(values: Any, offsets_s: Any, mode: Any, bitmap: Any, first_bit: Any, out: Any, ends: Any) -> Any:
    """Days of a DATE, microseconds of a TIME_OF_DAY, else milliseconds. ZONED takes `offsets_s`: one, or one a row."""
    at = int64(0)
    ends[0] = 0
    for row in range(values.size):
        if not _is_null(bitmap, first_bit + row):
            value = values[row]
            out[at] = _QUOTE
            at += 1
            if mode == DATE:
                at = _put_date(out, at, value)
            elif mode == TIME_OF_DAY:
                at = _put_clock(out, at, value // 1_000_000)
                fraction, places = value % 1_000_000, int64(6)
                if fraction:
                    while fraction % 10 == 0:
                        fraction //= 10
                        places -= 1
                    out[at] = _DOT
                    at = _put_digits(out, at + 1, uint64(fraction), places)
            else:
                offset_s = int64(0)
                if mode == ZONED:
                    offset_s = offsets_s[row if offsets_s.size > 1 else 0]
                    value += offset_s * 1000
                days = value // 86_400_000
                rest_ms = value - days * 86_400_000
                at = _put_date(out, at, days)
                at = _put(out, at, b"T")
                at = _put_clock(out, at, rest_ms // 1000)
                out[at] = _DOT
                at = _put_digits(out, at + 1, uint64(rest_ms % 1000), 3)
                if mode == ZONED:
                    at = _put_offset(out, at, offset_s)
            out[at] = _QUOTE
            at += 1
        ends[row + 1] = at
    return at
