"""Queries as people write them, from rows (k, n, t) to records. Each runs as a stream and as a batch.

Aggregates give `c` and `s`, a count and a sum, so that each value that a key takes on its way can be told from others.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType

from tests.spark.queries.given import Given

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELAY = "1 hour"
WINDOW_START = "concat_ws('/', k, w.start)"

#: What a window is of.
Windowing = Callable[[], "Column"]


def as_records(rows: "DataFrame", key: str = "k") -> "DataFrame":
    return rows.selectExpr(f"CAST({key} AS STRING) AS key", "to_json(struct(*)) AS value")


# -- without state -----------------------------------------------------------------------------------------------------


def projection(given: Given) -> "DataFrame":
    return as_records(given("a").selectExpr("k", "n * 2 AS twice", "upper(k) AS big"))


def rows_as_they_came(given: Given) -> "DataFrame":
    """For whoever reads them again."""
    return given.records("a").select("key", "value")


def first_few(given: Given) -> "DataFrame":
    """A limit is a stateful operator in a stream."""
    return as_records(given("a").select("k", "n").limit(15))


def filtered(given: Given) -> "DataFrame":
    return as_records(given("a").where("n % 3 = 0"))


def nothing(given: Given) -> "DataFrame":
    return as_records(given("a").where("n < 0"))


def with_headers(given: Given) -> "DataFrame":
    return given.records("a").select("key", "value", "headers")


def few(given: Given) -> "DataFrame":
    """Nothing in most batches."""
    return as_records(given("a").where("n % 100 IN (0, 7)"))


def exploded(given: Given) -> "DataFrame":
    return as_records(given("a").selectExpr("k", "n", "explode(sequence(0, CAST(n % 3 AS INT))) AS part"))


def with_static_table(given: Given) -> "DataFrame":
    sizes = given.table("(VALUES ('a', 1), ('b', 2), ('b', 3) AS sizes(k, size))")
    return as_records(given("a").join(sizes, "k", "left"))


def to_two_topics(given: Given) -> "DataFrame":
    left, right = given.topic("out"), given.topic("right")
    return given("a").selectExpr(
        f"""inline(array(
            named_struct('topic', '{left}', 'key', k, 'value', concat('L ', n)),
            named_struct('topic', '{right}', 'key', k, 'value', concat('R ', n))))"""
    )


def to_both_topics(given: Given) -> "DataFrame":
    """As two writers of the same records do."""
    records = as_records(given("a").select("k", "n"))
    return _to(given, "out", records).unionByName(_to(given, "right", records))


def with_everything_a_record_has(given: Given) -> "DataFrame":
    """Values may be null; headers may be, too."""
    return given("a").selectExpr(
        "k AS key",
        "IF(n % 5 = 0, NULL, CAST(n AS STRING)) AS value",
        "IF(n % 2 = 0, array(struct('n' AS key, encode(CAST(n AS STRING), 'UTF-8') AS value)), NULL) AS headers",
        "CAST(ascii(k) % 2 AS INT) AS partition",
        "t AS timestamp",
    )


@pandas_udf(LongType())  # type: ignore[call-overload]
def squared(numbers: pd.Series) -> pd.Series:
    return numbers * numbers % 10_007


def with_pandas_udf(given: Given) -> "DataFrame":
    return as_records(given("a").select("k", "n", squared("n").alias("square")))


def negated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.set_column(1, "n", pc.negate(batch.column("n")))


def halve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leaves out odd numbers."""
    for batch in batches:
        even = batch.filter(pc.equal(pc.bit_wise_and(batch.column("n"), 1), 0))
        yield pa.RecordBatch.from_arrays([even.column("k"), pc.divide(even.column("n"), 2)], ["k", "half"])


def with_map_in_arrow(given: Given) -> "DataFrame":
    return as_records(given("a").select("k", "n").mapInArrow(halve, "k string, half long"))


