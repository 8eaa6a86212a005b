"""Structs to bytes and back, in any version: the mechanics under `messages`.

A `Schema` knows a message's fields and the versions that have them; for each version it makes a `StructCodec` at first
use, whose readers and writers are closures chosen once. Invariant: whatever the bytes are, reading raises nothing but
`Malformed`, and its work is bounded by the number of bytes.
"""

import itertools
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.errors import InvariantBroken, Malformed
from fencepost.wire.varint import read_unsigned, write_unsigned

Buffer = bytes | bytearray | memoryview
Reader = Callable[[Buffer, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]

NULL_UUID = bytes(16)

#: The largest length that fits before a plain string. As in Kafka it also limits compact strings, so that a name from a
#: flexible request fits into every other message.
MAX_STRING_BYTES = 0x7FFF

#: Upper bound on array items and tagged fields in one request, nested arrays included. An item of three bytes becomes
#: an object of hundreds: without a bound, a request of 100 MB would fill the memory and block all other clients for
#: minutes. No real consumer has that many partitions.
MAX_REQUEST_ITEMS = 100_000
UNLIMITED = 2**62


class _Allowance(threading.local):
    """Items that the message being read by this thread may still have."""

    items = UNLIMITED


_allowance = _Allowance()


def _spend(items: int) -> None:
    _allowance.items -= items
    if _allowance.items < 0:
        raise Malformed(f"more than {MAX_REQUEST_ITEMS} items in one request")


class Message:
    """A decoded struct. Each kind of struct is a subclass whose class attributes are the defaults of its fields."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:  # called only for names without a value or default
        raise AttributeError(f"{type(self).__name__} has no field {name}")


@dataclass(frozen=True, slots=True)
class Versions:
    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


ALWAYS = Versions(0, 32767)
NEVER = Versions(0, -1)


@dataclass(slots=True)
class Field:
    name: str
    kind: str  #: a primitive's name, or "struct"
    is_array: bool
    versions: Versions = ALWAYS
    nullable: Versions = NEVER
    tag: int | None = None
    default: Any = None
    children: "list[Field]" = field(default_factory=list)
    message: type[Message] = Message


@dataclass(slots=True)
class Schema:
    """One message in all of its versions."""

    name: str
    versions: Versions
    flexible: Versions
    fields: list[Field]
    message: type[Message]
    max_items: int = UNLIMITED
    _codecs: "dict[int, StructCodec]" = field(default_factory=dict)

    def codec(self, version: int) -> "StructCodec":
        codec = self._codecs.get(version)
        if codec is None:
            if version not in self.versions:
                raise InvariantBroken(f"{self.name} has no version {version}")
            codec = StructCodec(self.name, self.fields, self.message, version, flexible=version in self.flexible)
            self._codecs[version] = codec
        return codec

    def decode(self, version: int, buffer: Buffer, position: int = 0) -> Message:
        """The message at `position`. Raises Malformed if the bytes are not one."""
        _allowance.items = self.max_items
        try:
            message, _ = self.codec(version).read(buffer, position)
        except (Malformed, struct.error, IndexError, UnicodeDecodeError) as error:
            raise Malformed(f"{self.name} v{version}: {error}") from None
        return message

    def encode(self, version: int, values: Mapping[str, Any] | Message, out: bytearray | None = None) -> bytearray:
        out = bytearray() if out is None else out
        self.codec(version).write(out, values)
        return out


class StructCodec:
    """Reads and writes one struct in one version."""

    def __init__(self, path: str, fields: list[Field], message: type[Message], version: int, *, flexible: bool) -> None:
        self._path = path
        self._message = message
        self._flexible = flexible
        self._known = frozenset(f.name for f in fields)
        present = [f for f in fields if version in f.versions]
        codecs = {f.name: field_codec(f, version, flexible=flexible) for f in present}
        self._readers = _steps([f for f in present if f.tag is None], codecs)
        self._writers = [(f.name, codecs[f.name][1], f.default) for f in present if f.tag is None]
        self._tagged_readers = {f.tag: (f.name, codecs[f.name][0]) for f in present if f.tag is not None}
        self._tagged_writers = sorted(
            (f.tag, f.name, codecs[f.name][1], f.default) for f in present if f.tag is not None
        )

    def read(self, buffer: Buffer, position: int) -> tuple[Message, int]:
        message = self._message()
        values = message.__dict__
        for names, packed, name, read in self._readers:
            if packed is not None:
                values.update(zip(names, packed.unpack_from(buffer, position), strict=True))
                position += packed.size
            else:
                values[name], position = read(buffer, position)
        if self._flexible:
            position = position + 1 if buffer[position] == 0 else self._read_tagged(buffer, position, values)
        return message, position

    def write(self, out: bytearray, source: Mapping[str, Any] | Message) -> None:
        values = source if isinstance(source, Mapping) else vars(source)
        if not values.keys() <= self._known:
            raise InvariantBroken(f"{self._path} has no field {', '.join(sorted(values.keys() - self._known))}")
        for name, write, default in self._writers:
            write(out, values.get(name, default))
        if self._flexible:
            self._write_tagged(out, values)

    def _read_tagged(self, buffer: Buffer, position: int, values: dict[str, Any]) -> int:
        count, position = read_unsigned(buffer, position)
        if count:
            _spend(count)
        for _ in range(count):
            tag, position = read_unsigned(buffer, position)
            size, position = read_unsigned(buffer, position)
            end = position + size
            if end > len(buffer):
                raise Malformed("tagged field runs past the end")
            known = self._tagged_readers.get(tag)
            if known is not None:
                name, read = known
                values[name], after = read(buffer, position)
                if after != end:
                    raise Malformed(f"tagged field {name} does not have its stated size")
            position = end
        return position

    def _write_tagged(self, out: bytearray, values: Mapping[str, Any]) -> None:
        present = [
            (tag, write, values[name])
            for tag, name, write, default in self._tagged_writers
            if name in values and values[name] != default
        ]
        write_unsigned(out, len(present))
        for tag, write, value in present:
            body = bytearray()
            write(body, value)
            write_unsigned(out, tag)
            write_unsigned(out, len(body))
            out += body


#: Either several fixed fields, read at once, or the name of one field and what reads it.
_Step = tuple[tuple[str, ...], struct.Struct | None, str, Reader]


def _steps(fields: list[Field], codecs: Mapping[str, tuple[Reader, Writer]]) -> list[_Step]:
    """Fixed fields that follow each other are one step: requests name a thousand partitions, each a few numbers."""
    steps: list[_Step] = []
    for is_fixed, group in itertools.groupby(fields, lambda f: f.kind in _LAYOUTS and not f.is_array):
        run = list(group)
        if is_fixed and len(run) > 1:
            packed = struct.Struct(">" + "".join(_LAYOUTS[f.kind] for f in run))
            steps.append((tuple(f.name for f in run), packed, "", codecs[run[0].name][0]))
        else:
            steps += [((), None, f.name, codecs[f.name][0]) for f in run]
    return steps


def field_codec(spec: Field, version: int, *, flexible: bool) -> tuple[Reader, Writer]:
    nullable = version in spec.nullable
    if spec.kind == "struct":
        codec = StructCodec(spec.name, spec.children, spec.message, version, flexible=flexible)
        item: tuple[Reader, Writer] = (codec.read, codec.write)
        if nullable and not spec.is_array:
            item = _nullable_struct(*item)
    elif spec.kind in _FIXED:
        item = _FIXED[spec.kind]
    else:
        item = _sized(spec.kind, flexible=flexible, nullable=nullable and not spec.is_array)
    if spec.is_array:
        items = _numbers(_LAYOUTS[spec.kind]) if spec.kind in _LAYOUTS else _one_by_one(*item)
        return _array(*items, flexible=flexible, nullable=nullable)
    return item


def _fixed(layout: str) -> tuple[Reader, Writer]:
    packer = struct.Struct(">" + layout)
    unpack, pack, size = packer.unpack_from, packer.pack, packer.size

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        return unpack(buffer, position)[0], position + size

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return read, write


def _read_uuid(buffer: Buffer, position: int) -> tuple[bytes, int]:
    end = position + 16
    if end > len(buffer):
        raise Malformed("truncated uuid")
    return bytes(buffer[position:end]), end


def _write_uuid(out: bytearray, value: bytes) -> None:
    out += value


#: In the letters of `struct`.
_LAYOUTS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}
_FIXED: dict[str, tuple[Reader, Writer]] = {
    **{kind: _fixed(layout) for kind, layout in _LAYOUTS.items()},
    "uuid": (_read_uuid, _write_uuid),
}


def _length(kind: str, *, flexible: bool) -> tuple[Reader, Writer]:
    """The length before a string, bytes or array. -1 means null; the compact form adds one, so there 0 means null."""
    if not flexible:
        return _FIXED["int16" if kind == "string" else "int32"]

    def read(buffer: Buffer, position: int) -> tuple[int, int]:
        value, position = read_unsigned(buffer, position)
        return value - 1, position

    def write(out: bytearray, value: int) -> None:
        write_unsigned(out, value + 1)

    return read, write


def _sized(kind: str, *, flexible: bool, nullable: bool) -> tuple[Reader, Writer]:
    read_length, write_length = _length(kind, flexible=flexible)

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            if nullable or kind == "records":
                return None, position
            raise Malformed(f"non-nullable {kind} is null")
        end = position + length
        if end > len(buffer):
            raise Malformed(f"{kind} of {length} bytes runs past the end")
        if kind == "string" and length > MAX_STRING_BYTES:
            raise Malformed(f"string of {length} bytes is longer than {MAX_STRING_BYTES}")
        part = buffer[position:end]
        if kind == "string":
            return str(part, "utf-8"), end
        return (part if kind == "records" else bytes(part)), end

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            if not nullable and kind != "records":
                raise InvariantBroken(f"non-nullable {kind} is null")
            write_length(out, -1)
            return
        data = value.encode() if kind == "string" else value
        write_length(out, len(data))
        out += data

    return read, write


#: The items of an array, of which there are so many.
ItemsReader = Callable[[Buffer, int, int], tuple[list[Any], int]]
ItemsWriter = Callable[[bytearray, Sequence[Any]], None]


def _one_by_one(read_item: Reader, write_item: Writer) -> tuple[ItemsReader, ItemsWriter]:
    def read(buffer: Buffer, position: int, count: int) -> tuple[list[Any], int]:
        items = []
        for _ in range(count):
            item, position = read_item(buffer, position)
            items.append(item)
        return items, position

    def write(out: bytearray, items: Sequence[Any]) -> None:
        for item in items:
            write_item(out, item)

    return read, write


def _numbers(layout: str) -> tuple[ItemsReader, ItemsWriter]:
    """All at once: a transaction's record has a thousand partitions, and is written again for each one more."""
    size = struct.calcsize(">" + layout)

    def read(buffer: Buffer, position: int, count: int) -> tuple[list[Any], int]:
        return list(struct.unpack_from(f">{count}{layout}", buffer, position)), position + count * size

    def write(out: bytearray, items: Sequence[Any]) -> None:
        out += struct.pack(f">{len(items)}{layout}", *items)

    return read, write


def _array(
    read_items: ItemsReader, write_items: ItemsWriter, *, flexible: bool, nullable: bool
) -> tuple[Reader, Writer]:
    read_length, write_length = _length("array", flexible=flexible)

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        count, position = read_length(buffer, position)
        if count < 0:
            if nullable:
                return None, position
            raise Malformed("non-nullable array is null")
        if count > len(buffer) - position:  # an item takes at least one byte, so this count is false
            raise Malformed(f"array of {count} items runs past the end")
        _spend(count)
        return read_items(buffer, position, count)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            if not nullable:
                raise InvariantBroken("non-nullable array is null")
            write_length(out, -1)
            return
        write_length(out, len(value))
        write_items(out, value)

    return read, write


def _nullable_struct(read_struct: Reader, write_struct: Writer) -> tuple[Reader, Writer]:
    """A struct that may be null has a byte before it: -1 null, 1 present."""

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        if buffer[position] == 0xFF:
            return None, position + 1
        return read_struct(buffer, position + 1)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write_struct(out, value)

    return read, write
