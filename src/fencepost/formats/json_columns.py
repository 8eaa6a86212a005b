"""Columns of spans to Arrow arrays: one class per kind of type, each with the kernel that reads it.

A span is where a value lies in the documents (`json_decode_kernels`). Structs, lists and maps find the spans of what
they hold and go on. A value that no kernel can read marks its document as odd. Its row holds anything then: the caller
replaces it.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fencepost.client import jit
from fencepost.client.arrow import Bytes, Ints

walk: Any = jit.load("formats.json_decode_kernels")
read: Any = jit.load("formats.json_value_kernels")
read_text: Any = jit.load("formats.json_text_kernels")


_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
#: Arrow does not apply a zone's rules to later years than a file of zones lists: 2037.
ZONES_KNOWN_US = 2_114_380_800 * 1_000_000


class Spans(NamedTuple):
    begins: Ints
    ends: Ints
    kinds: Bytes
    sizes: Ints

    @classmethod
    def room_for(cls, *shape: int) -> "Spans":
        """Absent values."""
        return cls(
            np.empty(shape, np.int32), np.empty(shape, np.int32), np.zeros(shape, np.uint8), np.zeros(shape, np.int32)
        )

    def line(self, index: int) -> "Spans":
        return Spans(self.begins[index], self.ends[index], self.kinds[index], self.sizes[index])

    def first(self, count: int) -> "Spans":
        return Spans(self.begins[:count], self.ends[:count], self.kinds[:count], self.sizes[:count])

    def at(self, where: npt.NDArray[Any]) -> "Spans":
        return Spans(self.begins[where], self.ends[where], self.kinds[where], self.sizes[where])

    @property
    def bytes(self) -> int:
        """Of all values together."""
        present = self.kinds > walk.NULL
        return int(self.ends[present].sum(dtype=np.int64) - self.begins[present].sum(dtype=np.int64))


class Documents(NamedTuple):
    """What all columns of one batch share."""

    data: Bytes
    odd: Bytes  #: 1 for each document that the kernels leave to `json_documents`
    stack: Bytes  #: room for the kernels


class Column(Protocol):
    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        """The Arrow array of values of which the i-th belongs to the document `owners[i]`.

        `depth` is how deep an array or object would be that is a value here.
        """


def column(wanted: Any, *, strict: bool = False) -> Column:
    """For a type that `json_types.check` accepts. `strict` leaves text that is no string to `json_documents`."""
    if pa.types.is_struct(wanted):
        return _Struct.of(wanted, strict)
    if pa.types.is_list(wanted):
        return _List(wanted, column(wanted.value_type, strict=strict))
    if pa.types.is_map(wanted):
        return _Map(wanted, column(wanted.item_type, strict=strict), strict)
    if pa.types.is_integer(wanted):
        return _Integer(wanted)
    if pa.types.is_floating(wanted):
        return _Floating(wanted)
    if pa.types.is_string(wanted) or pa.types.is_binary(wanted):
        return _Text(wanted, strict)
    if pa.types.is_boolean(wanted):
        return _Boolean()
    return _Decimal(wanted) if pa.types.is_decimal(wanted) else _Time(wanted)


@dataclass(frozen=True, slots=True)
class _Struct:
    kind: Any
    columns: tuple[Column, ...]
    names: Bytes
    starts: Ints

    @classmethod
    def of(cls, kind: Any, strict: bool) -> "_Struct":
        names = [field.name.encode() for field in kind]
        starts = np.cumsum([0, *map(len, names)], dtype=np.int32)
        data = np.frombuffer(b"".join(names), np.uint8)
        return cls(kind, tuple(column(field.type, strict=strict) for field in kind), data, starts)

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        rows = len(owners)
        found, valid = Spans.room_for(len(self.columns), rows), np.zeros(rows, np.uint8)
        table = np.empty(1 << (2 * len(self.columns)).bit_length(), np.int32)
        walk.find_fields(
            tuple(documents), tuple(spans), owners, depth, (self.names, self.starts, table), tuple(found),
            valid,
        )  # fmt: skip
        children = [
            each.convert(documents, found.line(index), owners, depth + 1) for index, each in enumerate(self.columns)
        ]
        bitmap, nulls = _bitmap(valid)
        return pa.Array.from_buffers(self.kind, rows, [bitmap], nulls, children=children)


def _items(documents: Documents, spans: Spans, owners: Ints, depth: int, kind: int) -> Any:
    """Offsets, validity, names, items and owners of all items of arrays or objects."""
    rows = len(owners)
    room = int(spans.sizes[spans.kinds == kind].sum(dtype=np.int64))
    keys, items = Spans.room_for(room if kind == walk.OBJECT else 0), Spans.room_for(room)
    offsets, item_owners, valid = np.zeros(rows + 1, np.int32), np.empty(room, np.int32), np.zeros(rows, np.uint8)
    count = walk.find_items(
        tuple(documents), tuple(spans), owners, depth, kind, offsets, tuple(keys), tuple(items),
        item_owners, valid,
    )  # fmt: skip
    return offsets, valid, keys.first(count), items.first(count), item_owners[:count]


@dataclass(frozen=True, slots=True)
class _List:
    kind: Any
    item: Column

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        offsets, valid, _, items, item_owners = _items(documents, spans, owners, depth, walk.ARRAY)
        values = self.item.convert(documents, items, item_owners, depth + 1)
        bitmap, nulls = _bitmap(valid)
        return pa.Array.from_buffers(self.kind, len(owners), [bitmap, pa.py_buffer(offsets)], nulls, children=[values])


@dataclass(frozen=True, slots=True)
class _Map:
    kind: Any
    item: Column
    strict: bool

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        offsets, valid, keys, items, item_owners = _items(documents, spans, owners, depth, walk.OBJECT)
        names = _Text(pa.string(), self.strict).convert(documents, keys, item_owners, depth + 1)
        values = self.item.convert(documents, items, item_owners, depth + 1)
        bitmap, nulls = _bitmap(valid)
        entries = pa.Array.from_buffers(
            pa.struct([self.kind.key_field, self.kind.item_field]), len(names), [None], 0, children=[names, values]
        )
        return pa.Array.from_buffers(self.kind, len(owners), [bitmap, pa.py_buffer(offsets)], nulls, children=[entries])


@dataclass(frozen=True, slots=True)
class _Integer:
    kind: Any

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        bits = self.kind.bit_width
        high = 255 if bits == 8 else (1 << (bits - 1)) - 1  # Jackson takes bytes without a sign, too
        numbers, valid = np.zeros(len(owners), np.int64), np.zeros(len(owners), np.uint8)
        read.read_integers(tuple(documents), tuple(spans), owners, -(1 << (bits - 1)), high, numbers, valid)
        return _numbers(self.kind, numbers if bits == 64 else numbers.astype(f"int{bits}"), valid)


@dataclass(frozen=True, slots=True)
class _Floating:
    kind: Any

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        bits = self.kind.bit_width
        numbers, valid = np.zeros(len(owners), np.float64), np.zeros(len(owners), np.uint8)
        read.read_doubles(tuple(documents), tuple(spans), owners, bits, numbers, valid)
        if bits == 32:
            numbers = numbers.astype(np.float32)
        later = valid == read.LATER
        if later.any():
            texts = _Text(pa.string(), False).convert(documents, _as_strings(spans.at(later)), owners[later], depth)
            numbers[later] = texts.cast(self.kind).to_numpy()
            valid[later] = read.PRESENT
        return _numbers(self.kind, numbers, valid)


def _as_strings(spans: Spans) -> Spans:
    return spans._replace(kinds=np.full(len(spans.kinds), walk.STRING, np.uint8))


@dataclass(frozen=True, slots=True)
class _Decimal:
    kind: Any

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        numbers, valid = np.zeros((len(owners), 2), np.uint64), np.zeros(len(owners), np.uint8)
        read.read_decimals(tuple(documents), tuple(spans), owners, self.kind.precision, self.kind.scale, numbers, valid)
        return _numbers(self.kind, numbers, valid)


@dataclass(frozen=True, slots=True)
class _Boolean:
    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        true, false = spans.kinds == walk.TRUE, spans.kinds == walk.FALSE
        documents.odd[owners[(spans.kinds > walk.NULL) & ~(true | false)]] = 1
        values = pa.py_buffer(np.packbits(true, bitorder="little"))
        bitmap, nulls = _bitmap(true | false)
        return pa.Array.from_buffers(pa.bool_(), len(owners), [bitmap, values], nulls)


@dataclass(frozen=True, slots=True)
class _Time:
    kind: Any

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        numbers, valid = np.zeros(len(owners), np.int64), np.zeros(len(owners), np.uint8)
        is_date = pa.types.is_date32(self.kind)
        zone = None if is_date else self.kind.tz
        what = read.DATE if is_date else read.LOCAL_TIME if zone is None else read.INSTANT
        read.read_times(tuple(documents), tuple(spans), owners, what, numbers, valid)
        if zone is not None:
            _into_zone(documents, owners, zone, numbers, valid)
        return _numbers(self.kind, numbers.astype(np.int32) if is_date else numbers, valid)


def _into_zone(documents: Documents, owners: Ints, zone: str, numbers: Any, valid: Bytes) -> None:
    """Timestamps that have no zone of their own: from local time to the instant.

    A time that clocks skip is odd, and one before 1970 or after 2036.
    """
    later = valid == read.LATER
    valid[later] = read.PRESENT
    if not later.any() or zone in ("UTC", "Etc/UTC", "Z", "+00:00"):
        return
    known = (numbers >= 0) & (numbers < ZONES_KNOWN_US)
    documents.odd[owners[later & ~known]] = 1
    later &= known
    try:
        local = pa.array(numbers[later], pa.timestamp("us"))
        instants = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
        skipped = pc.not_equal(pc.local_timestamp(instants), local).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a zone that only Java and Python know
        documents.odd[owners[later]] = 1
        return
    documents.odd[owners[later][skipped]] = 1
    numbers[later] = instants.cast(pa.int64()).to_numpy()


@dataclass(frozen=True, slots=True)
class _Text:
    kind: Any
    strict: bool

    def convert(self, documents: Documents, spans: Spans, owners: Ints, depth: int) -> Any:
        if self.strict:
            _leave_what_is_no_text(documents, spans, owners)
        out = np.empty(spans.bytes, np.uint8)
        offsets, valid = np.zeros(len(owners) + 1, np.int32), np.zeros(len(owners), np.uint8)
        kernel = read_text.read_texts if pa.types.is_string(self.kind) else read_text.read_base64
        used = kernel(tuple(documents), tuple(spans), owners, out, offsets, valid)
        bitmap, nulls = _bitmap(valid)
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(out[:used])]
        return pa.Array.from_buffers(self.kind, len(owners), buffers, nulls)


def _leave_what_is_no_text(documents: Documents, spans: Spans, owners: Ints) -> None:
    """Numbers and words, and strings with what may be half of a surrogate pair."""
    documents.odd[owners[spans.kinds > walk.ESCAPED]] = 1
    for row in np.flatnonzero(spans.kinds == walk.ESCAPED).tolist():
        if _HALF_PAIR.search(documents.data[spans.begins[row] : spans.ends[row]].tobytes()):
            documents.odd[owners[row]] = 1


def _numbers(kind: Any, numbers: Any, valid: Bytes) -> Any:
    bitmap, nulls = _bitmap(valid)
    return pa.Array.from_buffers(kind, len(valid), [bitmap, pa.py_buffer(numbers)], nulls)


def _bitmap(valid: Any) -> tuple[Any, int]:
    """None if nothing is null."""
    nulls = len(valid) - int(np.count_nonzero(valid))
    return (pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None), nulls
