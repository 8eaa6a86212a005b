"""Whole queries on columns: exact under deaths, the same records as on rows, and run by Spark where it must be."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.spark import write, write_stream
from fencepost.spark.columnar.ranges import Columnar
from tests import logins
from tests.conftest import unique
from tests.spark.checker import read_committed, read_records
from tests.spark.numbers_job import EVERYTHING, end_when_done
from tests.spark.scene import SMALL_RECORD_BATCHES, Scene
from tests.spark.sink.deaths import BATCH_RECORDS, POINTS, die_at_every_step
from tests.spark.sink.inprocess import InProcess

ZONE = "spark.sql.session.timeZone"
SCHEMA = "id BIGINT, name STRING, price DOUBLE"


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each batch whether it was evaluated on columns."""
    seen: list[bool] = []
    batch = Columnar.batch

    def noting(self: Columnar, *given: Any) -> Any:
        found = batch(self, *given)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(Columnar, "batch", noting)
    return seen


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("protocol", "small"), [("2", "1000"), ("1", "0")], ids=["by the driver", "by tasks"])
def test_every_record_is_in_effect_once(
    here: InProcess, scene: Scene, protocol: str, small: str, evaluated: list[bool]
) -> None:
    query = die_at_every_step(here, scene, protocol, small, deletes_first=True, is_prepared=True)
    assert len(evaluated) > len(POINTS) - (small == "0")
    assert all(evaluated)
    assert 0 < max(progress.numInputRows for progress in query.recentProgress) <= BATCH_RECORDS


def write_json(spark: SparkSession, bootstrap: str, topic: str, values: list[str]) -> None:
    rows = spark.createDataFrame(
        [(str(number), value) for number, value in enumerate(values)], "key STRING, value STRING"
    )
    write(rows, bootstrap_servers=bootstrap, topic=topic, options=logins.sink(bootstrap))


