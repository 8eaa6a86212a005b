"""JSON numbers and times to Arrow buffers, as machine code: a column of spans (`json_decode_kernels`) of one type.

Import through `jit.load`. Each kernel writes `valid`: PRESENT where there is a value, MISSING where it is null. What
has a form that is rare makes its document odd, so that `json_documents` decides; numbers that need many digits are
LATER: the caller converts them.
"""

from typing import Any

import numba
from numba import float64, int32, int64, uint8, uint64

from fencepost.client import jit

ABSENT, NULL, STRING, ESCAPED, INTEGER, FLOAT, TRUE, FALSE, OBJECT, ARRAY, DOCUMENT = range(11)
MISSING, PRESENT, LATER = range(3)
#: What `read_times` reads.
DATE, LOCAL_TIME, INSTANT = range(3)

MICROS, DAY_S = 1_000_000, 86_400
#: Powers of ten that a double and a float have exactly.
EXACT_POWER, EXACT_POWER_FLOAT = 22, 10

_types: Any = numba.types
_u8 = _types.Array(uint8, 1, "C", readonly=True)
_i32 = _types.Array(int32, 1, "C", readonly=True)
_documents = _types.Tuple((_u8, uint8[::1], uint8[::1]))
_spans = _types.Tuple((_i32, _i32, _u8, _i32))


@jit.compiled(_types.void(_documents, _spans, _i32, int64, int64, int64[::1], uint8[::1]))
def read_integers(documents: Any, spans: Any, owners: Any, low: Any, high: Any, numbers: Any, valid: Any) -> Any:
    """Whole numbers from `low` to `high`."""
    data, odd, _ = documents
    begins, ends, kinds, _ = spans
    for row in range(begins.size):
        if kinds[row] <= NULL:
            continue
        at, end = int64(begins[row]), int64(ends[row])
        negative = kinds[row] == INTEGER and data[at] == 45
        at += negative
        if kinds[row] != INTEGER or end - at > 18:  # 19 digits may be too many
            odd[owners[row]] = 1
            continue
        number = int64(0)
        while at < end:
            number = number * 10 + int64(data[at] - 48)
            at += 1
        if negative:
            number = -number
        if low <= number <= high:
            numbers[row] = number
            valid[row] = PRESENT
        else:
            odd[owners[row]] = 1


@jit.compiled(_types.void(_documents, _spans, _i32, int64, float64[::1], uint8[::1]))
def read_doubles(documents: Any, spans: Any, owners: Any, bits: Any, numbers: Any, valid: Any) -> Any:
    """Doubles, or the doubles of floats if `bits` is 32.

    A number of up to 53 bits times or divided by a power of ten that is exact is rounded once, so rightly (Clinger
    1990). For floats the same holds with 24 bits: a double has more than twice as many, so that rounding again is
    harmless (Figueroa 1995).
    """
    data, odd, _ = documents
    begins, ends, kinds, _ = spans
    most, power_max = (2**24, EXACT_POWER_FLOAT) if bits == 32 else (2**53, EXACT_POWER)
    low, high = (-30, 38) if bits == 32 else (-290, 300)  # powers of ten that are far from the ends of their range
    for row in range(begins.size):
        if kinds[row] <= NULL:
            continue
        if kinds[row] != INTEGER and kinds[row] != FLOAT:
            odd[owners[row]] = 1
            continue
        at, end = int64(begins[row]), int64(ends[row])
        negative = data[at] == 45
        at += negative
        number, digits, power, exponent, point = int64(0), int64(0), int64(0), int64(0), False
        while at < end and data[at] | 32 != 101:
            if data[at] == 46:
                point = True
            else:
                if digits < 18:
                    number = number * 10 + int64(data[at] - 48)
                digits += number > 0
                power -= point
            at += 1
        valid[row] = LATER
        if at < end:  # an exponent
            down = data[at + 1] == 45
            at += 1 + (data[at + 1] == 45 or data[at + 1] == 43)
            while at < end:
                exponent = min(exponent * 10 + int64(data[at] - 48), int64(100_000))
                at += 1
            power += -exponent if down else exponent
        if digits <= 18 and number <= most and -power_max <= power <= power_max:
            result = float64(number)
            scale = 1.0
            for _ in range(abs(power)):
                scale *= 10.0
            result = result * scale if power >= 0 else result / scale
            numbers[row] = -result if negative and (number > 0 or kinds[row] == FLOAT) else result
            valid[row] = PRESENT
        elif not low < power + digits < high:
            odd[owners[row]] = 1
            valid[row] = MISSING


@jit.helper
def _times_ten(high: Any, low: Any, digit: Any) -> Any:
    """(high, low) * 10 + digit, as 128 bits without sign."""
    eight_high = (high << uint64(3)) | (low >> uint64(61))
    eight_low = low << uint64(3)
    two_high = (high << uint64(1)) | (low >> uint64(63))
    two_low = low << uint64(1)
    total = eight_low + two_low
    carry = uint64(1) if total < eight_low else uint64(0)
    high = eight_high + two_high + carry
    low = total + digit
    if low < total:
        high += uint64(1)
    return high, low


