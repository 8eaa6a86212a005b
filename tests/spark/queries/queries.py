"""Queries as people write them, from rows (k, n, t) to records. Each runs as a stream and as a batch.

Aggregates give `c` and `s`, a count and a sum, so that each value that a key takes on its way can be told from others.
"""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType

from tests.spark.queries.case import Query
from tests.spark.queries.given import Given

if TYPE_CHECKING:
    from pyspark.sql import Column

DELAY = "1 hour"
SIZES = "(VALUES ('a', 1), ('b', 2), ('b', 3) AS sizes(k, size))"
WINDOW_START = "concat_ws('/', k, w.start)"

#: What a window is of.
Windowing = Callable[[], "Column"]


def timed(given: Given, name: str = "a") -> DataFrame:
    return given(name).withWatermark("t", DELAY)


def as_records(rows: DataFrame, key: str = "k") -> DataFrame:
    return rows.selectExpr(f"CAST({key} AS STRING) AS key", "to_json(struct(*)) AS value")


# -- without state -----------------------------------------------------------------------------------------------------


def select(*expressions: str, where: str = "true") -> Query:
    return lambda given: as_records(given("a").where(where).selectExpr(*expressions))


def records_with(*columns: str) -> Query:
    """Records as they came."""
    return lambda given: given.records("a").select(*columns)


projection = select("k", "n * 2 AS twice", "upper(k) AS big")
filtered = select("*", where="n % 3 = 0")
nothing = select("*", where="n < 0")
few = select("*", where="n % 100 IN (0, 7)")  # nothing in most batches
exploded = select("k", "n", "explode(sequence(0, CAST(n % 3 AS INT))) AS part")
rows_as_they_came = records_with("key", "value")
with_headers = records_with("key", "value", "headers")


def first_few(given: Given) -> DataFrame:
    """A limit is a stateful operator in a stream."""
    return as_records(given("a").select("k", "n").limit(15))


def with_static_table(given: Given) -> DataFrame:
    return as_records(given("a").join(given.table(SIZES), "k", "left"))


def to_two_topics(given: Given) -> DataFrame:
    left, right = given.topic("out"), given.topic("right")
    return given("a").selectExpr(
        f"""inline(array(
            named_struct('topic', '{left}', 'key', k, 'value', concat('L ', n)),
            named_struct('topic', '{right}', 'key', k, 'value', concat('R ', n))))"""
    )


def with_everything_a_record_has(given: Given) -> DataFrame:
    """Values may be null; headers may be, too."""
    return given("a").selectExpr(
        "k AS key",
        "IF(n % 5 = 0, NULL, CAST(n AS STRING)) AS value",
        "IF(n % 2 = 0, array(struct('n' AS key, encode(CAST(n AS STRING), 'UTF-8') AS value)), NULL) AS headers",
        "CAST(ascii(k) % 2 AS INT) AS partition",
        "t AS timestamp",
    )


#: Some rows name a partition that is not there, some a topic that is not, and some are bad by the query's own account.
FAULT = """CASE n % 7 WHEN 1 THEN 'unknown-partition' WHEN 2 THEN 'unknown-topic' WHEN 3 THEN 'no-topic'
                      WHEN 4 THEN 'query' END"""


def with_bad_rows(given: Given) -> DataFrame:
    return given("a").selectExpr(
        f"CASE n % 7 WHEN 2 THEN 'not-there' WHEN 3 THEN NULL ELSE '{given.topic('out')}' END AS topic",
        "k AS key",
        "CAST(n AS STRING) AS value",
        "IF(n % 7 = 1, 99, NULL) AS partition",
        "IF(n % 7 = 4, concat('four: ', n), NULL) AS error",
    )


def with_dead_letters(given: Given) -> DataFrame:
    """What becomes of them."""
    reason = f"struct('fencepost.error.reason' AS key, CAST({FAULT} AS BINARY) AS value)"
    return given("a").selectExpr(
        f"IF({FAULT} IS NULL, '{given.topic('out')}', '{given.topic('dead')}') AS topic",
        "k AS key",
        "CAST(n AS STRING) AS value",
        f"IF({FAULT} IS NULL, NULL, array({reason})) AS headers",
    )


