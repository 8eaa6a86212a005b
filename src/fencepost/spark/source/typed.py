"""Keys and values as columns of their own types, decoded in the source (`fencepost.formats`).

Owns the options `keyFormat`, `valueFormat`, `keySchema`, `valueSchema`, `columns`, `includeRaw`, `mode`,
`columnNameOfCorruptRecord` and `timeZone`, the columns that a DataFrame has with them, and the conversion of what was
read.

There are two ways to say which columns. With `valueSchema`, the DataFrame has Kafka's columns, or those of `columns`,
and `value` has that type. With Spark's `.schema(...)` it has exactly the columns that are named there: Kafka's by their
names, and any others are fields of a JSON value. Only what the schema names is converted: Spark does not tell a
streaming source which columns a query uses.

Invariant: a record that cannot be decoded is never dropped. With FAILFAST it stops the query and is named. With
PERMISSIVE its row is there, with the bytes of the record and the reason in a column.
"""

import enum
import functools
import re
import zoneinfo
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Never

from fencepost.client.faults import readable
from fencepost.errors import ConfigError, Malformed
from fencepost.formats.format import Decoder
from fencepost.formats.named import BINARY, STRING, find
from fencepost.spark import record_types
from fencepost.spark.arrow_types import arrow_schema
from fencepost.spark.options import Options
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

KEY, VALUE, HEADERS = "key", "value", "headers"
UTC = "UTC"
#: Kafka's columns but for key and value, with their types.
PLAIN = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP_LTZ",
    "timestampType": "INT",
}
#: The bytes of the record, for queries that find out for themselves that it is bad.
RAW = "raw"
DEFAULT_CORRUPT = "_corrupt_record"
#: What a value is in Spark for the formats that have one type.
TYPES = {
    BINARY: "BINARY",
    STRING: "STRING",
    "boolean": "BOOLEAN",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "uuid": "STRING",
}
NAMES = (
    "keyFormat",
    "valueFormat",
    "keySchema",
    "valueSchema",
    "columns",
    "includeRaw",
    "mode",
    "columnNameOfCorruptRecord",
    "timeZone",
)
EXAMPLE = "purchaseId BIGINT, userFullName STRING"
_ONE_TYPE = re.compile(
    r"\s*(ARRAY|MAP|STRUCT)\s*<.*>\s*|\s*\w+\s*(\(\s*\d+\s*(,\s*\d+\s*)?\))?\s*", re.IGNORECASE | re.DOTALL
)


class Mode(enum.Enum):
    """What becomes of a record that cannot be decoded."""

    FAILFAST = "failfast"
    PERMISSIVE = "permissive"


@dataclass(frozen=True, slots=True)
class Typing:
    """The options."""

    formats: Mapping[str, str]  #: of KEY and VALUE
    schemas: Mapping[str, str | None]
    mode: Mode = Mode.FAILFAST
    corrupt: str = DEFAULT_CORRUPT
    include_raw: bool = False
    zone: str = UTC  #: of times that do not name one
    columns: tuple[str, ...] = ()  #: the only ones that are wanted; empty: all

    @property
    def is_plain(self) -> bool:
        """Whether keys and values are bytes, as in Spark's own source."""
        return all(name == BINARY for name in self.formats.values())


def parse_typing(given: Options) -> Typing:
    """Raises ConfigError for formats that do not exist, and for schemas that do not fit them."""
    formats = {name: given.text(f"{name}Format") or BINARY for name in (KEY, VALUE)}
    formats = {name: word.lower() if ":" not in word else word for name, word in formats.items()}
    schemas = {name: given.text(f"{name}Schema") or None for name in (KEY, VALUE)}
    for name, word in formats.items():
        if word != BINARY:
            find(word)
        if word in TYPES and schemas[name] is not None:
            raise ConfigError(f"option '{name}Schema' is for formats such as json; with {word!r} it is {TYPES[word]}")
        if re.search(r"\bNOT\s+NULL\b", schemas[name] or "", re.IGNORECASE):
            raise ConfigError(f"option '{name}Schema': any field of a record can be missing, so drop NOT NULL")
    mode = given.text("mode") or Mode.FAILFAST.value
    if mode.lower() == "dropmalformed":
        raise ConfigError(
            "mode=DROPMALFORMED would lose records. Take PERMISSIVE: rows of bad records have their bytes and the "
            f"reason in the column {DEFAULT_CORRUPT!r}, and the sink's option deadLetters keeps them"
        )
    return Typing(
        formats,
        schemas,
        Mode(given.one_of("mode", Mode.FAILFAST.value, [each.value for each in Mode])),
        given.text("columnNameOfCorruptRecord") or DEFAULT_CORRUPT,
        given.flag("includeRaw", False),
        _zone(given.text("timeZone") or UTC),
        _columns(given.text("columns") or ""),
    )


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, map(str.strip, text.split(","))))
    if text and not names:
        raise ConfigError("option 'columns' names no column: leave it out for all of them")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"option 'columns' names {twice[0]!r} twice")
    return names


