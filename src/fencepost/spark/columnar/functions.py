"""What Spark's expressions do to Arrow columns: a table from Catalyst's classes to functions.

A value is an Arrow array, or a scalar that stands for every row. Each function takes the types for which Arrow's
kernel, or what is built of it, gives Spark's result for every value. For others it raises `Uncertain`; so it does where
Spark would raise, wrap around or give null, which depends on ANSI mode: then the batch is run by Spark.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

Value = Any  #: pa.Array or pa.Scalar
Function = Callable[[Sequence[Value]], Value]

MAX_INT32 = 2**31 - 1


class Uncertain(Exception):
    """These values, or values of these types, may mean something else to Spark."""


def is_scalar(value: Value) -> bool:
    return isinstance(value, pa.Scalar)


def as_array(value: Value, rows: int) -> Any:
    return pa.repeat(value, rows) if is_scalar(value) else value


def mask_of(condition: Value, rows: int) -> Any:
    """Where a condition is true; null is not."""
    found = pc.fill_null(as_array(condition, rows), False)
    return found if pa.types.is_boolean(found.type) else _refuse("a condition of another type")


def _refuse(why: str) -> Any:
    raise Uncertain(why)


# -- types -------------------------------------------------------------------------------------------------------------


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _same_type(values: Sequence[Value]) -> Any:
    kinds = {value.type for value in values}
    return values[0].type if len(kinds) == 1 else _refuse(f"operands of different types: {kinds}")


def _require(values: Sequence[Value], *checks: Callable[[Any], bool]) -> None:
    for value in values:
        if not any(check(value.type) for check in checks):
            raise Uncertain(f"a value of type {value.type}")


def _comparable(values: Sequence[Value]) -> None:
    """NaN equals NaN in Spark, and is larger than all numbers."""
    kind = _same_type(values)
    if pa.types.is_floating(kind):
        _require(values, pa.types.is_float32, pa.types.is_float64)
        for value in values:
            if pc.any(pc.is_nan(pa.array([value.as_py()], kind) if is_scalar(value) else value)).as_py():
                raise Uncertain("NaN in a comparison")
        return
    _require(
        values,
        *(pa.types.is_signed_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary),
        *(pa.types.is_date32, pa.types.is_timestamp),
    )


# -- logic -------------------------------------------------------------------------------------------------------------


def _booleans(function: Callable[..., Value]) -> Function:
    def call(values: Sequence[Value]) -> Value:
        _require(values, pa.types.is_boolean)
        return function(*values)

    return call


def _compared(function: Callable[[Value, Value], Value]) -> Function:
    def call(values: Sequence[Value]) -> Value:
        _comparable(values)
        return function(*values)

    return call


def _null_safe_equal(values: Sequence[Value]) -> Value:
    _comparable(values)
    left, right = values
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.coalesce(pc.equal(left, right), pa.scalar(False)), both_null)


def _in(values: Sequence[Value]) -> Value:
    wanted, *listed = values
    _comparable(values)
    are_literals = all(is_scalar(each) and each.is_valid for each in listed)
    if pa.types.is_floating(wanted.type) or not are_literals or is_scalar(wanted):
        raise Uncertain("IN with something else than values")
    found = pc.is_in(wanted, value_set=pa.array([each.as_py() for each in listed], wanted.type))
    return pc.if_else(wanted.is_valid(), found, pa.scalar(None, pa.bool_()))


def _coalesce(values: Sequence[Value]) -> Value:
    first = values[0]
    if is_scalar(first):
        return first if first.is_valid else _coalesce(values[1:]) if values[1:] else first
    if not first.null_count or len(values) == 1:
        return first
    if pa.types.is_null(first.type):
        return as_array(_coalesce(values[1:]), len(first))
    rest = _coalesce(values[1:])
    if rest.type != first.type:
        raise Uncertain(f"coalesce of {first.type} and {rest.type}")
    return pc.if_else(first.is_valid(), first, rest)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _arithmetic(checked: Callable[[Value, Value], Value]) -> Function:
    """With Arrow's checks for overflow. Integers and doubles follow the same rules in Java."""

    def call(values: Sequence[Value]) -> Value:
        _same_type(values)
        _require(values, _is_number)
        return checked(*values)

    return call


def _division(kernel: Callable[[Value, Value], Value], is_taken: Callable[[Any], bool]) -> Function:
    def call(values: Sequence[Value]) -> Value:
        left, right = values
        _same_type(values)
        _require(values, is_taken)
        _refuse_zero(right)
        return kernel(left, right)

    return call


