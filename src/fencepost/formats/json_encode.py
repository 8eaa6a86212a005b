"""Structs, maps and arrays to JSON: the bytes that Spark's `to_json` writes with its default options.

An encoder is a tree of *writers*, one for each column of the type, made once. A writer turns its column into `Texts`:
the JSON of every row, one after another. The writer of a struct, map or array has its children's texts made first, and
puts them together. Every step is a kernel over the whole column.

Nulls: a field that is null is left out of its object; an item of an array, or a value of a map, is `null`. A row that
is null has no text, so its record is a tombstone.

Differences from `to_json` are listed in docs/formats.md.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client import jit
from fencepost.client.arrow import NO_BYTES, Bytes, Longs, bytes_column, view
from fencepost.errors import ConfigError, WriteFailed
from fencepost.formats.format import Converted
from fencepost.formats.zones import Zone

#: Arrow counts the bytes of a column in 32 bits.
BYTES_MAX = (1 << 31) - 1

BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
NO_LONGS: Longs = np.empty(0, np.int64)

#: Jackson's escapes.
ESCAPES = {code: f"\\u{code:04X}" for code in range(32)}
ESCAPES |= {ord(char): f"\\{short}" for char, short in zip('"\\\b\t\n\f\r', '"\\btnfr', strict=True)}

#: Spark sends such a value as a struct whose fields say what it is.
DISGUISED = {b"variant", b"geometry", b"geography"}
#: A surrogate in UTF-8. Java takes it for one wrong character, Python for as many as it has bytes.
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class Texts(NamedTuple):
    """The JSON of all rows of a column. A row that is null has none."""

    ends: Longs  #: row i is from `ends[i]` to `ends[i + 1]`
    data: Bytes
    bitmap: Bytes = NO_BYTES  #: of what is not null; empty when nothing is
    first_bit: int = 0


Writer = Callable[[Any], Texts]


def encoder(given: Any) -> "JsonEncoder":
    """Raises ConfigError, which names the field, for a type that cannot be written. Times are in the type's zone."""
    if not _is_structure(given):
        raise ConfigError(f"JSON is written of a STRUCT, MAP or ARRAY, not of {given}")
    return JsonEncoder(_writer(given, ""))


class JsonEncoder:
    def __init__(self, writer: Writer) -> None:
        self._write = writer

    def encode(self, column: Any) -> Converted:
        """Never has faults: every value of a type that can be written has a text."""
        try:
            texts = self._write(column)
        except pa.ArrowInvalid as error:
            raise _too_large(str(error)) from None
        size = int(texts.ends[-1])
        if size > BYTES_MAX:
            raise _too_large(f"{size} bytes")
        validity = column.is_valid().buffers()[1] if column.null_count else None
        buffers = [validity, pa.py_buffer(texts.ends.astype(np.int32)), pa.py_buffer(texts.data[:size])]
        return Converted(pa.Array.from_buffers(pa.binary(), len(column), buffers, column.null_count))


def _too_large(what: str) -> WriteFailed:
    return WriteFailed(
        f"the JSON of one Arrow batch has more than 2 GiB ({what}): lower spark.sql.execution.arrow.maxRecordsPerBatch"
    )


