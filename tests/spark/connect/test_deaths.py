"""kill -9 of the process that runs `foreachBatch`, at each step of a batch: the query fails, and a restart is exact."""

import dataclasses
from collections.abc import Sequence

import pytest

from fencepost.lab.scenarios.orders import ENCODING, ENDTXN_SENT, WRITTEN_SOME, Action
from fencepost.spark import progress
from fencepost.spark.sink.steps import BatchStep
from tests.spark.connect.remote import Runner
from tests.spark.scene import Scene

BATCH_RECORDS = 50
EVERYWHERE = [*(step.name for step in BatchStep), ENDTXN_SENT]
CRITICAL = [BatchStep.WRITING.name, ENDTXN_SENT, BatchStep.COMMITTED.name]


@pytest.mark.parametrize(
    ("points", "small"),
    [
        (CRITICAL, "1000"),
        pytest.param(EVERYWHERE, "1000", marks=pytest.mark.thorough),
        pytest.param(EVERYWHERE, "0", marks=pytest.mark.thorough),
    ],
    ids=["critical", "everywhere, by the driver", "everywhere, by tasks"],
)
def test_every_record_is_in_effect_once(there: Runner, scene: Scene, points: Sequence[str], small: str) -> None:
    options = {**scene.plan.options, "smallBatchRecords": small}
    plan = dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS, options=options)
    scene.check.write(BATCH_RECORDS * (len(points) + 3))
    for point in points:
        there.orders.give(point, Action.KILL, passes=0 if point == BatchStep.FENCED.name else 1)
        failure = there.run_until_failed(plan)
        assert there.orders.taken_by(point) is not None, failure
        scene.check.assert_whole()
    there.run(plan)
    scene.check.assert_complete()


@pytest.mark.thorough
@pytest.mark.parametrize("point", [ENCODING, WRITTEN_SOME])
def test_a_worker_that_is_killed_is_no_failure_of_the_query(there: Runner, scene: Scene, point: str) -> None:
    options = {**scene.plan.options, "smallBatchRecords": "0"}
    plan = dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS, options=options)
    scene.check.write(3 * BATCH_RECORDS)
    there.orders.give(point, Action.KILL)
    query = there.run(plan)
    assert there.orders.taken_by(point) is not None
    sums = progress(query)
    assert sums is not None and sums.aborted == int(point == WRITTEN_SOME)
    scene.check.assert_complete()