def _refuse_zero(right: Value) -> None:
    zeros = pc.equal(right, pa.scalar(0, right.type))
    if (zeros.as_py() if is_scalar(zeros) else pc.any(zeros).as_py()) is True:
        raise Uncertain("a division by zero")


def _remainder(values: Sequence[Value]) -> Value:
    """The sign is that of the dividend, as in Java and C."""
    left, right = values
    kind = _same_type(values)
    _require(values, pa.types.is_signed_integer)
    _refuse_zero(right)
    if is_scalar(left) and is_scalar(right):
        raise Uncertain("a remainder of literals")
    if is_scalar(left):
        left = as_array(left, len(right))
    if not is_scalar(right):
        both = pc.and_(left.is_valid(), right.is_valid())
        divisor = pc.fill_null(right, 1).to_numpy(zero_copy_only=False)
    else:
        if not right.is_valid:
            return pa.nulls(len(left), kind)
        both, divisor = left.is_valid(), np.array(right.as_py(), kind.to_pandas_dtype())
    dividend = pc.fill_null(left, 0).to_numpy(zero_copy_only=False)
    found = pa.array(np.fmod(dividend, divisor), kind)
    return found if both.true_count == len(found) else pc.if_else(both, found, pa.scalar(None, kind))


def _negated(values: Sequence[Value]) -> Value:
    _require(values, _is_number)
    return pc.negate_checked(*values)


def _absolute(values: Sequence[Value]) -> Value:
    _require(values, _is_number)
    return pc.abs_checked(*values)


# -- text --------------------------------------------------------------------------------------------------------------


def _texts(function: Callable[..., Value]) -> Function:
    def call(values: Sequence[Value]) -> Value:
        _require(values, pa.types.is_string)
        return function(*values)

    return call


def _joined(*values: Value) -> Value:
    return pc.binary_join_element_wise(*values, pa.scalar("", pa.string()))


def _ascii(function: Callable[[Value], Value]) -> Function:
    """Java's tables of letters may be of another version of Unicode than Arrow's."""

    def call(values: Sequence[Value]) -> Value:
        _require(values, pa.types.is_string)
        (value,) = values
        texts = value if not is_scalar(value) else pa.array([value.as_py()], pa.string())
        if pc.all(pc.string_is_ascii(texts)).as_py() is False:
            raise Uncertain("letters beyond ASCII")
        return function(value)

    return call


def _length(values: Sequence[Value]) -> Value:
    (value,) = values
    _require(values, pa.types.is_string, pa.types.is_binary)
    return (pc.utf8_length if pa.types.is_string(value.type) else pc.binary_length)(value)


def _octets(values: Sequence[Value]) -> Value:
    _require(values, pa.types.is_string, pa.types.is_binary)
    return pc.binary_length(*values)


def _literal_of(value: Value) -> Any:
    if not is_scalar(value) or not value.is_valid:
        raise Uncertain("an argument that is not a literal")
    return value.as_py()


def _affix(function: Callable[..., Value]) -> Function:
    def call(values: Sequence[Value]) -> Value:
        _require(values, pa.types.is_string)
        return function(values[0], pattern=_literal_of(values[1]))

    return call


def like(text: Value, pattern: Value, escape: str) -> Value:
    """LIKE with at most one `%` at each end, or one in between: a comparison of texts, without a regular expression."""
    _require([text, pattern], pa.types.is_string)
    wanted = _literal_of(pattern)
    if "_" in wanted or escape in wanted:
        raise Uncertain("LIKE with a place for one letter")
    match wanted.split("%"):
        case [whole]:
            return pc.equal(text, pa.scalar(whole))
        case [start, ""]:
            return pc.starts_with(text, pattern=start)
        case ["", end]:
            return pc.ends_with(text, pattern=end)
        case ["", part, ""]:
            return pc.match_substring(text, pattern=part)
        case [start, end]:
            is_long = pc.greater_equal(pc.binary_length(text), len(start.encode()) + len(end.encode()))
            return pc.and_(is_long, pc.and_(pc.starts_with(text, pattern=start), pc.ends_with(text, pattern=end)))
    raise Uncertain("LIKE with several places")


def _trimmed(values: Sequence[Value]) -> Value:
    """Spark's trim takes spaces away, and nothing else."""
    if len(values) != 1:
        raise Uncertain("trim of other characters")
    _require(values, pa.types.is_string)
    return pc.utf8_trim(values[0], characters=" ")


