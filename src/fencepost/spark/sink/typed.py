"""Rows as a query gives them to rows of bytes, in the executors: keys and values in their formats, several records.

A key or value that is a STRUCT, MAP or ARRAY becomes JSON, unless an option names another format. If a query has no
column `value`, each of its *record columns*, STRUCTs with a field `value`, is one record of the row unless it is null.

Invariants: every step is over a whole column. A value that its format cannot write is a fault of its row, never an
error. The records of a row that has an `error` or is corrupt are not written: the row is one dead letter. Where two
record columns write to one topic, records are in the order of rows, and then of columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fencepost.client.row_faults import CORRUPT, ERROR, RAW, SOURCE, UNWRITABLE, Mask
from fencepost.formats import named
from fencepost.formats.format import Encoder
from fencepost.formats.zones import in_zone
from fencepost.spark.sink.formats import IS_THERE, KEY, NO_FORMATS, RECORD, TIMESTAMP, VALUE, Formats

#: If the source gives no reason.
UNREADABLE = "it cannot be read"


def record_columns(schema: Any) -> list[str]:
    """The record columns of a query; none if it has a column `value`."""
    if VALUE in schema.names:
        return []
    structs = [column for column in schema if pa.types.is_struct(column.type) and column.name != SOURCE]
    return [
        column.name
        for column in structs
        if column.type.get_field_index(VALUE) >= 0 and not is_corrupt(column.type) and not _is_raw(column)
    ]


def is_corrupt(kind: Any) -> bool:
    """Whether it is what a source gives with the mode PERMISSIVE, under any name."""
    return _names(kind) == [KEY, VALUE, "reason"]


def _is_raw(column: Any) -> bool:
    return column.name == RAW and _names(column.type) == [KEY, VALUE]


def _names(kind: Any) -> list[str]:
    return [kind.field(index).name for index in range(kind.num_fields)] if pa.types.is_struct(kind) else []


def _columns(rows: Any) -> dict[str, Any]:
    """By name; records that could not be read are in `_corrupt_record`, whatever the source calls them."""
    found = {
        CORRUPT if is_corrupt(field.type) else field.name: column
        for field, column in zip(rows.schema, rows.columns, strict=True)
    }
    if VALUE not in found and CORRUPT in found and "topic" not in found:
        found["topic"] = pa.nulls(len(rows), pa.string())
    return found


@dataclass(slots=True)
class Converter:
    """Makes columns of bytes. `zone` is the session's, if the Arrow types of its times name another."""

    formats: Formats = NO_FORMATS
    topic: str | None = None  #: of all records; None if they have a column
    zone: str | None = None
    _encoders: dict[tuple[str, Any], Encoder] = field(default_factory=dict)

    def parts(self, rows: Any) -> list[Any]:
        """One RecordBatch, or one for each record column. Rows whose bytes are ready are passed on as they are."""
        names = record_columns(rows.schema)
        if names:
            return self._several(rows, names)
        given = _columns(rows)
        made = self._in_bytes(given)
        return [rows if made is given else _batch(made)]

    # -- one record --------------------------------------------------------------------------------------------------

    def _in_bytes(self, given: dict[str, Any]) -> dict[str, Any]:
        """The same columns with key and value as bytes; what they were given as, where nothing has to be done."""
        made: dict[str, Any] = {}
        faults: dict[int, str] = {}
        for name in (KEY, VALUE):
            column = given.get(name)
            if column is not None and (format_name := self._format(name, column.type)) is not None:
                done = self._encoder(format_name, column.type).encode(column)
                made[name] = _with_originals(done.values, column, done.faults)
                for row, text in done.faults.items():
                    faults.setdefault(row, f"its {name} cannot be written as {format_name}: {text}")
        if faults:
            texts = [faults.get(row) for row in range(len(given[VALUE]))]
            made[UNWRITABLE] = pa.array(texts, pa.string())
        error, raw, corrupt = given.get(ERROR), given.get(RAW), given.get(CORRUPT)
        if error is not None and raw is not None and _names(raw.type) == [KEY, VALUE]:
            made |= _as_they_came(error.is_valid(), raw.flatten(), {**given, **made})
        if corrupt is not None and is_corrupt(corrupt.type):
            made |= _unread(corrupt, {**given, **made})
        return {**given, **made} if made else given

    def _format(self, name: str, kind: Any) -> str | None:
        if pa.types.is_null(kind):
            return None
        return self.formats.of(name) or (named.JSON if pa.types.is_nested(kind) else None)

    def _encoder(self, format_name: str, kind: Any) -> Encoder:
        found = self._encoders.get((format_name, kind))
        if found is None:
            found = named.find(format_name).encoder(kind if self.zone is None else in_zone(kind, self.zone))
            self._encoders[format_name, kind] = found
        return found

    # -- several records ---------------------------------------------------------------------------------------------

    def _several(self, rows: Any, names: Sequence[str]) -> list[Any]:
        given = _columns(rows)
        about = {name: given[name] for name in (SOURCE, RAW, ERROR, CORRUPT) if name in given}
        is_bad = _bad_rows(about, len(rows))
        wanted = [name for name in RECORD if any(given[each].type.get_field_index(name) >= 0 for each in names)]
        there = [_is_there(given[name]) for name in names]
        made = []
        for name, is_there in zip(names, there, strict=True):
            is_written = is_there & ~is_bad
            places = np.flatnonzero(is_written)
            columns = {**_fields(given[name]), **_only(about, SOURCE)}
            if len(places) < len(rows):
                mask = pa.array(is_written)
                columns = {field: _kept(column, mask) for field, column in columns.items()}
            made.append((places, _batch(_uniform(self._in_bytes(columns), wanted, len(places)))))
        parts = [part for _, part in made if len(part)]
        if len(parts) > 1 and self._share_a_topic(parts):
            parts = [_in_order_of_rows(made)]
        if is_bad.any():
            parts.append(self._letters(given, names, there, about, np.flatnonzero(is_bad)))
        return parts

    def _share_a_topic(self, parts: Sequence[Any]) -> bool:
        if self.topic is not None or any("topic" not in part.schema.names for part in parts):
            return True
        topics = [set(part.column("topic").unique().to_pylist()) for part in parts]
        return sum(map(len, topics)) > len(set().union(*topics))

    def _letters(
        self, given: Mapping[str, Any], names: Sequence[str], there: Sequence[Mask], about: Mapping[str, Any], bad: Any
    ) -> Any:
        """Rows that become one dead letter each, with the key and value of their first record or the corrupt ones."""
        first = np.argmax(np.stack([each[bad] for each in there]), axis=0)
        found = []
        for name in names:
            columns = _taken(_fields(given[name]), bad)
            found.append(_batch(_uniform(self._in_bytes(columns), RECORD, len(bad))))
        chosen = _one_batch(found, first * len(bad) + np.arange(len(bad)))
        columns = dict(zip(chosen.schema.names, chosen.columns, strict=True)) | _taken(about, bad)
        return _batch(self._in_bytes(columns))


