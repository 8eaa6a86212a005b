"""Typed sources and Arrow tables with Spark Connect, whose functions run in Python processes of the server."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame

from fencepost.lab.scenarios.orders import ENDTXN_SENT, Action
from fencepost.spark import read_tables
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.spark.connect.remote import Runner
from tests.spark.numbers_job import Plan
from tests.spark.scene import MakeScene, Scene

BATCH_RECORDS = 30
POINTS = [BatchStep.WRITTEN.name, ENDTXN_SENT, BatchStep.COMMITTED.name]


def source(plan: Plan, **more: str) -> dict[str, str]:
    """Of typed numbers."""
    return {
        **logins.spark(plan.bootstrap),
        "subscribe": plan.source,
        "maxOffsetsPerTrigger": str(plan.batch_records),
        "limitFirstBatch": "true",
        "pipeline": plan.pipeline,
        "valueFormat": "json",
        "valueSchema": "BIGINT",
        **more,
    }


def both_sides(left: str, right: str) -> Any:
    """Tables of numbers to the records of a plan. The server gets a copy: of a function, not of its name."""

    def transform(numbers: pa.Table) -> Iterator[pa.Table]:
        text = pc.cast(numbers["value"], pa.string())
        for topic, letter in ((left, "L "), (right, "R ")):
            value = pc.binary_join_element_wise(letter, text, "")
            yield pa.table({"topic": pa.repeat(topic, len(text)), "key": numbers["key"], "value": value})

    return transform


@pytest.mark.parametrize(
    ("reads_tables", "small"),
    [
        (True, "0"),
        pytest.param(True, "1000", marks=pytest.mark.thorough),
        pytest.param(False, "0", marks=pytest.mark.thorough),
        pytest.param(False, "1000", marks=pytest.mark.thorough),
    ],
    ids=["tables, by tasks", "tables, by the driver", "rows, by tasks", "rows, by the driver"],
)
def test_arrow_tables_are_exact_whatever_is_killed(
    there: Runner, make_scene: MakeScene, reads_tables: bool, small: str
) -> None:
    scene: Scene = make_scene(BATCH_RECORDS * (len(POINTS) + 2), options={"smallBatchRecords": small})
    plan = dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS)
    function = both_sides(plan.left, plan.right)

    def rows() -> DataFrame:
        if reads_tables:
            return read_tables(there.session, source(plan), columns=["key", "value"])
        return there.session.readStream.format("fencepost").options(**source(plan)).load()

    for point in POINTS:
        there.orders.give(point, Action.KILL, passes=1)
        failure = there.run_until_failed(plan, rows(), transform_arrow=function)
        assert there.orders.taken_by(point) is not None, failure
        scene.check.assert_whole()
    there.run(plan, rows(), transform_arrow=function)
    scene.check.assert_complete()