def _zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"option 'timeZone': there is no time zone {name!r}, such as Europe/Warsaw") from None
    return name


def schema_text(typing: Typing, *, include_headers: bool) -> str:
    """The columns of a DataFrame whose user gave no schema of their own."""
    columns = {name: _type_text(typing, name) for name in (KEY, VALUE)} | PLAIN
    if include_headers:
        columns[HEADERS] = record_types.HEADERS
    if typing.include_raw:
        columns[RAW] = record_types.RAW
    if typing.mode is Mode.PERMISSIVE and not typing.is_plain:
        columns[typing.corrupt] = record_types.UNREAD
    if unknown := [name for name in typing.columns if name not in columns]:
        raise ConfigError(
            f"option 'columns': there is no column {unknown[0]!r} here, but {', '.join(columns)}; "
            "includeHeaders, includeRaw and mode=PERMISSIVE add more"
        )
    columns = {name: columns[name] for name in typing.columns or columns}
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def _type_text(typing: Typing, name: str) -> str:
    word, schema = typing.formats[name], typing.schemas[name]
    if word in TYPES:
        return TYPES[word]
    if schema is None:
        raise ConfigError(
            f"{name}Format={word} needs to know the fields: set option '{name}Schema', for instance to {EXAMPLE!r}, "
            "or give the columns of the DataFrame with .schema(...)"
        )
    if schema.startswith("{"):
        return _of_json(schema, name).simpleString()
    return schema if _ONE_TYPE.fullmatch(schema) else f"STRUCT<{schema}>"


def _of_json(schema: str, name: str) -> "DataType":
    from pyspark.sql.types import _parse_datatype_json_string

    try:
        return _parse_datatype_json_string(schema)
    except Exception as error:
        raise ConfigError(f"option '{name}Schema' is not the JSON of a Spark schema: {error}") from None


# -- what is read ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The columns of a DataFrame, and how they are made of what was read. Tasks get a copy."""

    typing: Typing
    kinds: Mapping[str, Any]  #: the Arrow types of those of KEY and VALUE that are decoded
    fields: frozenset[str]  #: columns that are fields of the value
    schema: Any  #: of Arrow: what Spark expects

    def convert(self, batch: Any, where: TopicPartition) -> Any:
        """A RecordBatch as the source reads it, to one with the columns of the DataFrame."""
        read = dict(zip(batch.schema.names, batch.columns, strict=True))
        made = dict(read)
        faults: dict[int, str] = {}
        for name, kind in self.kinds.items():
            converted = _decoder(self.typing.formats[name], kind, self.typing.zone).decode(read[name])
            values = converted.values
            made[name] = values if values.type == kind else values.cast(kind)
            for row, reason in converted.faults.items():
                faults.setdefault(row, f"{name}: {reason}")
        if faults and self.typing.mode is Mode.FAILFAST:
            _fail(batch, where, min(faults), faults)
        if self.fields:
            made |= dict(zip((field.name for field in made[VALUE].type), made[VALUE].flatten(), strict=True))
        if self.typing.corrupt in self.schema.names:
            made[self.typing.corrupt] = _corrupt(batch, faults)
        if RAW in self.schema.names and RAW not in self.fields:
            made[RAW] = _structs([read[KEY], read[VALUE]], self.schema.field(RAW).type)
        return _record_batch([made[name] for name in self.schema.names], self.schema)