def _bad_rows(about: Mapping[str, Any], count: int) -> Mask:
    mask: Mask = np.zeros(count, np.bool_)
    error, corrupt = about.get(ERROR), about.get(CORRUPT)
    if error is not None and pa.types.is_string(error.type):
        mask |= _valid(error)
    if corrupt is not None and is_corrupt(corrupt.type):
        mask |= _valid(corrupt)
    return mask


def _is_there(column: Any) -> Mask:
    mask = _valid(column)
    flag = column.type.get_field_index(IS_THERE)
    if flag >= 0:
        mask = mask & pc.fill_null(column.field(flag), False).to_numpy(zero_copy_only=False)
    return mask


def _valid(column: Any) -> Mask:
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _fields(column: Any) -> dict[str, Any]:
    """Of a record column. They are null where it is."""
    kind = column.type
    names = [kind.field(index).name for index in range(kind.num_fields)]
    return {name: each for name, each in zip(names, column.flatten(), strict=True) if name in RECORD}


def _only(columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: columns[name]} if name in columns else {}


def _taken(columns: Mapping[str, Any], places: Any) -> dict[str, Any]:
    indexes = pa.array(places)
    return {name: column.take(indexes) for name, column in columns.items()}


def _kept(column: Any, mask: Any) -> Any:
    """The rows of the mask, which are most of them: Arrow copies them in runs, but those of a STRUCT one by one."""
    if not pa.types.is_struct(column.type) or not column.type.num_fields:
        return column.filter(mask)
    is_null = column.is_null().filter(mask)
    fields = [_kept(each, mask) for each in column.flatten()]
    return pa.StructArray.from_arrays(fields, fields=[*column.type], mask=is_null if is_null.true_count else None)


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_UNIFORM = {
    "topic": pa.string(), KEY: pa.binary(), VALUE: pa.binary(), "headers": _HEADERS, "partition": pa.int32(),
    TIMESTAMP: pa.int64(),
}  # fmt: skip


