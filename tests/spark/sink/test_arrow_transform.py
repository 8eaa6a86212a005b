"""`transform_arrow`: a function from Arrow tables to tables of records, in the stage that encodes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame

from fencepost.errors import ConfigError
from fencepost.spark import batch_writer, read_tables
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.spark import numbers_job
from tests.spark.checker import read_committed, read_records
from tests.spark.numbers_job import Plan
from tests.spark.scene import MakeScene
from tests.spark.sink.inprocess import InProcess, dying_at
from tests.spark.source.support import fill, load


def both_sides(plan: Plan) -> Any:
    """The plan's records, as two tables."""

    def transform(numbers: Any) -> Any:
        text = pc.cast(numbers["value"], pa.string())
        for topic, letter in ((plan.left, "L "), (plan.right, "R ")):
            value = pc.binary_join_element_wise(letter, text, "")
            yield pa.table({"topic": pa.repeat(topic, len(text)), "key": numbers["key"], "value": value})

    return transform


@pytest.mark.parametrize("options", [{}, {"smallBatchRecords": "0"}], ids=["by the driver", "by tasks"])
def test_records_are_exact_whatever_happens_to_the_driver(
    here: InProcess, make_scene: MakeScene, options: Mapping[str, str]
):
    scene = make_scene(60, options=dict(options))
    plan = replace(scene.plan, batch_records=20)
    rows = numbers_job.read(here.spark, plan)
    for step in (BatchStep.WRITTEN, BatchStep.COMMITTING, BatchStep.COMMITTED):
        with dying_at(step, passes=1):
            here.run_until_failed(plan, rows, transform_arrow=both_sides(plan))
        scene.check.write(20)
    here.run(plan, rows, transform_arrow=both_sides(plan))
    scene.check.assert_complete()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ("text", "transform_arrow returned str"),
        (5, "transform_arrow returned int"),
        (pa.table({"topic": ["t"], "other": ["x"]}), "value"),
        (pa.table({"value": ["x"]}), "topic"),
    ],
)
def test_what_is_no_table_of_records_fails_the_batch(here: InProcess, make_scene: MakeScene, made: Any, text: str):
    scene = make_scene(3)
    rows: DataFrame = numbers_job.read(here.spark, scene.plan)
    assert text in here.run_until_failed(scene.plan, rows, transform_arrow=lambda _table: made)


def test_records_that_the_source_could_not_read_are_dead_letters(
    here: InProcess, make_scene: MakeScene, topic: Callable[..., str]
):
    dead = topic(1)
    scene = make_scene(20, options={"deadLetters": dead})
    fill(scene.plan.bootstrap, scene.plan.source, ["no number", '{"a"'], key="k")
    rows = load(
        here.spark.readStream,
        scene.plan.bootstrap,
        subscribe=scene.plan.source,
        startingOffsets="earliest",
        valueFormat="json",
        valueSchema="BIGINT",
        mode="PERMISSIVE",
        columnNameOfCorruptRecord="unread",
    )
    seen: list[int] = []

    def transform(numbers: Any) -> Any:
        assert "unread" not in numbers.schema.names
        seen.append(len(numbers))
        value = pa.StructArray.from_arrays([numbers["value"].combine_chunks()], names=["n"])
        return pa.table({"topic": pa.repeat(scene.plan.left, len(value)), "value": value})

    here.run(scene.plan, rows, transform_arrow=transform)
    values = sorted(read_committed(scene.plan.bootstrap, scene.plan.left))
    assert values == sorted(f'{{"n":{number}}}' for number in range(20))
    letters = read_records(scene.plan.bootstrap, dead)
    assert sorted(letter.value() for letter in letters) == [b"no number", b'{"a"']
    assert {letter.key() for letter in letters} == {b"k"}


def test_without_a_topic_for_them_the_function_gets_records_that_could_not_be_read(
    here: InProcess, make_scene: MakeScene
):
    scene = make_scene(3)
    options = {"valueFormat": "json", "valueSchema": "BOOLEAN", "mode": "PERMISSIVE", "startingOffsets": "earliest"}
    rows = load(here.spark.readStream, scene.plan.bootstrap, subscribe=scene.plan.source, **options)

    def transform(table: Any) -> Any:
        unread = table["_corrupt_record"].combine_chunks()
        text = unread.field("value").cast(pa.string())
        for topic, letter in ((scene.plan.left, "L "), (scene.plan.right, "R ")):
            value = pc.binary_join_element_wise(letter, text, "")
            yield pa.table({"topic": pa.repeat(topic, len(text)), "value": value})

    here.run(scene.plan, rows, transform_arrow=transform)
    scene.check.assert_complete()


@pytest.mark.parametrize("options", [{}, {"smallBatchRecords": "0"}], ids=["by the driver", "by tasks"])
def test_whole_tables_are_exact_whatever_happens_to_the_driver(
    here: InProcess, make_scene: MakeScene, options: Mapping[str, str]
):
    scene = make_scene(60, options=dict(options))
    plan = replace(scene.plan, batch_records=20)
    given = {
        **logins.spark(plan.bootstrap), "subscribe": plan.source, "maxOffsetsPerTrigger": "20",
        "limitFirstBatch": "true", "startingOffsets": "committed", "kafka.group.id": plan.pipeline,
    }  # fmt: skip
    rows = read_tables(here.spark, given, columns=["key", "value"])
    assert rows.columns == ["source", "topic", "partition", "topicId", "start", "end"]
    for step in (BatchStep.WRITTEN, BatchStep.COMMITTED):
        with dying_at(step, passes=1):
            here.run_until_failed(plan, rows, transform_arrow=both_sides(plan))
        scene.check.write(20)
    here.run(plan, rows, transform_arrow=both_sides(plan))
    scene.check.assert_complete()


def test_a_function_may_make_nothing(here: InProcess, make_scene: MakeScene):
    scene = make_scene(3)
    here.run(scene.plan, numbers_job.read(here.spark, scene.plan), transform_arrow=lambda _table: None)
    assert scene.check.assert_whole() == 0
    assert sum(scene.check.committed().values()) == 3


def test_two_transforms_are_one_too_many(bootstrap: str):
    with pytest.raises(ConfigError, match="not both"):
        batch_writer(
            pipeline="p", bootstrap_servers=bootstrap, transform=lambda rows, _state: rows, transform_arrow=lambda t: t
        )