def typed_rows(typing: Typing, schema: "StructType") -> TypedRows | None:
    """The rows of a DataFrame with this schema: `schema_text`, or what a user gave. None if nothing is converted.

    Raises ConfigError for a column that the source does not have, or that has another type.
    """
    from pyspark.sql.types import StructType

    wanted = {field.name: field.dataType.simpleString() for field in schema.fields}
    if len(wanted) != len(schema.fields):
        raise ConfigError("the schema names a column twice")
    if typing.columns and tuple(wanted) != typing.columns:
        raise ConfigError("the columns are given twice: take .schema(...) or the option 'columns', not both")
    own = _own_columns(typing)
    if typing.is_plain and list(wanted) in (list(own), [*own, HEADERS]):
        _check_types(wanted, own | {HEADERS: record_types.HEADERS})
        return None
    named = own | {HEADERS: record_types.HEADERS}
    if typing.mode is Mode.PERMISSIVE:
        named[typing.corrupt] = record_types.UNREAD
    if typing.include_raw:
        named[RAW] = record_types.RAW
    fields = [field for field in schema.fields if field.name not in named]
    if fields and (typing.formats[VALUE] in TYPES or VALUE in wanted):
        _refuse_columns([field.name for field in fields], [*named], typing)
    _check_types(wanted, {name: kind for name, kind in named.items() if kind is not None})
    arrow = arrow_schema(schema)
    kinds = {name: arrow.field(name).type for name in (KEY, VALUE) if name in wanted}
    if fields:
        kinds[VALUE] = _struct(arrow_schema(StructType(fields)))
    kinds = {name: kind for name, kind in kinds.items() if typing.formats[name] != BINARY}
    for name, kind in kinds.items():
        _decoder(typing.formats[name], kind, typing.zone)  # raises for a type that the format does not have
    return TypedRows(typing, kinds, frozenset(field.name for field in fields), arrow)


def narrowed(typing: Typing, schema: "StructType", used: AbstractSet[str]) -> tuple[Typing, "StructType"]:
    """Without Kafka's columns that are not used. What is decoded stays: if it cannot be, that must be found."""
    from pyspark.sql.types import StructType

    unread = {*PLAIN, HEADERS} | {name for name, word in typing.formats.items() if word == BINARY}
    if typing.mode is Mode.PERMISSIVE:
        unread.add(typing.corrupt)
    if typing.include_raw:
        unread.add(RAW)
    fields = [field for field in schema.fields if field.name in used or field.name not in unread]
    return replace(typing, columns=()), StructType(fields or schema.fields[:1])


def _own_columns(typing: Typing) -> dict[str, str | None]:
    """Kafka's columns with their types; None where the user chooses the type."""
    chosen = {name: TYPES.get(typing.formats[name]) for name in (KEY, VALUE)} | PLAIN
    return {name: None if kind is None else _simple(kind) for name, kind in chosen.items()}


def _simple(kind: str) -> str:
    """A type as Spark's `simpleString` writes it."""
    return kind.lower().replace("timestamp_ltz", "timestamp")


def _check_types(wanted: Mapping[str, str], named: Mapping[str, str | None]) -> None:
    for name, kind in wanted.items():
        if (expected := named.get(name)) is not None and kind != expected:
            raise ConfigError(
                f"column {name!r} is {expected.upper()} here, not {kind.upper()}; keyFormat and valueFormat say what "
                "keys and values are"
            )


def _refuse_columns(fields: list[str], named: list[str], typing: Typing) -> Never:
    if typing.formats[VALUE] in TYPES:
        why = f"Fields of a value need a format that has some, such as valueFormat=json, not {typing.formats[VALUE]}"
    else:
        why = "Fields of the value are columns of their own, or in the column 'value', not both"
    raise ConfigError(f"the source has no column {fields[0]!r}; it has {', '.join(named)}. {why}")


@functools.cache
def _decoder(name: str, kind: Any, zone: str) -> Decoder:
    from fencepost.formats.zones import in_zone

    return find(name).decoder(in_zone(kind, zone))


def _struct(schema: Any) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    return pa.struct(list(schema))


def _structs(columns: list[Any], kind: Any) -> Any:
    import pyarrow as pa

    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _record_batch(columns: list[Any], schema: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _corrupt(batch: Any, faults: Mapping[int, str]) -> Any:
    """The column with the bytes of the records that could not be decoded, and the reason."""
    import pyarrow as pa

    kind = pa.struct([("key", pa.binary()), ("value", pa.binary()), ("reason", pa.string())])
    if not faults:
        return pa.nulls(len(batch), kind)
    reasons = pa.array([faults.get(row) for row in range(len(batch))], pa.string())
    absent = reasons.is_null()
    bad = [pa.compute.if_else(absent, None, batch.column(name)) for name in (KEY, VALUE)]
    return pa.StructArray.from_arrays([*bad, reasons], fields=list(kind), mask=absent)


def _fail(batch: Any, where: TopicPartition, row: int, faults: Mapping[int, str]) -> Never:
    key, value, offset = (batch.column(name)[row].as_py() for name in (KEY, VALUE, "offset"))
    more = f"; {len(faults) - 1} more near it cannot be decoded either" if len(faults) > 1 else ""
    raise Malformed(
        f"the record at {where} offset {offset} cannot be decoded: {faults[row]}. Its key is {readable(key)}, its "
        f"value {readable(value)}{more}. To go on without such records, set mode=PERMISSIVE on the source, keep the "
        f"column {DEFAULT_CORRUPT!r} in the query, and give the sink the option deadLetters"
    )