def _is_structure(kind: Any) -> bool:
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind) or _is_list(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _writer(kind: Any, path: str) -> Writer:
    """`path` is where the type is inside the given one, for errors."""
    types = pa.types
    if types.is_struct(kind):
        return _struct_writer(kind, path)
    if types.is_map(kind):
        quotes_keys, keys = _key_writer(kind.key_type, path)
        return functools.partial(_write_map, keys, quotes_keys, _writer(kind.item_type, f"{path}.value"))
    if _is_list(kind):
        return functools.partial(_write_list, _writer(kind.value_type, f"{path}[]"))
    if types.is_dictionary(kind):
        return _after(lambda array: array.dictionary_decode(), _writer(kind.value_type, path))
    if (simple := _simple_writer(kind)) is not None:
        return simple
    where = f"{path.lstrip('.')} is" if path else "it is"
    raise ConfigError(f"JSON cannot hold every type: {where} {kind}. Cast it to a STRING or a number in the query")


def _simple_writer(kind: Any) -> Writer | None:
    types = pa.types
    if types.is_null(kind):
        return _write_nulls
    if types.is_boolean(kind) or types.is_decimal(kind):
        return _write_as_arrow_does
    if types.is_uint64(kind):
        return _after(lambda array: array.cast(pa.decimal128(20, 0)), _write_as_arrow_does)
    if types.is_integer(kind):
        return _write_integers
    if types.is_floating(kind):
        return functools.partial(_write_floats, 1)
    if types.is_string(kind):
        return _write_strings
    if types.is_large_string(kind) or types.is_string_view(kind):
        return _after(lambda array: array.cast(pa.string()), _write_strings)
    if types.is_binary(kind):
        return _write_binary
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return _after(lambda array: array.cast(pa.binary()), _write_binary)
    return _time_writer(kind)


def _time_writer(kind: Any) -> Writer | None:
    types = pa.types
    if types.is_date(kind):
        return functools.partial(_write_times, _Shape.DATE, None)
    if types.is_timestamp(kind):
        shape = _Shape.LOCAL if kind.tz is None else _Shape.ZONED
        return functools.partial(_write_times, shape, None if kind.tz is None else Zone(kind.tz))
    if types.is_time(kind):
        return functools.partial(_write_times, _Shape.TIME_OF_DAY, None)
    return None


def _key_writer(kind: Any, path: str) -> tuple[bool, Writer]:
    """Names in an object, and whether they still need quotes. Spark writes dates and times there as bare numbers."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return False, _writer(kind, path)
    if types.is_floating(kind):
        return True, functools.partial(_write_floats, 0)
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return True, _write_integers
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return True, _writer(kind, path)
    where = f"{path.lstrip('.')} has" if path else "it has"
    raise ConfigError(f"the keys of a map become names of an object in JSON: {where} {kind}. Use STRING keys")


def _after(first: Callable[[Any], Any], then: Writer) -> Writer:
    return lambda array: then(first(array))


# -- values ------------------------------------------------------------------------------------------------------------


class _Shape:
    """As in `json_number_kernels`."""

    DATE, LOCAL, ZONED, TIME_OF_DAY = range(4)


#: Of an Arrow unit, what of it are in a second.
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _write_nulls(array: Any) -> Texts:
    rows = len(array)
    return Texts(np.zeros(rows + 1, np.int64), NO_BYTES, np.zeros(rows // 8 + 1, np.uint8))


def _write_as_arrow_does(array: Any) -> Texts:
    """Booleans; and decimals, which Arrow writes by the rules of Java's BigDecimal."""
    column = bytes_column("", array.cast(pa.string()))
    return Texts(column.offsets.astype(np.int64), column.data, column.bitmap, column.first_bit)


def _write_integers(array: Any) -> Texts:
    kernels = _numbers()
    bitmap, first_bit = _validity(array)
    out, ends = _space(len(array), kernels.LONG_BYTES * len(array))
    kernels.format_longs(_longs(array), bitmap, first_bit, out, ends)
    return Texts(ends, out, bitmap, first_bit)


def _write_floats(quotes: int, array: Any) -> Texts:
    kernels = _numbers()
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    bitmap, first_bit = _validity(array)
    out, ends = _space(len(array), kernels.DOUBLE_BYTES * len(array))
    shape = (52, 3) if pa.types.is_float64(array.type) else (23, 8)
    kernels.format_doubles(_longs(array), *shape, _powers(), quotes, bitmap, first_bit, out, ends)
    return Texts(ends, out, bitmap, first_bit)


def _write_strings(array: Any) -> Texts:
    kernels, rows, column = _texts(), len(array), bytes_column("", array)
    begin, end = (int(column.offsets[0]), int(column.offsets[-1])) if rows else (0, 0)
    found = np.zeros(2, np.int64)
    kernels.survey(column.data, begin, end, found)
    escapes, has_high_bytes = found.tolist()
    if has_high_bytes and not _is_utf8(array):
        return _write_strings(_repaired(array))
    out, ends = _space(rows, end - begin + escapes + 2 * rows)
    kernels.quote_strings(column.offsets, column.data, escapes, column.bitmap, column.first_bit, out, ends)
    return Texts(ends, out, column.bitmap, column.first_bit)


def _is_utf8(array: Any) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repaired(array: Any) -> Any:
    """Spark's strings may be any bytes. As in Java, what is not UTF-8 becomes U+FFFD."""
    values = array.cast(pa.binary()).to_pylist()
    return pa.array([None if value is None else _readable(value) for value in values], pa.string())


def _readable(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return SURROGATE.sub("\ufffd".encode(), value).decode(errors="replace")


def _write_binary(array: Any) -> Texts:
    kernels, rows, column = _texts(), len(array), bytes_column("", array)
    out, ends = _space(rows, column.size // 3 * 4 + 6 * rows)
    kernels.quote_base64(column.offsets, column.data, BASE64, column.bitmap, column.first_bit, out, ends)
    return Texts(ends, out, column.bitmap, column.first_bit)


def _write_times(shape: int, zone: Zone | None, array: Any) -> Texts:
    kernels = _numbers()
    bitmap, first_bit = _validity(array)
    out, ends = _space(len(array), kernels.TIME_BYTES * len(array))
    values = _longs(array)
    if shape == _Shape.DATE:
        values = values // 86_400_000 if pa.types.is_date64(array.type) else values
    else:
        values = _in_unit(values, UNITS[array.type.unit], 1_000_000 if shape == _Shape.TIME_OF_DAY else 1_000)
    offsets_s = NO_LONGS if zone is None else zone.offsets_s(values // 1000)
    kernels.format_times(values, offsets_s, shape, bitmap, first_bit, out, ends)
    return Texts(ends, out, bitmap, first_bit)


def _in_unit(values: Longs, given: int, wanted: int) -> Longs:
    """Rounded down, before 1970 as well."""
    return values * (wanted // given) if wanted >= given else values // (given // wanted)


# -- structures --------------------------------------------------------------------------------------------------------


def _struct_writer(kind: Any, path: str) -> Writer:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    if any(DISGUISED & (field.metadata or {}).keys() for field in fields):
        raise ConfigError(f"JSON cannot hold every type: {path.lstrip('.') or 'it'} is a VARIANT or a GEOMETRY")
    names = [f'"{field.name.translate(ESCAPES)}":'.encode() for field in fields]
    writers = [_writer(field.type, f"{path}.{field.name}") for field in fields]
    ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
    return functools.partial(_write_struct, writers, ends, np.frombuffer(b"".join(names), np.uint8))


def _write_struct(writers: Sequence[Writer], name_ends: Longs, names: Bytes, array: Any) -> Texts:
    kernels, rows = _texts(), len(array)
    fields = [write(array.field(index)) for index, write in enumerate(writers)]
    table = np.array(
        [
            [
                each.ends.ctypes.data,
                each.data.ctypes.data,
                each.bitmap.ctypes.data * bool(each.bitmap.size),
                each.first_bit,
            ]
            for each in fields
        ],
        np.int64,
    ).reshape(len(fields), 4)
    bitmap, first_bit = _validity(array)
    size = sum(int(each.ends[-1] - each.ends[0]) for each in fields)
    out, ends = _space(rows, size + rows * (names.size + len(fields) + 2))
    kernels.join_fields(table, name_ends, names, bitmap, first_bit, out, ends)
    return Texts(ends, out, bitmap, first_bit)


def _write_list(write: Writer, array: Any) -> Texts:
    offsets, items = _items(array)
    texts = write(items)
    return _join(array, offsets, None, False, texts)


def _write_map(write_keys: Writer, quotes_keys: bool, write: Writer, array: Any) -> Texts:
    offsets, entries = _items(array)
    keys, values = (entries.field(index) for index in (0, 1))
    return _join(array, offsets, write_keys(keys), quotes_keys, write(values))


def _items(array: Any) -> tuple[Longs, Any]:
    """Where each row's items begin, and all items of these rows."""
    width = np.int64 if pa.types.is_large_list(array.type) else np.int32
    offsets = view(array.buffers()[1], width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if not offsets.size:
        return np.zeros(1, np.int64), array.values.slice(0, 0)
    return offsets - offsets[0], array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _join(array: Any, offsets: Longs, keys: Texts | None, quotes_keys: bool, items: Texts) -> Texts:
    kernels, rows = _texts(), len(array)
    bitmap, first_bit = _validity(array)
    names = tuple(keys or Texts(NO_LONGS, NO_BYTES))
    size = int(items.ends[-1] - items.ends[0]) + (int(keys.ends[-1] - keys.ends[0]) if keys else 0)
    out, ends = _space(rows, size + 2 * rows + 12 * int(offsets[-1]))
    kernels.join_items(offsets, bitmap, first_bit, names, keys is not None, quotes_keys, tuple(items), out, ends)
    return Texts(ends, out, bitmap, first_bit)


# -- what the kernels take ---------------------------------------------------------------------------------------------


def _texts() -> Any:
    return jit.load("formats.json_encode_kernels")


def _numbers() -> Any:
    return jit.load("formats.json_number_kernels")


def _space(rows: int, size: int) -> tuple[Bytes, Longs]:
    """For the texts, and for where they end. What is never written to takes no memory."""
    return np.empty(size, np.uint8), np.zeros(rows + 1, np.int64)


def _validity(array: Any) -> tuple[Bytes, int]:
    return (view(array.buffers()[0], np.uint8) if array.null_count else NO_BYTES), array.offset


def _longs(array: Any) -> Longs:
    """The numbers, or the bits of floating ones, of a column of fixed width."""
    width, is_unsigned = array.type.bit_width, pa.types.is_unsigned_integer(array.type)
    values = view(array.buffers()[1], np.dtype(f"{'u' if is_unsigned else 'i'}{width // 8}"))
    return np.ascontiguousarray(values[array.offset : array.offset + len(array)], np.int64)


@functools.cache
def _powers() -> Any:
    """For each k, 10**-k as a number of 126 bits, rounded up: its upper and its lower 63 bits."""
    kernels, found = _numbers(), []
    for k in range(kernels.K_MIN, kernels.K_MAX + 1):
        if k <= 0:
            power = 10**-k
            shift = 126 - power.bit_length()
            g = (power << shift if shift >= 0 else power >> -shift) + 1
        else:
            power = 10**k
            g = (1 << (125 + power.bit_length())) // power + 1
        found += [g >> 63, g & ((1 << 63) - 1)]
    return np.array(found, np.uint64)