def in_sql(given: Given) -> "DataFrame":
    rows = given("a")
    return as_records(given.spark.sql("SELECT k, n + 1 AS next FROM {rows} WHERE n % 2 = 1", rows=rows))


# -- several sources ---------------------------------------------------------------------------------------------------


def all_rows(given: Given, *names: str) -> "DataFrame":
    rows = given(names[0])
    for name in names[1:]:
        rows = rows.unionByName(given(name))
    return rows


def union_of(*names: str) -> Callable[[Given], "DataFrame"]:
    return lambda given: as_records(all_rows(given, *names).select("k", "n"))


def union_with_itself(given: Given) -> "DataFrame":
    rows = given("a")
    return as_records(rows.select("k", "n").union(rows.selectExpr("k", "-n AS n")))


def sides(given: Given, left: str, right: str) -> "tuple[DataFrame, DataFrame]":
    """Two streams that meet within five minutes."""
    return (
        given(left).withWatermark("t", DELAY).selectExpr("k", "n AS ln", "t AS lt"),
        given(right).withWatermark("t", DELAY).selectExpr("k AS rk", "n AS rn", "t AS rt"),
    )


MEET = "k = rk AND rt BETWEEN lt - INTERVAL 2 MINUTES AND lt + INTERVAL 2 MINUTES"


def join_of(left: str, right: str, how: str = "inner") -> Callable[[Given], "DataFrame"]:
    def query(given: Given) -> "DataFrame":
        ours, theirs = sides(given, left, right)
        return as_records(ours.join(theirs, sf.expr(MEET), how).select("k", "ln", "rn"))

    return query


def semi_join(given: Given) -> "DataFrame":
    ours, theirs = sides(given, "a", "b")
    return as_records(ours.join(theirs, sf.expr(MEET), "left_semi").select("k", "ln"))


def join_with_itself(given: Given) -> "DataFrame":
    rows = given("a").withWatermark("t", DELAY)
    ours = rows.selectExpr("k", "n AS ln", "t AS lt")
    theirs = rows.selectExpr("k AS rk", "n AS rn", "t AS rt")
    return as_records(ours.join(theirs, sf.expr(MEET)).select("k", "ln", "rn"))


# -- Spark's state -----------------------------------------------------------------------------------------------------


def tumbling() -> "Column":
    return sf.window("t", "5 minutes")


def sliding() -> "Column":
    return sf.window("t", "4 minutes", "2 minutes")


def session() -> "Column":
    return sf.session_window("t", "30 seconds")


def counted(rows: "DataFrame", *by: "str | Column") -> "DataFrame":
    return rows.groupBy(*by).agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))


def windows_of(windowing: Windowing, *names: str) -> Callable[[Given], "DataFrame"]:
    def query(given: Given) -> "DataFrame":
        rows = all_rows(given, *(names or "a")).withWatermark("t", DELAY)
        return as_records(counted(rows, "k", windowing().alias("w")), WINDOW_START)

    return query


def running_windows_of(windowing: Windowing) -> Callable[[Given], "DataFrame"]:
    """Each value that a window of a key may have had."""

    def query(given: Given) -> "DataFrame":
        rows = given("a").select("k", windowing().alias("w"), "n")
        return as_records(_running(rows, "k, w"), WINDOW_START)

    return query


def totals(given: Given) -> "DataFrame":
    return as_records(counted(given("a"), "k"))


def running_totals(given: Given) -> "DataFrame":
    return as_records(_running(given("a"), "k"))


def _running(rows: "DataFrame", by: str) -> "DataFrame":
    so_far = f"OVER (PARTITION BY {by} ORDER BY n)"
    running = rows.selectExpr(*by.split(", "), "n", f"count(*) {so_far} AS c", f"sum(n) {so_far} AS s")
    return running.coalesce(1).sortWithinPartitions("n").drop("n")


def total_of_all(given: Given) -> "DataFrame":
    """One row, of all keys."""
    return as_records(counted(given("a")).selectExpr("'all' AS k", "*"))


