"""Dead letters with Spark Connect: inputs = outputs + dead letters, whichever process of the server is killed."""

import dataclasses

import pytest
from pyspark.sql import DataFrame

from fencepost.lab.scenarios.orders import ENCODING, ENDTXN_SENT, WRITTEN_SOME, Action
from fencepost.spark import progress
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.spark import numbers_job
from tests.spark.bad_rows import REASONS, bad_rows, check, headers_of
from tests.spark.connect.remote import Runner
from tests.spark.numbers_job import Plan
from tests.spark.scene import MakeScene

TIMEOUT_S = 120
BATCH_RECORDS = 20
#: Of `foreachBatch`'s process. The query fails, and is started again.
POINTS = [BatchStep.WRITTEN.name, ENDTXN_SENT, BatchStep.COMMITTED.name]


def rows(there: Runner, plan: Plan) -> DataFrame:
    return bad_rows(numbers_job.read(there.session, plan), plan.left)


@pytest.mark.parametrize(
    "small", ["0", pytest.param("1000", marks=pytest.mark.thorough)], ids=["by tasks", "by the driver"]
)
def test_each_row_is_written_once_or_is_a_dead_letter_whatever_is_killed(
    there: Runner, make_bad_scene: MakeScene, small: str
) -> None:
    scene = make_bad_scene(BATCH_RECORDS * (len(POINTS) + 3), smallBatchRecords=small)
    plan = dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS)
    for point in POINTS:
        there.orders.give(point, Action.KILL, passes=1)
        failure = there.run_until_failed(plan, rows(there, plan))
        assert there.orders.taken_by(point) is not None, failure
    there.run(plan, rows(there, plan))
    for point in (ENCODING, WRITTEN_SOME) if small == "0" else ():
        scene.check.write(BATCH_RECORDS)
        there.orders.give(point, Action.KILL)
        there.run(plan, rows(there, plan))
        assert there.orders.taken_by(point) is not None
    scene.check.write(BATCH_RECORDS)
    query = there.run(plan, rows(there, plan))
    letters = check(plan, scene.check.written)
    assert {headers_of(letter)["fencepost.pipeline"] for letter in letters} == {plan.pipeline}
    done = progress(query)
    assert done is not None
    assert sum(done.as_dict()["deadLetters"].values()) == BATCH_RECORDS // 10 * len(REASONS)
    assert done.records == BATCH_RECORDS // 10 * (10 - len(REASONS))


def test_the_standard_writer_api_has_dead_letters(there: Runner, make_bad_scene: MakeScene) -> None:
    plan = make_bad_scene(40).plan
    writer = rows(there, plan).writeStream.format("fencepost").options(**logins.spark(plan.bootstrap), **plan.options)
    writer = writer.option("pipeline", plan.pipeline).option("checkpointLocation", plan.checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    check(plan, 40)