@pandas_udf(LongType())  # type: ignore[call-overload]
def squared(numbers: pd.Series) -> pd.Series:
    return numbers * numbers % 10_007


def with_pandas_udf(given: Given) -> DataFrame:
    return as_records(given("a").select("k", "n", squared("n").alias("square")))


def negated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.set_column(1, "n", pc.negate(batch.column("n")))


def halve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leaves out odd numbers."""
    for batch in batches:
        even = batch.filter(pc.equal(pc.bit_wise_and(batch.column("n"), 1), 0))
        yield pa.RecordBatch.from_arrays([even.column("k"), pc.divide(even.column("n"), 2)], ["k", "half"])


def with_map_in_arrow(given: Given) -> DataFrame:
    return as_records(given("a").select("k", "n").mapInArrow(halve, "k string, half long"))


def in_sql(given: Given) -> DataFrame:
    rows = given("a")
    return as_records(given.spark.sql("SELECT k, n + 1 AS next FROM {rows} WHERE n % 2 = 1", rows=rows))


# -- several sources ---------------------------------------------------------------------------------------------------


def all_rows(given: Given, *names: str) -> DataFrame:
    return functools.reduce(DataFrame.unionByName, map(given, names))


def union_of(*names: str) -> Query:
    return lambda given: as_records(all_rows(given, *names).select("k", "n"))


def union_with_itself(given: Given) -> DataFrame:
    rows = given("a")
    return as_records(rows.select("k", "n").union(rows.selectExpr("k", "-n AS n")))


MEET = "k = rk AND rt BETWEEN lt - INTERVAL 2 MINUTES AND lt + INTERVAL 2 MINUTES"


def sides(left: DataFrame, right: DataFrame) -> "tuple[DataFrame, DataFrame, Column]":
    """Two streams, and what joins them: they meet within two minutes."""
    ours = left.selectExpr("k", "n AS ln", "t AS lt")
    return ours, right.selectExpr("k AS rk", "n AS rn", "t AS rt"), sf.expr(MEET)


def join_of(how: str) -> Query:
    def query(given: Given) -> DataFrame:
        ours, theirs, meet = sides(timed(given), timed(given, "b"))
        return as_records(ours.join(theirs, meet, how).select("k", "ln", "rn"))

    return query


def semi_join(given: Given) -> DataFrame:
    ours, theirs, meet = sides(timed(given), timed(given, "b"))
    return as_records(ours.join(theirs, meet, "left_semi").select("k", "ln"))


def join_with_itself(given: Given) -> DataFrame:
    rows = timed(given)
    ours, theirs, meet = sides(rows, rows)
    return as_records(ours.join(theirs, meet).select("k", "ln", "rn"))


# -- Spark's state -----------------------------------------------------------------------------------------------------


def tumbling() -> "Column":
    return sf.window("t", "5 minutes")


def sliding() -> "Column":
    return sf.window("t", "4 minutes", "2 minutes")


def session() -> "Column":
    return sf.session_window("t", "30 seconds")


def counted(rows: DataFrame, *by: "str | Column") -> DataFrame:
    return rows.groupBy(*by).agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))


def windows_of(windowing: Windowing, *names: str) -> Query:
    def query(given: Given) -> DataFrame:
        rows = all_rows(given, *(names or "a")).withWatermark("t", DELAY)
        return as_records(counted(rows, "k", windowing().alias("w")), WINDOW_START)

    return query


def running_windows_of(windowing: Windowing) -> Query:
    """Each value that a window of a key may have had."""

    def query(given: Given) -> DataFrame:
        rows = given("a").select("k", windowing().alias("w"), "n")
        return as_records(_running(rows, "k, w"), WINDOW_START)

    return query


def totals_of(*names: str) -> Query:
    return lambda given: as_records(counted(all_rows(given, *names), "k"))


totals = totals_of("a")


def running_totals(given: Given) -> DataFrame:
    return as_records(_running(given("a"), "k"))


def _running(rows: DataFrame, by: str) -> DataFrame:
    so_far = f"OVER (PARTITION BY {by} ORDER BY n)"
    running = rows.selectExpr(*by.split(", "), "n", f"count(*) {so_far} AS c", f"sum(n) {so_far} AS s")
    return running.coalesce(1).sortWithinPartitions("n").drop("n")


def total_of_all(given: Given) -> DataFrame:
    """One row, of all keys."""
    return as_records(counted(given("a")).selectExpr("'all' AS k", "*"))


def without_duplicates(given: Given) -> DataFrame:
    return as_records(given("a").selectExpr("k", "n % 3 AS d").dropDuplicates())


def without_duplicates_with_watermark(given: Given) -> DataFrame:
    """Duplicates have the same time; so the state of old ones goes."""
    rows = timed(given).selectExpr("k", "t")
    return as_records(rows.unionAll(rows).dropDuplicates(["k", "t"]))


def without_duplicates_within_watermark(given: Given) -> DataFrame:
    """A wave lasts less than the delay, and the next comes long after it: once for each key and wave."""
    rows = timed(given).selectExpr("k", "n % 2 AS d", "n div 100 AS wave", "t")
    if given.is_stream:
        return as_records(rows.dropDuplicatesWithinWatermark(["k", "d", "wave"]).drop("t"))
    return as_records(rows.dropDuplicates(["k", "d", "wave"]).drop("t"))


def distinct(given: Given) -> DataFrame:
    rows = timed(given)
    return rows.unionAll(rows).dropDuplicates(["k", "n", "t"])


def tumbling_windows(rows: DataFrame) -> DataFrame:
    return as_records(counted(rows, "k", tumbling().alias("w")), WINDOW_START)


def duplicates_then_windows(given: Given) -> DataFrame:
    """Two stateful operators, one after the other."""
    return tumbling_windows(distinct(given))


def windows_of_windows(given: Given) -> DataFrame:
    small = timed(given).groupBy("k", sf.window("t", "1 minute").alias("small")).agg(sf.sum("n").alias("n"))
    return as_records(counted(small, "k", sf.window("small", "5 minutes").alias("w")), WINDOW_START)


def union_of_windows_and_duplicates(given: Given) -> DataFrame:
    """Two stateful branches of one query."""
    once = timed(given, "b").select("k", "n", "t").dropDuplicates(["k", "n", "t"])
    return tumbling_windows(timed(given)).unionByName(as_records(once))


# -- a step of ours ----------------------------------------------------------------------------------------------------


def rows_of(*names: str) -> Query:
    """For a sink with a step of ours: rows, not records."""
    return lambda given: all_rows(given, *names).select("k", "n")


def distinct_rows(given: Given) -> DataFrame:
    """Spark's own state in front of ours."""
    return distinct(given).select("k", "n")


# -- what is in several topics -----------------------------------------------------------------------------------------


def into(given: Given, **records: DataFrame) -> DataFrame:
    """Records of each label into its topic."""
    parts = [each.selectExpr(f"'{given.topic(label)}' AS topic", "*") for label, each in records.items()]
    return functools.reduce(DataFrame.unionByName, parts)


def in_both(query: Query, *labels: str) -> Query:
    """The same records in each topic."""
    return lambda given: into(given, **{label: query(given) for label in labels})


def totals_and_rows(given: Given) -> DataFrame:
    """By key into `out`, and each row into `rows`, under its number."""
    return into(given, out=totals(given), rows=as_records(given("a").select("k", "n"), "n"))


def totals_in_both_topics(given: Given) -> DataFrame:
    """By key into `out`, and those of even numbers into `right`."""
    return into(given, out=totals(given), right=as_records(counted(given("a").where("n % 2 = 0"), "k")))
