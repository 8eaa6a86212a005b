"""One JSON document to one Python value, exactly and slowly: the meaning that the kernels must agree with.

Spark's rules for `from_json`, one function per type. What Spark finds corrupt raises `BadDocument`, whose text says
which field is wrong and why. A document of white space only is null, and no fault. The value of a struct is a tuple,
that of a map a list of pairs, dates and timestamps are numbers.
"""

import base64
import json
import math
import re
from collections.abc import Callable
from datetime import UTC
from decimal import Decimal
from typing import Any, Never

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.formats import json_times
from fencepost.formats.json_tokens import (
    BadDocument,
    Kind,
    NotJson,
    Token,
    as_java,
    broken_string,
    check_depth,
    check_length,
    copy,
    name,
    plain,
    separator,
    space,
    to_double,
    token,
)

#: From text, the position of a value and its depth, to what it means and the position behind it.
Reader = Callable[[str, int, int], tuple[Any, int]]
#: From a token that is no null.
Leaf = Callable[[Token], Any]

_SHOWN = 60
_INFINITE = {"NaN", "+INF", "+Infinity", "Infinity", "-INF", "-Infinity"}
_DECIMAL = re.compile(r"([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d+))?")
_BASE64_PIECE = re.compile(r"[^=]+={0,2}")
_BASE64 = re.compile(r"(?:[\x00-\x20]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00-\x20]*")


def document_reader(wanted: Any, *, strict: bool = False) -> Callable[[bytes], Any]:
    """For documents of an Arrow type that `json_types.check` accepts.

    `strict` takes only what the standard calls JSON, and only strings for text.
    """
    read = _reader(wanted, _read_strict_text if strict else _read_text)
    listed = pa.types.is_list(wanted) and pa.types.is_struct(wanted.value_type)
    read_only = _reader(wanted.value_type, _read_text) if listed and not strict else None

    def read_document(document: bytes) -> Any:
        try:
            text = document.decode()
        except UnicodeDecodeError as error:
            raise BadDocument(f"not UTF-8 at byte {error.start}") from None
        if strict:
            _check_standard(text)
        at = space(text, 0)
        if at == len(text):
            return None
        try:
            # Spark takes an object for an array of structs that has one
            if read_only is not None and text[at] == "{":
                one, after = read_only(text, at, 1)
                value: Any = [one]
            else:
                value, after = read(text, at, 1)
            if value is None:
                raise BadDocument("the document is null")
            after = space(text, after)
            if after < len(text):
                raise NotJson(after, "the end")
        except NotJson as error:
            raise BadDocument(error.told(text)) from None
        return value

    return read_document


def _check_standard(text: str) -> None:
    """Raises BadDocument for what only Jackson takes for JSON. The standard library knows the standard."""
    try:
        _STANDARD.decode(text)
    except json.JSONDecodeError as error:
        raise BadDocument(f"not JSON at byte {len(text[: error.pos].encode())}: {error.msg}") from None
    except ValueError as error:  # also of a number with too many digits
        raise BadDocument(f"not JSON: {error}") from None
    except RecursionError:
        raise BadDocument("not JSON: too many arrays and objects inside each other") from None


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no number")


_STANDARD = json.JSONDecoder(parse_constant=_refuse)


def _reader(wanted: Any, read_text: Reader) -> Reader:
    if pa.types.is_struct(wanted):
        return _struct_reader(wanted, read_text)
    if pa.types.is_list(wanted):
        return _list_reader(_reader(wanted.value_type, read_text))
    if pa.types.is_map(wanted):
        return _map_reader(_reader(wanted.item_type, read_text))
    if pa.types.is_string(wanted):
        return read_text
    leaf = _leaf(wanted)
    scan = broken_string if pa.types.is_binary(wanted) else token

    def read(text: str, at: int, depth: int) -> tuple[Any, int]:
        found = scan(text, at)
        if found.kind is Kind.NULL:
            return None, found.after
        return leaf(found), found.after

    return read


def _struct_reader(wanted: Any, read_text: Reader) -> Reader:
    fields = {field.name: (index, _reader(field.type, read_text)) for index, field in enumerate(wanted)}
    count = len(fields)

    def read(text: str, at: int, depth: int) -> tuple[Any, int]:
        if not _opened(text, at, depth, "{", "an object"):
            return None, at + 4
        values: list[Any] = [None] * count
        at = space(text, at + 1)
        if text[at : at + 1] == "}":
            return tuple(values), at + 1
        while True:
            said, at = name(text, at)
            field = fields.get(said)
            if field is None:
                at = copy(text, at, depth + 1)
            else:
                try:
                    values[field[0]], at = field[1](text, at, depth + 1)
                except BadDocument as bad:
                    raise bad.inside(f".{said}") from None
            at, more = separator(text, at, "}")
            if not more:
                return tuple(values), at

    return read


