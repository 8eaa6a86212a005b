"""STRUCTs on their way to Python: as columns of their fields, put together again there.

After every row that it sends to Python, Spark computes the size of the Arrow batch. For a STRUCT that takes a walk over
its fields and theirs, which was nearly half of the time that a typed pipeline spent in the JVM. Columns without fields
are quick.

The name of such a column is the path to the field, and says how to put it back: `value␟purchaseId`. A STRUCT that may
be null has one more column, which says where it is. Owns these names. Rows without a STRUCT pass as they are.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

#: Between the parts of a path: ASCII's own unit separator.
SEPARATOR = "\x1f"
#: In place of a field: whether the STRUCT is null.
IS_NULL = ""


def flatten(df: "DataFrame") -> "DataFrame":
    """The rows without STRUCTs, except in lists and maps."""
    fields = df.schema.fields
    if not any(_is_flattened(field) for field in fields):
        return df
    return df.selectExpr(*(text for field in fields for text in _columns(field, [])))


def _columns(field: "StructField", above: list[str]) -> list[str]:
    path = [*above, field.name]
    if not _is_flattened(field):
        return [f"{_expression(path)} AS {_quoted(SEPARATOR.join(path))}"]
    inside: Any = field.dataType
    found = [text for each in inside.fields for text in _columns(each, path)]
    if field.nullable:
        found.append(f"{_expression(path)} IS NULL AS {_quoted(SEPARATOR.join([*path, IS_NULL]))}")
    return found


def _is_flattened(field: "StructField") -> bool:
    """Not if Spark could not tell its fields apart by their names, or the path could not be read."""
    from pyspark.sql.types import StructType

    if not isinstance(field.dataType, StructType) or SEPARATOR in field.name:
        return False
    names = [each.name.lower() for each in field.dataType.fields]
    return bool(names) and len({*names}) == len(names) and not any(SEPARATOR in name or not name for name in names)


def _expression(path: list[str]) -> str:
    return ".".join(map(_quoted, path))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def nest(rows: Any) -> Any:
    """A RecordBatch or Table of flattened rows as it was."""
    names = rows.schema.names
    if not any(SEPARATOR in name for name in names):
        return rows
    import pyarrow as pa  # type: ignore[import-untyped]

    if isinstance(rows, pa.Table):
        return pa.Table.from_batches([nest(batch) for batch in rows.combine_chunks().to_batches()] or [_empty(rows)])
    columns = _nested([(name.split(SEPARATOR), column) for name, column in zip(names, rows.columns, strict=True)])
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def _empty(table: Any) -> Any:
    import pyarrow as pa

    return nest(pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in table.schema.types], schema=table.schema))


def _nested(columns: list[tuple[list[str], Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    inside: dict[str, list[tuple[list[str], Any]]] = {}
    for (name, *rest), column in columns:
        found[name] = column
        if rest:
            inside.setdefault(name, []).append((rest, column))
    return found | {name: _struct(_nested(fields)) for name, fields in inside.items()}


def _struct(fields: dict[str, Any]) -> Any:
    import pyarrow as pa

    is_null = fields.pop(IS_NULL, None)
    mask = is_null if is_null is not None and is_null.true_count else None
    return pa.StructArray.from_arrays([*fields.values()], names=[*fields], mask=mask)


def paths(df: "DataFrame") -> list[list[str]]:
    """To the columns and, in flattened rows, to the fields."""
    return [name.split(SEPARATOR) for name in df.columns]