def without_duplicates(given: Given) -> "DataFrame":
    return as_records(given("a").selectExpr("k", "n % 3 AS d").dropDuplicates())


def without_duplicates_with_watermark(given: Given) -> "DataFrame":
    """Duplicates have the same time; so the state of old ones goes."""
    rows = given("a").withWatermark("t", DELAY).selectExpr("k", "t")
    return as_records(rows.unionAll(rows).dropDuplicates(["k", "t"]))


def without_duplicates_within_watermark(given: Given) -> "DataFrame":
    """A wave lasts less than the delay, and the next comes long after it: once for each key and wave."""
    rows = given("a").withWatermark("t", DELAY).selectExpr("k", "n % 2 AS d", "n div 100 AS wave", "t")
    if given.is_stream:
        return as_records(rows.dropDuplicatesWithinWatermark(["k", "d", "wave"]).drop("t"))
    return as_records(rows.dropDuplicates(["k", "d", "wave"]).drop("t"))


def duplicates_then_windows(given: Given) -> "DataFrame":
    """Two stateful operators, one after the other."""
    rows = given("a").withWatermark("t", DELAY)
    rows = rows.unionAll(rows).dropDuplicates(["k", "n", "t"])
    return as_records(counted(rows, "k", tumbling().alias("w")), WINDOW_START)


def windows_of_windows(given: Given) -> "DataFrame":
    rows = given("a").withWatermark("t", DELAY)
    small = rows.groupBy("k", sf.window("t", "1 minute").alias("small")).agg(sf.sum("n").alias("n"))
    large = small.groupBy("k", sf.window("small", "5 minutes").alias("w"))
    return as_records(large.agg(sf.count("*").alias("c"), sf.sum("n").alias("s")), WINDOW_START)


def union_of_windows_and_duplicates(given: Given) -> "DataFrame":
    """Two stateful branches of one query."""
    rows = given("a").withWatermark("t", DELAY)
    windows = as_records(counted(rows, "k", tumbling().alias("w")), WINDOW_START)
    once = as_records(given("b").withWatermark("t", DELAY).select("k", "n", "t").dropDuplicates(["k", "n", "t"]))
    return windows.unionByName(once)


# -- a step of ours ----------------------------------------------------------------------------------------------------


def rows_of(*names: str) -> Callable[[Given], "DataFrame"]:
    """For a sink with a step of ours: rows, not records."""
    return lambda given: all_rows(given, *names).select("k", "n")


def totals_of(*names: str) -> Callable[[Given], "DataFrame"]:
    return lambda given: as_records(counted(all_rows(given, *names), "k"))


def distinct_rows(given: Given) -> "DataFrame":
    """Spark's own state in front of ours."""
    rows = given("a").withWatermark("t", DELAY)
    return rows.unionAll(rows).dropDuplicates(["k", "n", "t"]).select("k", "n")


def totals_and_rows(given: Given) -> "DataFrame":
    """By key into `out`, and each row into `rows`, under its number."""
    rows = given("a").select("k", "n")
    return _to(given, "out", as_records(counted(rows, "k"))).unionByName(_to(given, "rows", as_records(rows, "n")))


def totals_in_both_topics(given: Given) -> "DataFrame":
    """By key into `out`, and those of even numbers into `right`."""
    rows = given("a").select("k", "n")
    even = as_records(counted(rows.where("n % 2 = 0"), "k"))
    return _to(given, "out", as_records(counted(rows, "k"))).unionByName(_to(given, "right", even))


def totals_rows(given: Given) -> "DataFrame":
    return counted(given("a"), "k")


def totals_twice(given: Given) -> "DataFrame":
    """The same into both topics."""
    records = as_records(totals_rows(given))
    return _to(given, "out", records).unionByName(_to(given, "rows", records))


def _to(given: Given, label: str, records: "DataFrame") -> "DataFrame":
    return records.selectExpr(f"'{given.topic(label)}' AS topic", "*")