def _uniform(columns: dict[str, Any], wanted: Sequence[str], count: int) -> dict[str, Any]:
    """With one schema for the records of all columns: bytes, times in milliseconds, nulls for what is missing."""
    made = {}
    for name in wanted:
        column = columns.get(name)
        if column is None:
            column = pa.nulls(count, _UNIFORM[name])
        elif name == TIMESTAMP and pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        elif column.type != _UNIFORM[name]:
            column = column.cast(_UNIFORM[name])
        made[name] = column
    return made | {name: column for name, column in columns.items() if name in (SOURCE, UNWRITABLE)}


def _in_order_of_rows(made: Sequence[tuple[Any, Any]]) -> Any:
    """Records of several columns as one batch: in the order of rows, and of columns within a row."""
    columns = len(made)
    order = np.concatenate([places * columns + index for index, (places, _) in enumerate(made)])
    return _one_batch([part for _, part in made], np.argsort(order, kind="stable"))


def _one_batch(parts: Sequence[Any], order: Any) -> Any:
    """The rows of all parts in this order. A part may lack columns."""
    every = pa.concat_tables([pa.Table.from_batches([part]) for part in parts], promote_options="default")
    return every.combine_chunks().take(pa.array(order)).combine_chunks().to_batches()[0]


def _unread(corrupt: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The reasons as a column of text; and in those rows the key and value that the source could not read."""
    if corrupt.null_count == len(corrupt):
        return {CORRUPT: pa.nulls(len(corrupt), pa.string())}
    is_bad = corrupt.is_valid()
    key, value, reason = corrupt.flatten()
    reasons = pc.if_else(is_bad, pc.fill_null(reason, UNREADABLE), pa.scalar(None, pa.string()))
    return {CORRUPT: reasons} | _as_they_came(is_bad, (key, value), columns)


def _as_they_came(is_bad: Any, originals: Sequence[Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Key and value, in bad rows the original ones."""
    made = {}
    for name, original in zip((KEY, VALUE), originals, strict=True):
        own = columns.get(name)
        own = pa.nulls(len(is_bad), pa.binary()) if own is None else own.cast(pa.binary())
        made[name] = pc.if_else(is_bad, original.cast(pa.binary()), own)
    return made


def _with_originals(values: Any, column: Any, faults: Mapping[int, str]) -> Any:
    """What could not be written, as readable as it gets, for the dead letter or the error."""
    if not faults:
        return values
    found = values.to_pylist()
    for row in faults:
        given = column[row].as_py()
        found[row] = given if isinstance(given, bytes) else str(given).encode(errors="replace")
    return pa.array(found, pa.binary())


def _batch(columns: Mapping[str, Any]) -> Any:
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