def _list_reader(read_item: Reader) -> Reader:
    def read(text: str, at: int, depth: int) -> tuple[Any, int]:
        if not _opened(text, at, depth, "[", "an array"):
            return None, at + 4
        items: list[Any] = []
        at = space(text, at + 1)
        if text[at : at + 1] == "]":
            return items, at + 1
        while True:
            try:
                item, at = read_item(text, at, depth + 1)
            except BadDocument as bad:
                raise bad.inside(f"[{len(items)}]") from None
            items.append(item)
            at, more = separator(text, at, "]")
            if not more:
                return items, at

    return read


def _map_reader(read_item: Reader) -> Reader:
    def read(text: str, at: int, depth: int) -> tuple[Any, int]:
        if not _opened(text, at, depth, "{", "an object"):
            return None, at + 4
        pairs: list[tuple[str, Any]] = []
        at = space(text, at + 1)
        if text[at : at + 1] == "}":
            return pairs, at + 1
        while True:
            said, at = name(text, at)
            try:
                item, at = read_item(text, at, depth + 1)
            except BadDocument as bad:
                raise bad.inside(f"[{_shown(said)!r}]") from None
            pairs.append((as_java(said), item))
            at, more = separator(text, at, "}")
            if not more:
                return pairs, at

    return read


def _opened(text: str, at: int, depth: int, bracket: str, what: str) -> bool:
    """Whether an array or object is here; False for null."""
    if text[at : at + 1] == bracket:
        check_depth(depth, at)
        return True
    found = token(text, at)
    if found.kind is Kind.NULL:
        return False
    raise BadDocument(f"{_told(found)} is not {what}")


def _read_text(text: str, at: int, depth: int) -> tuple[str | None, int]:
    """A string as it is. Anything else as Jackson writes it."""
    found = token(text, at)
    if found.kind is Kind.STRING:
        check_length(found.text)
        return as_java(found.text), found.after
    if found.kind is Kind.NULL:
        return None, found.after
    if found.kind is Kind.OBJECT or found.kind is Kind.ARRAY:
        parts: list[str] = []
        at = copy(text, at, depth, parts)
        return "".join(parts), at
    return plain(found), found.after


def _read_strict_text(text: str, at: int, depth: int) -> tuple[str | None, int]:
    found = token(text, at)
    if found.kind is Kind.NULL:
        return None, found.after
    if found.kind is not Kind.STRING:
        raise BadDocument(f"{_told(found)} is not text")
    check_length(found.text)
    if as_java(found.text) != found.text:
        raise BadDocument("half of a surrogate pair is not text")
    return found.text, found.after


def _told(found: Token) -> str:
    if found.kind is Kind.STRING:
        return f"the text {_shown(found.text)!r}"
    return found.kind.value if found.kind in (Kind.OBJECT, Kind.ARRAY) else _shown(found.text)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _leaf(wanted: Any) -> Leaf:
    if pa.types.is_boolean(wanted):
        return _boolean
    if pa.types.is_integer(wanted):
        return _integer(wanted.bit_width)
    if pa.types.is_float64(wanted):
        return _double
    if pa.types.is_float32(wanted):
        return _float
    if pa.types.is_decimal(wanted):
        return _decimal(wanted.precision, wanted.scale)
    if pa.types.is_binary(wanted):
        return _bytes
    if pa.types.is_date32(wanted):
        return _date
    if wanted.tz is None:
        return _local_timestamp
    return _timestamp(wanted.tz)


def _boolean(found: Token) -> bool:
    if found.kind is Kind.TRUE or found.kind is Kind.FALSE:
        return found.kind is Kind.TRUE
    raise BadDocument(f"{_told(found)} is not true or false")


def _integer(bits: int) -> Leaf:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if bits == 8:
        high = 255  # Jackson takes bytes without a sign, too

    def read(found: Token) -> int:
        if found.kind is not Kind.INTEGER:
            raise BadDocument(f"{_told(found)} is not a whole number")
        number = int(found.text)
        if not low <= number <= high:
            raise BadDocument(f"{_told(found)} does not fit into {bits} bits")
        return number - 256 if bits == 8 and number > 127 else number

    return read


