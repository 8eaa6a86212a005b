"""Expressions on columns against Spark: wherever a value is certain, it is Spark's, byte for byte."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.errors import NotColumnar
from fencepost.spark.columnar.plan import ColumnarQuery, columnar_query
from fencepost.spark.sink.column_types import nullable
from tests.spark.columnar.grammar import SCHEMA, Grammar, rows

ROWS = 60
#: Otherwise Spark computes what several columns have in common before it looks at their conditions, and adds and
#: multiplies integers in another order, which may overflow where the query as it is written does not.
AS_WRITTEN = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ReorderAssociativeOperator",
}
#: Expressions in a query of Spark's.
AT_A_TIME = 20

EXPRESSIONS = [
    "a % 97 + 1",
    "lpad(a % 1000, 3, '0')",
    "concat('S-', a, '/', b)",
    "CASE WHEN b != 0 THEN a div b END",
    "IF(f = 0, NULL, 1 / f)",
    "CASE WHEN a IS NULL THEN 'none' WHEN a < 0 THEN 'below' WHEN a > 100 THEN concat(t, u) END",
    "CASE WHEN flag THEN st END",
    "CASE WHEN flag THEN named_struct('x', a, 'y', t) ELSE st END",
    "st.x + 1",
    "named_struct('s', st, 'l', list, 'd', day, 'ts', at)",
    "concat(ifnull(list, array()), array(struct(t AS key, b AS n), struct('k' AS key, 1 AS n)))",
    "concat(list, list)",
    "array(a, a + 1, NULL)",
    "nullif(t, '')",
    "NOT ifnull(f BETWEEN 0 AND 1000000000, false)",
    "t <=> u",
    "coalesce(t, u, 'neither')",
    "substr(t, 2)",
    "7 % a",
    "f * 0.25",
    "cast(cast(t AS BINARY) AS STRING)",
    "cast(bin AS STRING)",
    "cast(a AS INT)",
    "cast(a AS DOUBLE)",
    "cast(g AS DOUBLE)",
    "c + c",
    "-c",
    "abs(a)",
    "upper(t)",
    "trim(t)",
    *(f"t LIKE '{pattern}'" for pattern in ("a%", "%c", "%b%", "abc", "a%c", "%", "", "é%")),
    "t LIKE 'a!%' ESCAPE '!'",
    "t IN ('a', 'b')",
    "t IN ('a', NULL)",
    "day < DATE'2000-01-01'",
    "g > 0.25",
    "NULL",
    "cast(NULL AS STRING)",
    "true AND NULL",
]


@pytest.fixture(autouse=True)
def as_written(spark: SparkSession) -> Iterator[None]:
    for name, value in AS_WRITTEN.items():
        spark.conf.set(name, value)
    yield
    for name in AS_WRITTEN:
        spark.conf.unset(name)


def stream(spark: SparkSession, text: Iterable[str]) -> DataFrame:
    source = spark.readStream.format("fencepost").options(**{"kafka.bootstrap.servers": "localhost:1"})
    source = source.option("subscribe", "t").option("valueFormat", "json").schema(SCHEMA)
    return source.load().selectExpr(*text)


def arrow(spark: SparkSession, given: list[tuple[Any, ...]]) -> Any:
    return spark.createDataFrame(given, SCHEMA).toArrow().combine_chunks()


def evaluated(query: ColumnarQuery, table: Any) -> list[tuple[bool, Any]]:
    """For each row whether its value is certain, and the value."""
    try:
        found = query.program.run(one_batch(table)).column(0).to_pylist()
    except NotColumnar:
        if len(table) == 1:
            return [(False, None)]
        return [each for row in range(len(table)) for each in evaluated(query, table.slice(row, 1))]
    return [(True, value) for value in found]


def one_batch(table: Any) -> Any:
    return pa.Table.from_batches(table.to_batches()).combine_chunks().to_batches()[0]


def differences(spark: SparkSession, texts: list[str], given: list[tuple[Any, ...]]) -> tuple[list[str], int, int]:
    """What is not as Spark has it; how many values were certain, and how many expressions are evaluated on columns."""
    queries = [columnar_query(stream(spark, [f"{text} AS made"])) for text in texts]
    table = arrow(spark, given)
    known = [(text, evaluated(query, table)) for text, query in zip(texts, queries, strict=True) if query is not None]
    found, certain = [], 0
    for first in range(0, len(known), AT_A_TIME):
        some = known[first : first + AT_A_TIME]
        flags = [f"ok{index} BOOLEAN" for index in range(len(some))]
        wide = [(*row, *(values[number][0] for _, values in some)) for number, row in enumerate(given)]
        wanted = spark.createDataFrame(wide, f"{SCHEMA}, {', '.join(flags)}").selectExpr(
            *(f"CASE WHEN ok{index} THEN {text} END AS made{index}" for index, (text, _) in enumerate(some))
        )
        columns = [column.to_pylist() for column in nullable(wanted).toArrow().columns]
        for (text, values), column in zip(some, columns, strict=True):
            for (is_certain, value), spark_value, row in zip(values, column, given, strict=True):
                certain += is_certain
                if is_certain and repr(value) != repr(spark_value):
                    found.append(f"{text}: {value!r} instead of {spark_value!r} for {row}")
    return found, certain, len(known)


def test_expressions_that_people_write(spark: SparkSession) -> None:
    given = rows(random.Random(1), ROWS)
    found, certain, known = differences(spark, EXPRESSIONS, given)
    assert not found, "\n".join(found[:5])
    assert known >= len(EXPRESSIONS) - 2  # IN a list with NULL, and LIKE with an escape, are Spark's
    assert certain > 0.85 * known * ROWS


@pytest.mark.parametrize(
    ("seed", "count", "depth"),
    [(1, 60, 3), *(pytest.param(seed, 400, 4, marks=pytest.mark.thorough) for seed in range(2, 12))],
)
def test_generated_expressions(spark: SparkSession, seed: int, count: int, depth: int) -> None:
    chance = random.Random(seed)
    grammar = Grammar(chance)
    texts = [grammar.any(depth) for _ in range(count)]
    found, certain, known = differences(spark, texts, rows(chance, ROWS))
    assert not found, f"{len(found)} of {certain}:\n" + "\n".join(found[:5])
    assert known > 0.6 * count  # some divide by a literal 0, and such
    assert certain > 0.5 * known * ROWS
