"""The columns of a record: checked before anything runs, and selected from what the query gives.

They are those of Spark's Kafka sink. Two more are about dead letters: `error` says what is wrong with a row, and needs
the option `deadLetters`; `source` says where a row is from. Both names are ordinary words. So `source` counts only if
it is a struct of a position in Kafka, and `error` is refused if it is text and would be dropped: its rows would be
written as if nothing were wrong with them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fencepost.client.row_faults import ERROR, SOURCE
from fencepost.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS = "array<struct<key:string,value:binary>>"
#: While Spark sends rows to Python, it computes the size of the Arrow batch after every row. Each time it walks over
#: all null lists since the last list that is not null. With a column of null lists this is quadratic in the rows.
WITHOUT_NULL_HEADERS = f"coalesce(headers, CAST(array() AS {HEADERS})) AS headers"
POSITION = "struct<topic:string,partition:int,offset:bigint>"
#: The columns of Spark's Kafka sink and their types.
COLUMNS = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS,),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz", "bigint"),
}
#: With the option `deadLetters`.
WITH_DEAD_LETTERS = {**COLUMNS, ERROR: ("string",), SOURCE: (POSITION,)}


def select_columns(df: "DataFrame", topic: str | None, dead_letters: str | None) -> "DataFrame":
    """The columns that make a record. Others are dropped, as Spark's own sink does."""
    kinds = dict(df.dtypes)
    check_columns(kinds, topic, dead_letters)
    meant = WITH_DEAD_LETTERS if dead_letters is not None else {*COLUMNS, *([SOURCE] if _has_source(kinds) else [])}
    columns = [name for name in WITH_DEAD_LETTERS if name in meant and name in kinds]
    if topic is not None:
        columns = [name for name in columns if name != "topic"]
    return df.selectExpr(*(WITHOUT_NULL_HEADERS if name == "headers" else f"`{name}`" for name in columns))


def with_topic(df: "DataFrame", topic: str, *, unless_given: bool = False) -> "DataFrame":
    """All rows with this topic; with `unless_given`, only the rows whose topic is null."""
    from pyspark.sql import functions as sql

    given = [sql.col("topic")] if unless_given and "topic" in df.columns else []
    return df.withColumn("topic", sql.coalesce(*given, sql.lit(topic)))


def check_columns(kinds: Mapping[str, str], topic: str | None, dead_letters: str | None) -> None:
    """Raises ConfigError, before anything runs, if a column is missing or has the wrong type."""
    if "value" not in kinds:
        raise ConfigError(f"the DataFrame needs a column 'value'; it has {', '.join(kinds) or 'none'}")
    if topic is None and "topic" not in kinds:
        raise ConfigError("the DataFrame needs a column 'topic', or give the sink a topic for all rows")
    meant = COLUMNS if dead_letters is None else WITH_DEAD_LETTERS
    absent = meant.keys() - kinds.keys() - {"topic"}
    for name in kinds:
        if name.lower() in absent:
            raise ConfigError(
                f"column {name!r} would be dropped: the sink's column is {name.lower()!r}. Rename it or drop it"
            )
    for name, allowed in meant.items():
        if name in kinds and kinds[name] not in allowed and kinds[name] != "void":
            raise ConfigError(f"column {name!r} must be {' or '.join(allowed)}, not {kinds[name]}")
    if dead_letters is None and kinds.get(ERROR) == "string":
        raise ConfigError(
            "the DataFrame has a column 'error': its rows would be written as if nothing were wrong with them. Give "
            "the sink the option deadLetters, a topic to which the rows with an error are written instead; or drop the "
            "column"
        )


def _has_source(kinds: Mapping[str, str]) -> bool:
    return kinds.get(SOURCE) == POSITION
