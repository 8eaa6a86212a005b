"""The columns of a record: checked before anything runs, and selected from what the query gives.

They are those of Spark's Kafka sink; key and value may also have types that a format writes (`column_types`). A query
without a column `value` has *record columns* instead: STRUCTs of such columns, each a record of the row unless null.

Four more columns are about dead letters: `error` says what is wrong with a row, `raw` of which bytes it was made, and
`_corrupt_record` which bytes the source could not read; they need the option `deadLetters`. `source` says where it is
from. These names are ordinary words. So all but `error` count only if they have the types that a source gives, and
`_corrupt_record` may have another name. `error` and `_corrupt_record` are refused if they would be dropped: their rows
would be written as if nothing were wrong with them.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.client.row_faults import CORRUPT, ERROR, RAW, SOURCE
from fencepost.errors import ConfigError
from fencepost.spark import record_types
from fencepost.spark.record_types import HEADERS, POSITION, UNREAD
from fencepost.spark.sink.column_types import PLAIN, check_type, to_bytes
from fencepost.spark.sink.flat import paths
from fencepost.spark.sink.formats import IS_THERE, KEY, NO_FORMATS, RECORD, VALUE, Formats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

#: The columns of Spark's Kafka sink and their types; for key and value those that need no format.
COLUMNS = {
    "topic": ("string",),
    KEY: ("string", "binary"),
    VALUE: ("string", "binary"),
    "headers": (HEADERS,),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz", "bigint"),
}
#: With the option `deadLetters`.
ABOUT = {ERROR: ("string",), SOURCE: (POSITION,)}


def select_columns(
    df: "DataFrame",
    topic: str | None,
    dead_letters: str | None,
    formats: Formats = NO_FORMATS,
    *,
    for_rows: bool = True,
) -> "DataFrame":
    """The columns that make a record. Others are dropped, as Spark's own sink does.

    `for_rows`: Spark sends them to Python, so what it sends slowly is avoided (`column_types`).
    """
    kinds = {field.name: field.dataType for field in df.schema.fields}
    check_columns(kinds, topic, dead_letters, formats)
    records = record_columns(kinds)
    plain = [] if records else [name for name in RECORD if name in kinds and (name != "topic" or topic is None)]
    session = df.sparkSession if for_rows else None
    return df.selectExpr(
        *(_record(name, kinds[name], topic, formats, session) for name in records),
        *(f"{_field(f'`{name}`', name, kinds[name], formats, session)} AS `{name}`" for name in plain),
        *(f"`{name}` AS `{meant}`" for name, meant in _about(kinds, dead_letters).items()),
    )


def record_columns(kinds: Mapping[str, "DataType"]) -> list[str]:
    """The record columns of a query; none if it has a column `value`."""
    if VALUE in kinds:
        return []
    aside = {SOURCE, _unread(kinds), RAW if _is(kinds, RAW, record_types.RAW) else None}
    return [name for name, kind in kinds.items() if name not in aside and VALUE in _fields(kind)]


def _fields(kind: "DataType") -> dict[str, "DataType"]:
    fields: Any = getattr(kind, "fields", ())
    return {field.name: field.dataType for field in fields}


def _about(kinds: Mapping[str, "DataType"], dead_letters: str | None) -> dict[str, str]:
    """The columns that are not part of a record, with the names that they have in the executors."""
    found = {SOURCE: SOURCE} if _is(kinds, SOURCE, POSITION) else {}
    if dead_letters is None:
        return found
    if (unread := _unread(kinds)) is not None:
        found[unread] = CORRUPT
    if ERROR in kinds and _is(kinds, RAW, record_types.RAW):
        found[RAW] = RAW
    return found | {name: name for name in ABOUT if name in kinds}


def _unread(kinds: Mapping[str, "DataType"]) -> str | None:
    """The column of records that the source could not read. It may have any name."""
    return next((name for name in kinds if _is(kinds, name, UNREAD)), None)


def _is(kinds: Mapping[str, "DataType"], name: str, kind: str) -> bool:
    return name in kinds and kinds[name].simpleString() == kind


def _record(column: str, kind: "DataType", topic: str | None, formats: Formats, session: "SparkSession | None") -> str:
    """A record column that is never null, so that the headers in it are not (`column_types`). A field says it was."""
    given = _fields(kind)
    flag = f"`{column}`.`{IS_THERE}`" if IS_THERE in given else f"`{column}` IS NOT NULL"
    fields = [f"'{IS_THERE}', coalesce({flag}, false)"]
    fields += [
        f"'{name}', {_field(f'`{column}`.`{name}`', name, given[name], formats, session)}"
        for name in RECORD
        if name in given and (name != "topic" or topic is None)
    ]
    return f"named_struct({', '.join(fields)}) AS `{column}`"


def _field(expression: str, name: str, kind: "DataType", formats: Formats, session: "SparkSession | None") -> str:
    if session is None:
        return expression
    if name == "headers":
        return without_nulls(expression)
    return to_bytes(expression, name, kind, formats, session) if name in (KEY, VALUE) else expression


def without_nulls(headers: str) -> str:
    """Spark sends lists that are null slowly to Python (`column_types`): a record without headers has an empty one."""
    return f"coalesce({headers}, CAST(array() AS {HEADERS}))"


def with_topic(df: "DataFrame", topic: str, *, unless_given: bool = False) -> "DataFrame":
    """All records with this topic; with `unless_given`, only those whose topic is null."""
    from pyspark.sql import functions as sql

    kinds = {field.name: field.dataType for field in df.schema.fields}
    for name in record_columns(kinds):
        known = [sql.col(name)["topic"]] if unless_given and "topic" in _fields(kinds[name]) else []
        df = df.withColumn(name, sql.col(name).withField("topic", sql.coalesce(*known, sql.lit(topic))))
    if VALUE not in kinds:
        return df
    given = [sql.col("topic")] if unless_given and "topic" in kinds else []
    return df.withColumn("topic", sql.coalesce(*given, sql.lit(topic)))


def check_columns(
    kinds: Mapping[str, "DataType"], topic: str | None, dead_letters: str | None, formats: Formats = NO_FORMATS
) -> None:
    """Raises ConfigError, before anything runs, if a column is missing or has the wrong type."""
    if records := record_columns(kinds):
        _check_records({name: _fields(kinds[name]) for name in records}, kinds, topic, formats)
    elif VALUE not in kinds:
        raise ConfigError(
            f"the DataFrame needs a column 'value'; it has {', '.join(kinds) or 'none'}. Or it needs columns that are "
            "STRUCTs with a field 'value', for several records per row"
        )
    else:
        if topic is None and "topic" not in kinds:
            raise ConfigError("the DataFrame needs a column 'topic', or give the sink a topic for all rows")
        _check_capitals(kinds, [*COLUMNS, *(ABOUT if dead_letters is not None else ())])
        _check_types(kinds, "column '{}'", formats)
    if dead_letters is None:
        _refuse_dropping(kinds)
        return
    if records:
        _check_capitals(kinds, ABOUT)
    for name, allowed in ABOUT.items():
        _check_kind(f"column {name!r}", kinds.get(name), allowed)


def _check_records(
    records: Mapping[str, Mapping[str, "DataType"]],
    kinds: Mapping[str, "DataType"],
    topic: str | None,
    formats: Formats,
) -> None:
    for name in COLUMNS:
        if name in kinds:
            raise ConfigError(
                f"column {name!r} would be dropped: the DataFrame has no column 'value', so its records are "
                f"{', '.join(records)}. Put {name!r} into each of these STRUCTs, or drop it"
            )
    for column, fields in records.items():
        if unknown := [name for name in fields if name not in (*COLUMNS, IS_THERE)]:
            raise ConfigError(
                f"column {column!r} has a field {unknown[0]!r}, which no record has. Its fields can be "
                f"{', '.join(COLUMNS)}"
            )
        if topic is None and "topic" not in fields:
            raise ConfigError(f"column {column!r} needs a field 'topic', or give the sink a topic for all records")
        _check_types(fields, f"field '{{}}' of column {column!r}", formats)


def _check_capitals(kinds: Mapping[str, "DataType"], meant: Any) -> None:
    absent = {*meant} - kinds.keys() - {"topic"}
    for name in kinds:
        if name.lower() in absent:
            raise ConfigError(
                f"column {name!r} would be dropped: the sink's column is {name.lower()!r}. Rename it or drop it"
            )


def _check_types(kinds: Mapping[str, "DataType"], where: str, formats: Formats) -> None:
    for name, allowed in COLUMNS.items():
        if name in (KEY, VALUE) and name in kinds:
            check_type(where.format(name), name, kinds[name], formats)
        else:
            _check_kind(where.format(name), kinds.get(name), allowed)


def _check_kind(where: str, kind: "DataType | None", allowed: tuple[str, ...]) -> None:
    if kind is not None and (found := kind.simpleString()) not in (*allowed, "void"):
        raise ConfigError(f"{where} must be {' or '.join(allowed)}, not {found}")


def _refuse_dropping(kinds: Mapping[str, "DataType"]) -> None:
    """Without dead letters, what is said about rows must not be dropped in silence."""
    for name in (ERROR if _is(kinds, ERROR, "string") else None, _unread(kinds)):
        if name is not None:
            raise ConfigError(
                f"the DataFrame has a column {name!r}: its rows would be written as if nothing were wrong with them. "
                "Give the sink the option deadLetters, a topic to which the rows with an error are written instead; or "
                "drop the column"
            )


def has_topic(df: "DataFrame") -> bool:
    """Whether the records, as `select_columns` gives them, say their topic."""
    if any(path[1:] == ["topic"] and path[0] != SOURCE for path in paths(df)):
        return True
    kinds = {field.name: field.dataType for field in df.schema.fields}
    return "topic" in kinds or any("topic" in _fields(kinds[name]) for name in record_columns(kinds))


def union_records(writes: Sequence["DataFrame"]) -> "DataFrame":
    """Several DataFrames, each as `select_columns` gives it, as one."""
    if len(writes) == 1:
        return writes[0]
    types = [{field.name: field.dataType for field in df.schema.fields} for df in writes]
    if any(_has_types(kinds) for kinds in types):
        return _union_typed(writes, types)
    times = {kinds["timestamp"].simpleString() for kinds in types if "timestamp" in kinds} - {"void"}
    if len(times) > 1:
        raise ConfigError(
            f"column 'timestamp' must have one type in all writes of a batch, not {', '.join(sorted(times))}"
        )
    cast = {name: f"CAST(`{name}` AS BINARY) AS `{name}`" for name in (KEY, VALUE)}
    rows = _union([df.selectExpr(*(cast.get(name, f"`{name}`") for name in df.columns)) for df in writes])
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    session = rows.sparkSession
    return rows.selectExpr(
        *(f"{_field(f'`{name}`', name, kind, NO_FORMATS, session)} AS `{name}`" for name, kind in kinds.items())
    )


def _has_types(kinds: Mapping[str, "DataType"]) -> bool:
    return bool(record_columns(kinds)) or any(
        name in kinds and kinds[name].simpleString() not in PLAIN for name in (KEY, VALUE)
    )


def _union_typed(writes: Sequence["DataFrame"], types: Sequence[Mapping[str, "DataType"]]) -> "DataFrame":
    """Values of several types do not fit into one column. So each write has record columns of its own."""
    parts = []
    for index, (df, kinds) in enumerate(zip(writes, types, strict=True)):
        records = [f"`{name}` AS `{index} {name}`" for name in record_columns(kinds)]
        if not records:
            fields = [f"'{name}', `{name}`" for name in RECORD if name in kinds]
            records = [f"named_struct('{IS_THERE}', true, {', '.join(fields)}) AS `{index}`"]
        parts.append(df.selectExpr(*records, *(f"`{name}`" for name in (SOURCE, RAW, CORRUPT, ERROR) if name in kinds)))
    rows = _union(parts)
    found = {field.name: field.dataType for field in rows.schema.fields}
    names, session = record_columns(found), rows.sparkSession
    return rows.selectExpr(
        *(_record(name, found[name], None, NO_FORMATS, session) for name in names),
        *(f"`{name}`" for name in found if name not in names),
    )


def _union(parts: Sequence["DataFrame"]) -> "DataFrame":
    return functools.reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