def _substring(values: Sequence[Value]) -> Value:
    text, position, length = values
    _require([text], pa.types.is_string)
    start, count = _literal_of(position), _literal_of(length)
    if start < 1 or count < 0:
        raise Uncertain("a substring from the end")
    is_rest = count >= MAX_INT32 - start
    return pc.utf8_slice_codeunits(text, start - 1, None if is_rest else start - 1 + count)


def _padded(function: Callable[..., Value]) -> Function:
    """Spark also cuts what is too long."""

    def call(values: Sequence[Value]) -> Value:
        text, width, padding = values
        _require([text, padding], pa.types.is_string)
        wide, filler = _literal_of(width), _literal_of(padding)
        if len(filler) != 1 or not 0 < wide < 1 << 16 or is_scalar(text):
            raise Uncertain("padding with several characters")
        found = function(text, wide, padding=filler)
        longest = pc.max(pc.binary_length(found)).as_py()
        return found if longest is None or longest <= wide else pc.utf8_slice_codeunits(found, 0, wide)

    return call


# -- types to types ----------------------------------------------------------------------------------------------------


def cast(value: Value, kind: Any) -> Value:
    """Spark's CAST, where it cannot fail and gives the same in every mode, and in every time zone."""
    given, types = value.type, pa.types
    if given == kind:
        return value
    if types.is_null(given):
        return pa.scalar(None, kind) if is_scalar(value) else pa.nulls(len(value), kind)
    if types.is_list(given) and types.is_list(kind) and types.is_null(given.value_type):
        return _empty_lists(value, kind)
    is_safe = (
        (types.is_signed_integer(given) and (types.is_signed_integer(kind) or types.is_string(kind)))
        or (types.is_boolean(given) and types.is_string(kind))
        or (types.is_string(given) and types.is_binary(kind))
        or (types.is_binary(given) and types.is_string(kind))
        or (types.is_float32(given) and types.is_float64(kind))
    )
    if is_safe:
        return value.cast(kind)
    if types.is_decimal(given) and types.is_float64(kind) and is_scalar(value) and value.is_valid:
        return pa.scalar(float(value.as_py()), kind)  # a number in SQL; both languages give the nearest double
    if types.is_signed_integer(given) and (types.is_float32(kind) or types.is_float64(kind)):
        return value.cast(kind, safe=False)  # to the nearest, as in Java
    raise Uncertain(f"a cast from {given} to {kind}")


def _empty_lists(value: Value, kind: Any) -> Value:
    if is_scalar(value):
        return pa.scalar([], kind) if value.is_valid and not value.as_py() else _refuse("a list of nulls")
    if len(value.flatten()):
        raise Uncertain("a list of nulls")
    return pa.array([], kind) if not len(value) else pa.repeat(pa.scalar([], kind), len(value))


FUNCTIONS: dict[str, Function] = {
    "And": _booleans(pc.and_kleene),
    "Or": _booleans(pc.or_kleene),
    "Not": _booleans(pc.invert),
    "IsNull": lambda values: pc.is_null(*values),
    "IsNotNull": lambda values: pc.is_valid(*values),
    "EqualTo": _compared(pc.equal),
    "EqualNullSafe": _null_safe_equal,
    "LessThan": _compared(pc.less),
    "LessThanOrEqual": _compared(pc.less_equal),
    "GreaterThan": _compared(pc.greater),
    "GreaterThanOrEqual": _compared(pc.greater_equal),
    "In": _in,
    "Coalesce": _coalesce,
    "Add": _arithmetic(pc.add_checked),
    "Subtract": _arithmetic(pc.subtract_checked),
    "Multiply": _arithmetic(pc.multiply_checked),
    "Divide": _division(pc.divide, pa.types.is_float64),
    "IntegralDivide": _division(pc.divide_checked, pa.types.is_int64),
    "Remainder": _remainder,
    "UnaryMinus": _negated,
    "Abs": _absolute,
    "Lower": _ascii(pc.utf8_lower),
    "Upper": _ascii(pc.utf8_upper),
    "Length": _length,
    "OctetLength": _octets,
    "StartsWith": _affix(pc.starts_with),
    "EndsWith": _affix(pc.ends_with),
    "Contains": _affix(pc.match_substring),
    "StringTrim": _trimmed,
    "Substring": _substring,
    "StringLPad": _padded(pc.utf8_lpad),
    "StringRPad": _padded(pc.utf8_rpad),
}

join_texts = _texts(_joined)