def _double(found: Token) -> float:
    if found.kind is Kind.INTEGER:
        return to_double(found.text) + 0.0  # -0 is 0, unlike -0.0
    if found.kind is Kind.FLOAT or (found.kind is Kind.STRING and found.text in _INFINITE):
        return to_double(found.text)
    raise BadDocument(f"{_told(found)} is not a number")


def _float(found: Token) -> float:
    """The nearest float. A double halfway between two floats may have been rounded itself: then the text decides."""
    number = _double(found)
    with np.errstate(over="ignore"):
        near = float(np.float32(number))
    if found.kind is Kind.STRING or not math.isfinite(number) or near == number:
        return near
    with np.errstate(over="ignore"):
        other = float(np.nextafter(np.float32(near), np.float32(math.copysign(math.inf, number - near))))
    if _clipped(near) + _clipped(other) != 2 * number:
        return near
    exact = Decimal(found.text)
    return near if exact == number else max(near, other) if exact > number else min(near, other)


def _clipped(number: float) -> float:
    """In place of infinity the number after the largest float."""
    return max(-(2.0**128), min(number, 2.0**128))


def _decimal(precision: int, scale: int) -> Leaf:
    def read(found: Token) -> Decimal:
        if found.kind not in (Kind.INTEGER, Kind.FLOAT, Kind.STRING):
            raise BadDocument(f"{_told(found)} is not a number")
        text = found.text.replace(",", "") if found.kind is Kind.STRING else found.text
        match = _DECIMAL.fullmatch(text)
        if match is None or max(text) > "\uffff":
            raise BadDocument(f"{_told(found)} is not a number")
        sign, whole, fraction, alone, power = match.groups()
        digits, fraction = (whole or "") + (fraction or alone or ""), fraction or alone or ""
        exponent = int(power or 0) - len(fraction)
        if len((power or "").lstrip("+-0")) > 10 or not -(2**31) < exponent <= 2**31:
            raise BadDocument(f"{_told(found)} has an exponent that is too large")
        number = _scaled(digits.lstrip("0"), exponent + scale)
        if number is None or len(str(number)) > precision:
            raise BadDocument(f"{_told(found)} does not fit into DECIMAL({precision},{scale})")
        return Decimal((int(sign == "-"), tuple(map(int, str(number))), -scale))

    return read


def _scaled(digits: str, shift: int) -> int | None:
    """DIGITS * 10^shift as a whole number, halves rounded up; None if it is too large for any decimal."""
    if not digits or len(digits) + shift < 0:
        return 0
    if len(digits) + shift > 40:
        return None
    if shift >= 0:
        return int(digits + "0" * shift)
    return (int(digits[:shift] or 0) * 10 + int(digits[shift:].rjust(-shift, "0")[0]) + 5) // 10


def _bytes(found: Token) -> bytes:
    if found.kind is not Kind.STRING:
        raise BadDocument(f"{_told(found)} is not text in Base64")
    if _BASE64.fullmatch(found.text) is None:
        raise BadDocument(f"{_told(found)} is not Base64")
    packed = re.sub(r"[\x00-\x20]+", "", found.text)
    return b"".join(map(base64.b64decode, _BASE64_PIECE.findall(packed)))


def _date(found: Token) -> int:
    days = json_times.date(as_java(found.text)) if found.kind is Kind.STRING else None
    if days is None:
        raise BadDocument(f"{_told(found)} is not a date")
    return days


def _local_timestamp(found: Token) -> int:
    micros = json_times.local_timestamp(as_java(found.text)) if found.kind is Kind.STRING else None
    if micros is None:
        raise BadDocument(f"{_told(found)} is not a timestamp without a time zone")
    return micros


def _timestamp(name_of_zone: str) -> Leaf:
    session = json_times.zone(name_of_zone) or UTC  # json_types.check refuses a name that is not known

    def read(found: Token) -> int:
        if found.kind is Kind.INTEGER:
            seconds = int(found.text)
            if not -json_times.LONG_MAX - 1 <= seconds <= json_times.LONG_MAX:
                raise BadDocument(f"{_told(found)} does not fit into 64 bits")
            return (seconds * json_times.MICROS + 2**63) % 2**64 - 2**63  # Spark lets it overflow
        micros = json_times.timestamp(as_java(found.text), session) if found.kind is Kind.STRING else None
        if micros is None:
            raise BadDocument(f"{_told(found)} is not a timestamp")
        return micros

    return read
