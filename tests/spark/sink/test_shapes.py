"""Pipelines of unusual shapes, in a classic session: each record takes effect once, whatever dies."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from fencepost.spark import read_tables
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.conftest import unique
from tests.spark import numbers_job
from tests.spark.checker import read_committed, read_records, wait_until_settled
from tests.spark.scene import MakeScene
from tests.spark.sink.inprocess import InProcess, dying_at
from tests.spark.source.support import fill

BOTH = pytest.mark.parametrize(
    "small", ["0", pytest.param("1000", marks=pytest.mark.thorough)], ids=["by tasks", "by the driver"]
)
STEPS = (BatchStep.WRITTEN, BatchStep.COMMITTED)
BATCH_RECORDS = 20


@BOTH
def test_a_batch_may_be_dead_letters_alone(
    here: InProcess, make_scene: MakeScene, topic: Callable[..., str], small: str
):
    dead = topic(1)
    scene = make_scene(60, options={"smallBatchRecords": small, "deadLetters": dead})
    plan = replace(scene.plan, batch_records=BATCH_RECORDS)
    rows = numbers_job.read(here.spark, plan).selectExpr(f"'{plan.left}' AS topic", "value", "'bad' AS error")
    for step in STEPS:
        with dying_at(step, passes=1):
            here.run_until_failed(plan, rows)
    here.run(plan, rows)
    assert scene.check.assert_whole() == 0
    assert Counter(read_committed(plan.bootstrap, dead)) == Counter(map(str, range(60)))
    assert sum(scene.check.committed().values()) == 60


@pytest.mark.thorough
@BOTH
def test_a_batch_may_write_to_a_thousand_topics(here: InProcess, make_scene: MakeScene, admin: AdminClient, small: str):
    scene = make_scene(2000, options={"smallBatchRecords": small})
    plan = replace(scene.plan, batch_records=2000)
    prefix = unique("many")
    for done in admin.create_topics([NewTopic(f"{prefix}-{number}", 1) for number in range(1000)]).values():
        done.result(60)
    rows = numbers_job.read(here.spark, plan).selectExpr(
        f"concat('{prefix}-', CAST(CAST(value AS STRING) AS INT) % 1000) AS topic", "value"
    )
    with dying_at(BatchStep.WRITTEN):
        here.run_until_failed(plan, rows)
    here.run(plan, rows)
    found = (
        here.spark.read.format("fencepost").options(**logins.spark(plan.bootstrap))
        .option("subscribePattern", f"{prefix}-.*").load().selectExpr("topic", "CAST(value AS STRING)").collect()
    )  # fmt: skip
    assert Counter(found) == Counter((f"{prefix}-{number % 1000}", str(number)) for number in range(2000))


@BOTH
def test_rows_without_keys_go_to_the_partitions_that_they_name(here: InProcess, make_scene: MakeScene, small: str):
    scene = make_scene(60, options={"smallBatchRecords": small})
    number = "CAST(CAST(value AS STRING) AS INT)"
    rows = numbers_job.read(here.spark, scene.plan).selectExpr(
        f"'{scene.plan.left}' AS topic", "CAST(NULL AS BINARY) AS key", "value",
        f"IF({number} % 4 = 3, NULL, {number} % 4) AS partition",
    )  # fmt: skip
    with dying_at(BatchStep.WRITTEN):
        here.run_until_failed(scene.plan, rows)
    here.run(scene.plan, rows)
    found = read_records(scene.plan.bootstrap, scene.plan.left)
    assert sorted(int(record.value()) for record in found) == [*range(60)]
    assert all(record.key() is None for record in found)
    assert all(record.partition() == int(record.value()) % 4 for record in found if int(record.value()) % 4 != 3)


@pytest.mark.thorough
@BOTH
def test_windows_of_two_typed_topics_with_dead_letters(
    here: InProcess, make_scene: MakeScene, topic: Callable[..., str], small: str
):
    """A union of two typed sources; late and corrupt records; a window that the query calls bad is a dead letter."""
    dead, other = topic(1), topic(2)
    scene = make_scene(0, options={"smallBatchRecords": small, "deadLetters": dead})
    plan = replace(scene.plan, batch_records=BATCH_RECORDS)
    schema = "at TIMESTAMP, n BIGINT"

    def rows() -> DataFrame:
        made = [
            here.spark.readStream.format("fencepost")
            .options(**logins.spark(plan.bootstrap), pipeline=plan.pipeline, subscribe=each)
            .options(valueFormat="json", valueSchema=schema, maxOffsetsPerTrigger="20", limitFirstBatch="true").load()
            for each in (plan.source, other)
        ]  # fmt: skip
        both = made[0].unionByName(made[1]).selectExpr("value.at AS at", "value.n AS n")
        windows = (
            both.withWatermark("at", "0 seconds").groupBy(sf.window("at", "10 seconds")).agg({"n": "sum", "*": "count"})
        )
        return windows.selectExpr(
            f"'{plan.left}' AS topic", "struct(window.start AS start, `sum(n)` AS s, `count(1)` AS c) AS value",
            "IF(minute(window.start) = 1, 'the second minute', NULL) AS error",
        )  # fmt: skip

    def buy(first: int, last: int) -> None:
        for each in (plan.source, other):
            fill(plan.bootstrap, each, [
                json.dumps({"at": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z", "n": second})
                for second in range(first, last)
            ])  # fmt: skip

    for first, step in ((0, BatchStep.WRITTEN), (60, BatchStep.COMMITTED)):
        buy(first, first + 60)
        with dying_at(step, passes=1):
            here.run_until_failed(plan, rows())
    buy(120, 200)
    here.run(plan, rows())
    wait_until_settled(plan.bootstrap, plan.left, dead)
    good = [json.loads(value) for value in read_committed(plan.bootstrap, plan.left)]
    bad = [json.loads(value) for value in read_committed(plan.bootstrap, dead)]
    starts = Counter(each["start"] for each in good + bad)
    assert max(starts.values()) == 1
    assert all(each["c"] == 20 for each in good + bad)
    assert len(bad) == 6
    assert len(good) + len(bad) == 19


@pytest.mark.thorough
@BOTH
def test_a_changed_query_continues_on_its_checkpoint(here: InProcess, make_scene: MakeScene, small: str):
    """Rows, then typed rows, then tables, then rows through a function: four programs after each other."""
    scene = make_scene(0, options={"smallBatchRecords": small})
    plan = replace(scene.plan, batch_records=BATCH_RECORDS)
    given = {
        **logins.spark(plan.bootstrap), "subscribe": plan.source, "maxOffsetsPerTrigger": "20",
        "limitFirstBatch": "true", "pipeline": plan.pipeline,
    }  # fmt: skip
    typed = {**given, "valueFormat": "json", "valueSchema": "BIGINT"}

    def to_sides(table: Any) -> Any:
        text = pc.cast(table["value"], pa.string())
        for name, letter in ((plan.left, "L "), (plan.right, "R ")):
            value = pc.binary_join_element_wise(letter, text, "")
            yield pa.table({"topic": pa.repeat(name, len(text)), "key": table["key"], "value": value})

    def load(options: dict[str, str]) -> DataFrame:
        return here.spark.readStream.format("fencepost").options(**options).load()

    programs: list[tuple[Callable[[], DataFrame], dict[str, Any]]] = [
        (lambda: numbers_job.transform(load(given), plan), {}),
        (lambda: numbers_job.transform(load(typed), plan), {}),
        (lambda: read_tables(here.spark, typed, columns=["value", "key"]), {"transform_arrow": to_sides}),
        (lambda: load(given), {"transform_arrow": to_sides}),
        (lambda: read_tables(here.spark, given), {"transform_arrow": to_sides}),
        (lambda: numbers_job.transform(load(given), plan), {}),
    ]
    for number, (rows, more) in enumerate(programs):
        scene.check.write(60)
        with dying_at(STEPS[number % 2], passes=1):
            here.run_until_failed(plan, rows(), **more)
        scene.check.assert_whole()
    here.run(plan, programs[0][0]())
    scene.check.assert_complete()


@BOTH
def test_tables_of_several_topics_and_of_some_that_come_later(
    here: InProcess, make_scene: MakeScene, admin: AdminClient, topic: Callable[..., str], small: str
):
    dead = topic(1)
    scene = make_scene(0, options={"smallBatchRecords": small, "deadLetters": dead})
    plan = replace(scene.plan, batch_records=BATCH_RECORDS)
    prefix = unique("pattern")

    def buy(name: str, first: int, last: int) -> None:
        admin.create_topics([NewTopic(name, 2)])[name].result(30)
        fill(plan.bootstrap, name, [str(n) if n % 10 else f"bad {n}" for n in range(first, last)])

    def rows() -> DataFrame:
        options = {
            **logins.spark(plan.bootstrap), "subscribePattern": f"{prefix}.*", "maxOffsetsPerTrigger": "20",
            "limitFirstBatch": "true", "pipeline": plan.pipeline, "valueFormat": "json", "valueSchema": "BIGINT",
            "mode": "PERMISSIVE", "includeHeaders": "true", "minPartitions": "3",
        }  # fmt: skip
        return read_tables(here.spark, options)

    def to_left(table: Any) -> Any:
        assert "_corrupt_record" not in table.schema.names
        return pa.table({"topic": pa.repeat(plan.left, len(table)), "key": table["key"],
                         "value": pc.cast(table["value"], pa.string()), "headers": table["headers"]})  # fmt: skip

    buy(prefix, 0, 60)
    with dying_at(BatchStep.WRITTEN, passes=1):
        here.run_until_failed(plan, rows(), transform_arrow=to_left)
    buy(f"{prefix}-more", 60, 120)
    with dying_at(BatchStep.COMMITTED, passes=1):
        here.run_until_failed(plan, rows(), transform_arrow=to_left)
    here.run(plan, rows(), transform_arrow=to_left)
    wait_until_settled(plan.bootstrap, plan.left, dead)
    assert sorted(map(int, read_committed(plan.bootstrap, plan.left))) == [n for n in range(120) if n % 10]
    assert Counter(read_committed(plan.bootstrap, dead)) == Counter(f"bad {n}" for n in range(0, 120, 10))


@pytest.mark.thorough
@BOTH
def test_two_streams_of_tables_in_one_query(
    here: InProcess, make_scene: MakeScene, topic: Callable[..., str], small: str
):
    other = topic(1)
    scene = make_scene(40, options={"smallBatchRecords": small})
    plan = replace(scene.plan, batch_records=BATCH_RECORDS)
    fill(plan.bootstrap, other, [str(number) for number in range(40, 80)])

    def rows() -> DataFrame:
        options = {**logins.spark(plan.bootstrap), "maxOffsetsPerTrigger": "20", "limitFirstBatch": "true",
                   "pipeline": plan.pipeline}  # fmt: skip
        first, second = (read_tables(here.spark, {**options, "subscribe": each}) for each in (plan.source, other))
        return first.union(second)

    def to_left(table: Any) -> Any:
        return pa.table({"topic": pa.repeat(plan.left, len(table)), "value": table["value"]})

    for step in STEPS:
        with dying_at(step, passes=1 if step is BatchStep.WRITTEN else 0):
            here.run_until_failed(plan, rows(), transform_arrow=to_left)
    here.run(plan, rows(), transform_arrow=to_left)
    assert sorted(map(int, read_committed(plan.bootstrap, plan.left))) == [*range(80)]


@pytest.mark.thorough
@BOTH
def test_a_row_with_several_records_joined_with_itself(
    here: InProcess, make_scene: MakeScene, tmp_path: Path, small: str
):
    """A self-join of a typed stream, each row two typed records of which one may be null, beside a sink of files."""
    scene = make_scene(60, options={"smallBatchRecords": small})
    plan = replace(scene.plan, batch_records=BATCH_RECORDS)
    options = {**logins.spark(plan.bootstrap), "subscribe": plan.source, "maxOffsetsPerTrigger": "20",
               "limitFirstBatch": "true", "pipeline": plan.pipeline, "valueFormat": "json",
               "valueSchema": "BIGINT"}  # fmt: skip

    def rows() -> DataFrame:
        one = here.spark.readStream.format("fencepost").options(**options).load().selectExpr("value AS n", "key")
        two = one.selectExpr("n AS m")
        return one.join(two, one.n == two.m).selectExpr(
            f"struct('{plan.left}' AS topic, key, struct(n) AS value) AS a",
            f"IF(n % 2 = 0, struct('{plan.right}' AS topic, key, struct(m) AS value), NULL) AS b",
        )

    for step in STEPS:
        with dying_at(step, passes=1):
            here.run_until_failed(plan, rows())
    writer = here.writer(plan)

    def each_batch(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(df.select("a"))
            batch.write(df.where("FALSE").select("a"))
            batch.write(df.selectExpr("b"))
        df.selectExpr("a.value.n").write.mode("append").parquet(str(tmp_path / "files"))

    here.run(plan, rows(), function=each_batch, pipeline=writer)
    left = Counter(read_committed(plan.bootstrap, plan.left))
    right = Counter(read_committed(plan.bootstrap, plan.right))
    assert left == Counter(f'{{"n":{n}}}' for n in range(60))
    assert right == Counter(f'{{"m":{n}}}' for n in range(0, 60, 2))