def typed(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    given = {"subscribe": topic, "startingOffsets": "earliest", "valueFormat": "json", "valueSchema": SCHEMA, **options}
    return spark.readStream.format("fencepost").options(**logins.spark(bootstrap), **given).load()


def run(rows: DataFrame, bootstrap: str, checkpoint: Any, *, pipeline: str = "", **options: Any) -> None:
    query = write_stream(
        rows,
        pipeline=pipeline or unique("pipeline"),
        bootstrap_servers=bootstrap,
        checkpoint=str(checkpoint),
        trigger=EVERYTHING,
        options={**logins.sink(bootstrap), **SMALL_RECORD_BATCHES, **options},
    )
    end_when_done(query)
    query.awaitTermination()


GOOD = [json.dumps({"id": number, "name": f"n{number}", "price": number / 4}) for number in range(40)]
#: Sums and names of these are Spark's: an overflow, NaN, letters beyond ASCII.
ODD = [json.dumps({"id": 2**63 - 1, "name": "é", "price": float("nan")})]

QUERIES: dict[str, Callable[[DataFrame, str], DataFrame]] = {
    "projection": lambda rows, out: rows.selectExpr(
        f"'{out}' AS topic", "key", "struct(value.id % 7 AS m, upper(value.name) AS name, value.price) AS value"
    ),
    "filter": lambda rows, out: rows.where("value.price > 3 OR value.name LIKE 'n1%'").selectExpr(
        f"'{out}' AS topic", "key", "value"
    ),
    "sums in steps": lambda rows, out: (
        rows.selectExpr("key", "try_add(value.id, 1) AS next", "value.name")
        .where("next IS NULL OR next > 5")
        .selectExpr(f"'{out}' AS topic", "concat(key, '-', name) AS key", "struct(next) AS value")
    ),
    "several records": lambda rows, out: rows.selectExpr(
        f"struct('{out}' AS topic, key, struct(value.id) AS value) AS one",
        f"CASE WHEN value.id % 3 = 0 THEN struct('{out}' AS topic, key, value AS value) END AS other",
    ),
    "inline": lambda rows, out: rows.selectExpr(
        f"inline(array(struct('{out}' AS topic, key, value), struct('{out}' AS topic, value.name AS key, value)))"
    ),
    "explode": lambda rows, out: rows.selectExpr("key", "explode(array(value.id, value.id - 1)) AS id").selectExpr(
        f"'{out}' AS topic", "key", "CAST(id AS STRING) AS value"
    ),
    "headers and time": lambda rows, out: rows.selectExpr(
        f"'{out}' AS topic", "key", "value", "timestamp", "array(struct('k' AS key, key AS value)) AS headers"
    ),
    "nothing of the record": lambda rows, out: rows.selectExpr(f"'{out}' AS topic", "'x' AS value"),
    "a user's function": lambda rows, out: rows.selectExpr(
        f"'{out}' AS topic", "sha2(value.name, 256) AS key", "value"
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_records_are_those_of_rows(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Any, name: str
) -> None:
    source, left, right = topic(2), topic(1), topic(1)
    write_json(spark, bootstrap, source, GOOD + ODD)
    for out, columnar in ((left, "auto"), (right, "off")):
        run(QUERIES[name](typed(spark, bootstrap, source), out), bootstrap, tmp_path / columnar, columnar=columnar)
    found, wanted = (
        sorted((str(each.key()), str(each.value()), str(each.headers())) for each in read_records(bootstrap, out))
        for out in (left, right)
    )
    assert found == wanted
    assert wanted


def test_times_are_in_the_zone_of_the_session(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Any
) -> None:
    source, left, right = topic(1), topic(1), topic(1)
    write_json(spark, bootstrap, source, GOOD[:3])
    spark.conf.set(ZONE, "Asia/Kathmandu")
    try:
        for out, columnar in ((left, "auto"), (right, "off")):
            rows = typed(spark, bootstrap, source).selectExpr(f"'{out}' AS topic", "struct(timestamp AS at) AS value")
            run(rows, bootstrap, tmp_path / columnar, columnar=columnar)
    finally:
        spark.conf.unset(ZONE)
    found = sorted(map(str, read_committed(bootstrap, left)))
    assert found == sorted(map(str, read_committed(bootstrap, right)))
    assert "+05:45" in found[0]


def test_an_uncertain_batch_is_run_by_spark_and_the_next_on_columns(
    spark: SparkSession,
    bootstrap: str,
    topic: Callable[..., str],
    tmp_path: Any,
    evaluated: list[bool],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "fencepost.spark.sink.pipeline")
    source, out, pipeline = topic(1), topic(1), unique("pipeline")
    rows = typed(spark, bootstrap, source).selectExpr(f"'{out}' AS topic", "struct(try_add(value.id, 1) AS n) AS value")
    for values in (GOOD[:2], ODD, GOOD[2:4]):
        write_json(spark, bootstrap, source, values)
        run(rows, bootstrap, tmp_path, pipeline=pipeline)
    assert sorted(map(str, read_committed(bootstrap, out))) == ['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}', "{}"]
    assert evaluated == [True, True, False, True]
    assert "is run on rows by Spark: overflow" in caplog.text


@pytest.mark.parametrize("small", ["1000", "0"])
def test_after_a_few_uncertain_batches_columns_are_not_tried_again(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Any, evaluated: list[bool], small: str
) -> None:
    source, out = topic(1), topic(1)
    write_json(spark, bootstrap, source, ODD * 6)
    rows = typed(spark, bootstrap, source, maxOffsetsPerTrigger="1", limitFirstBatch="true")
    rows = rows.selectExpr(f"'{out}' AS topic", "struct(try_add(value.id, 1) AS n) AS value")
    run(rows, bootstrap, tmp_path, smallBatchRecords=small)
    assert len(list(read_committed(bootstrap, out))) == 6
    assert evaluated.count(True) == Columnar.UNCERTAIN_MAX


def test_rows_with_an_error_are_spark_errors(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Any
) -> None:
    source, out = topic(1), topic(1)
    write_json(spark, bootstrap, source, ODD)
    rows = typed(spark, bootstrap, source).selectExpr(f"'{out}' AS topic", "struct(value.id + 1 AS n) AS value")
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        run(rows, bootstrap, tmp_path)
    assert not list(read_committed(bootstrap, out))