@jit.compiled(_types.void(_documents, _spans, _i32, int64, int64, uint64[:, ::1], uint8[::1]))
def read_decimals(documents: Any, spans: Any, owners: Any, precision: Any, scale: Any, numbers: Any, valid: Any) -> Any:
    """Decimals without an exponent, as numbers or text: 128 bits each, the low half first. Halves are rounded up."""
    data, odd, _ = documents
    begins, ends, kinds, _ = spans
    for row in range(begins.size):
        kind = kinds[row]
        if kind <= NULL:
            continue
        at, end = int64(begins[row]), int64(ends[row])
        plain = kind in (STRING, INTEGER, FLOAT) and at < end
        negative = plain and data[at] == 45
        at += negative
        high, low, digits, fraction, cut, up = uint64(0), uint64(0), int64(0), int64(-1), False, False
        plain = plain and at < end and data[at] != 46 and data[end - 1] != 46
        while plain and at < end:
            byte = data[at]
            at += 1
            if byte == 46 and fraction < 0:
                fraction = int64(0)
                continue
            if byte < 48 or byte > 57:
                plain = False
                break
            if fraction == scale:
                up = up if cut else byte >= 53  # later digits change nothing
                cut = True
                continue
            high, low = _times_ten(high, low, uint64(byte - 48))
            digits += high != 0 or low != 0
            fraction += fraction >= 0
            plain = digits <= 38
        for _ in range(scale - max(fraction, 0)):
            high, low = _times_ten(high, low, uint64(0))
            digits += high != 0 or low != 0
        if up:
            low += uint64(1)
            high += uint64(1) if low == 0 else uint64(0)
        if not plain or digits > precision or (up and digits == precision):  # rounding may need a digit more
            odd[owners[row]] = 1
            continue
        if negative:
            high, low = ~high, ~low + uint64(1)
            high += uint64(1) if low == 0 else uint64(0)
        numbers[row, 0], numbers[row, 1] = low, high
        valid[row] = PRESENT


@jit.helper
def _two(data: Any, at: Any) -> Any:
    """Two digits, -1 if they are none."""
    tens, ones = int64(data[at]) - 48, int64(data[at + 1]) - 48
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else int64(-1)


@jit.helper
def _date(data: Any, at: Any, end: Any) -> Any:
    """Days since 1970 of YYYY-MM-DD, and whether it is one."""
    if end - at < 10 or data[at + 4] != 45 or data[at + 7] != 45:
        return int64(0), False
    century, years = _two(data, at), _two(data, at + 2)
    month, day = _two(data, at + 5), _two(data, at + 8)
    year = century * 100 + years
    if century < 0 or years < 0 or month < 1 or month > 12 or day < 1 or year < 1:
        return int64(0), False
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    days_max = 30 + ((month + (month >> 3)) & 1) if month != 2 else 28 + leap
    if day > days_max:
        return int64(0), False
    shifted = year - (month <= 2)  # years that begin in March
    era, of_era = shifted // 400, shifted % 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468, True


@jit.helper
def _clock(data: Any, at: Any, end: Any) -> Any:
    """Microseconds of HH:MM:SS and any fraction, and the position after it, -1 if it is none."""
    if end - at < 8 or data[at + 2] != 58 or data[at + 5] != 58:
        return int64(0), int64(-1)
    hour, minute, second = _two(data, at), _two(data, at + 3), _two(data, at + 6)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return int64(0), int64(-1)
    micros = (hour * 3600 + minute * 60 + second) * MICROS
    at += 8
    if at < end and data[at] == 46:
        at += 1
        unit = MICROS
        while at < end and 48 <= data[at] <= 57:
            unit //= 10
            micros += unit * int64(data[at] - 48)  # more than six digits: the rest is dropped
            at += 1
    return micros, at


@jit.helper
def _zone(data: Any, at: Any, end: Any) -> Any:
    """Microseconds east of UTC of Z or +HH:MM, and whether it is one."""
    if end - at == 1 and data[at] == 90:
        return int64(0), True
    if end - at != 6 or (data[at] != 43 and data[at] != 45) or data[at + 3] != 58:
        return int64(0), False
    hours, minutes = _two(data, at + 1), _two(data, at + 4)
    if hours < 0 or hours > 17 or minutes < 0 or minutes > 59:
        return int64(0), False
    east = (hours * 60 + minutes) * 60 * MICROS
    return -east if data[at] == 45 else east, True


@jit.helper
def _seconds(data: Any, at: Any, end: Any) -> Any:
    negative = data[at] == 45
    number = int64(0)
    for index in range(at + negative, end):
        number = number * 10 + int64(data[index] - 48)
    return -number if negative else number


@jit.compiled(_types.void(_documents, _spans, _i32, int64, int64[::1], uint8[::1]))
def read_times(documents: Any, spans: Any, owners: Any, what: Any, numbers: Any, valid: Any) -> Any:
    """A DATE in days; a LOCAL_TIME, or an INSTANT, in microseconds.

    A number is an INSTANT in seconds. An INSTANT without a zone is LATER, and what it would be in UTC.
    """
    data, odd, _ = documents
    begins, ends, kinds, _ = spans
    for row in range(begins.size):
        kind = kinds[row]
        if kind <= NULL:
            continue
        at, end = int64(begins[row]), int64(ends[row])
        if kind == INTEGER and what == INSTANT and end - at <= 12:
            numbers[row] = _seconds(data, at, end) * MICROS
            valid[row] = PRESENT
            continue
        if kind != STRING:
            odd[owners[row]] = 1
            continue
        days, good = _date(data, at, end)
        number, state = days, PRESENT
        if what == DATE:
            good = good and end - at == 10
        elif good:
            micros = int64(0)
            at += 10
            if at < end:
                good = data[at] == 84 or data[at] == 32
                micros, at = _clock(data, at + 1, end)
                good = good and at >= 0
            number = days * DAY_S * MICROS + micros
            if good and at < end:
                east, good = _zone(data, at, end)
                number -= east
                good = good and what == INSTANT
            elif what == INSTANT:
                state = LATER
        if good:
            numbers[row] = number
            valid[row] = state
        else:
            odd[owners[row]] = 1
