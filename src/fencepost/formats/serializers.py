"""Text and numbers, as the serializers of these names in Kafka's Java client write them.

==========  ============================  ==================================
format      bytes                         type
==========  ============================  ==================================
`string`    UTF-8                         STRING
`binary`    as they are                   BINARY
`boolean`   one, 0 or 1                   BOOLEAN
`short`     2, big-endian                 SMALLINT; also TINYINT is written
`integer`   4, big-endian                 INT, and narrower ones are written
`long`      8, big-endian                 BIGINT, and narrower ones are written
`float`     4, big-endian                 FLOAT
`double`    8, big-endian                 DOUBLE; also FLOAT is written
`uuid`      its text of 36 characters     STRING
==========  ============================  ==================================

As with Kafka's deserializers, null is null, and bytes of another length are a fault of their record.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.arrow import Longs, bytes_column
from fencepost.errors import ConfigError
from fencepost.formats.format import Converted

_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _check(name: str, writes: str, kind: Any, allowed: tuple[Any, ...]) -> None:
    if kind not in allowed:
        raise ConfigError(
            f"format {name!r} is for {writes}, not for {kind}: CAST it in the query, or take another format"
        )


@dataclass(frozen=True, slots=True)
class Bytes:
    """Binary: nothing to do."""

    def decoder(self, wanted: Any) -> "Bytes":
        return self.encoder(wanted)

    def encoder(self, given: Any) -> "Bytes":
        _check("binary", "BINARY", given, (pa.binary(), pa.large_binary(), pa.binary_view()))
        return self

    def decode(self, column: Any) -> Converted:
        return Converted(column)

    def encode(self, column: Any) -> Converted:
        return Converted(column.cast(pa.binary()))


@dataclass(frozen=True, slots=True)
class Text:
    def decoder(self, wanted: Any) -> "Text":
        return self.encoder(wanted)

    def encoder(self, given: Any) -> "Text":
        _check("string", "STRING", given, (pa.string(), pa.large_string(), pa.string_view()))
        return self

    def decode(self, column: Any) -> Converted:
        try:
            return Converted(column.cast(pa.string()))
        except pa.ArrowInvalid:
            return _row_by_row(column, _decoded_text)

    def encode(self, column: Any) -> Converted:
        """A string of Spark may be any bytes. They are written as they are."""
        return Converted(column.cast(pa.binary()))


@dataclass(frozen=True, slots=True)
class Uuid:
    """Text that must be a UUID, in both directions. It is read in lower case, as Java's `UUID.toString` writes it."""

    def decoder(self, wanted: Any) -> "Uuid":
        return self.encoder(wanted)

    def encoder(self, given: Any) -> "Uuid":
        _check("uuid", "STRING", given, (pa.string(), pa.large_string(), pa.string_view()))
        return self

    def decode(self, column: Any) -> Converted:
        return _row_by_row(column, _decoded_uuid)

    def encode(self, column: Any) -> Converted:
        found = _row_by_row(column.cast(pa.binary()), _decoded_uuid)
        return Converted(found.values.cast(pa.binary()), found.faults)


def _row_by_row(column: Any, decoded: Any) -> Converted:
    values: list[str | None] = []
    faults: dict[int, str] = {}
    for row, value in enumerate(column.to_pylist()):
        text, fault = (None, None) if value is None else decoded(value)
        values.append(text)
        if fault is not None:
            faults[row] = fault
    return Converted(pa.array(values, pa.string()), faults)


def _decoded_text(value: bytes) -> tuple[str | None, str | None]:
    try:
        return value.decode(), None
    except UnicodeDecodeError as error:
        return None, f"it is not UTF-8: byte {error.start} is 0x{value[error.start]:02x}"


def _decoded_uuid(value: bytes) -> tuple[str | None, str | None]:
    if _UUID.fullmatch(value):
        return value.decode().lower(), None
    return (
        None,
        f"{len(value)} bytes are not a UUID, which has 36 characters such as 123e4567-e89b-12d3-a456-426614174000",
    )


@dataclass(frozen=True, slots=True)
class Number:
    """Of a fixed width, big-endian."""

    name: str
    kind: Any  #: the Arrow type
    writes: str
    narrower: tuple[Any, ...] = ()  #: types that can be written without a loss

    def decoder(self, wanted: Any) -> "Number":
        _check(self.name, self.writes, wanted, (self.kind,))
        return self

    def encoder(self, given: Any) -> "Number":
        _check(self.name, self.writes, given, (self.kind, *self.narrower))
        return self

    def decode(self, column: Any) -> Converted:
        rows, width = len(column), self._width
        given = bytes_column(self.name, column)
        offsets = given.offsets.astype(np.int64) if given.offsets.size else np.zeros(rows + 1, np.int64)
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        is_good = is_there & (np.diff(offsets) == width)
        numbers = np.zeros((rows, width), np.uint8)
        if is_good.all():
            numbers[:] = given.data[offsets[0] : offsets[-1]].reshape(rows, width)
        else:
            numbers[is_good] = given.data[offsets[:-1][is_good, None] + np.arange(width)]
        article = "an" if self.name[0] == "i" else "a"
        faults = {
            row: f"{offsets[row + 1] - offsets[row]} bytes are not {article} {self.name}, which has {width}"
            for row in np.flatnonzero(is_there & ~is_good).tolist()
        }
        if pa.types.is_boolean(self.kind):
            for row in np.flatnonzero(numbers[:, 0] > 1).tolist():
                faults[row] = f"byte 0x{numbers[row, 0]:02x} is not a boolean, which is 0 or 1"
                is_good[row] = False
            return Converted(pa.array(numbers[:, 0] == 1, self.kind, mask=~is_good), faults)
        native = numbers.view(self._big_endian).ravel().astype(self._big_endian.newbyteorder("="))
        return Converted(pa.array(native, self.kind, mask=None if is_good.all() else ~is_good), faults)

    def encode(self, column: Any) -> Converted:
        rows = len(column)
        there = column.drop_null()
        if pa.types.is_boolean(self.kind):
            numbers = there.cast(pa.uint8()).to_numpy(zero_copy_only=False)
        else:
            numbers = there.cast(self.kind).to_numpy(zero_copy_only=False).astype(self._big_endian)
        validity = column.is_valid()
        ends: Longs = np.zeros(rows + 1, np.int64)
        np.cumsum(validity.to_numpy(zero_copy_only=False) * self._width, out=ends[1:])
        buffers = [
            validity.buffers()[1] if column.null_count else None,
            pa.py_buffer(ends.astype(np.int32)),
            pa.py_buffer(np.ascontiguousarray(numbers).view(np.uint8)),
        ]
        return Converted(pa.Array.from_buffers(pa.binary(), rows, buffers, column.null_count))

    @property
    def _width(self) -> int:
        return int(max(8, self.kind.bit_width)) // 8

    @property
    def _big_endian(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = np.dtype(self.kind.to_pandas_dtype())
        return kind.newbyteorder(">")


STRING, BINARY, UUID = Text(), Bytes(), Uuid()
BOOLEAN = Number("boolean", pa.bool_(), "BOOLEAN")
SHORT = Number("short", pa.int16(), "SMALLINT", (pa.int8(),))
INTEGER = Number("integer", pa.int32(), "INT", (pa.int8(), pa.int16()))
LONG = Number("long", pa.int64(), "BIGINT", (pa.int8(), pa.int16(), pa.int32()))
FLOAT = Number("float", pa.float32(), "FLOAT")
DOUBLE = Number("double", pa.float64(), "DOUBLE", (pa.float32(),))
