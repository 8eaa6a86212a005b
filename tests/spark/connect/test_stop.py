"""`query.stop()` during a batch: the transaction is aborted at once, or its commit is finished. The query has no error.

The transaction timeout is so long that a test which waited for it would fail.
"""

import dataclasses
import os

import pytest
from confluent_kafka import IsolationLevel

from fencepost.lab.scenarios.orders import ENDTXN_SENT, WRITTEN_SOME, Action
from fencepost.spark.sink.steps import BatchStep
from tests.conftest import wait_until
from tests.spark.checker import ends_of
from tests.spark.connect.remote import Runner
from tests.spark.numbers_job import Plan
from tests.spark.scene import SMALL_RECORD_BATCHES, MakeScene, Scene

TIMEOUT_S = 30.0
BATCH_RECORDS = 50
PATIENT = {**SMALL_RECORD_BATCHES, "kafka.transaction.timeout.ms": "600000"}
BY_TASKS = {"smallBatchRecords": "0"}


def has_open_transaction(plan: Plan) -> bool:
    return any(
        ends_of(plan.bootstrap, topic, IsolationLevel.READ_COMMITTED)
        != ends_of(plan.bootstrap, topic, IsolationLevel.READ_UNCOMMITTED)
        for topic in (plan.left, plan.right)
    )


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def make(make_scene: MakeScene, **options: str) -> Scene:
    scene = make_scene(options={**PATIENT, **options}, batch_records=BATCH_RECORDS, is_endless=True)
    scene.check.write(2 * BATCH_RECORDS)
    return scene


def finish(there: Runner, scene: Scene) -> None:
    there.run(dataclasses.replace(scene.plan, is_endless=False))
    scene.check.assert_complete()


def test_a_stop_while_tasks_write_aborts_the_transaction_at_once(there: Runner, make_scene: MakeScene) -> None:
    scene = make(make_scene, **BY_TASKS)
    there.orders.give(WRITTEN_SOME, Action.WAIT)
    query = there.start(scene.plan)
    there.wait_for_order(WRITTEN_SOME)
    assert has_open_transaction(scene.plan)
    query.stop()
    assert query.exception() is None
    scene.check.wait_until_settled()
    assert scene.check.assert_whole() == 0
    there.orders.withdraw(WRITTEN_SOME)
    finish(there, scene)


@pytest.mark.thorough
@pytest.mark.parametrize("point", [BatchStep.FENCED, BatchStep.WRITING])
def test_a_stop_before_anything_is_written_ends_the_process(
    there: Runner, make_scene: MakeScene, point: BatchStep
) -> None:
    scene = make(make_scene)
    there.orders.give(point.name, Action.WAIT, passes=int(point is BatchStep.WRITING))  # the second batch is small
    query = there.start(scene.plan)
    process = there.wait_for_order(point.name)
    query.stop()
    assert query.exception() is None
    wait_until(lambda: is_gone(process), "the process of foreachBatch ends", TIMEOUT_S)
    scene.check.wait_until_settled()
    scene.check.assert_whole()
    there.orders.withdraw(point.name)
    finish(there, scene)


@pytest.mark.thorough
@pytest.mark.parametrize("point", [BatchStep.OFFSETS_ADDED.name, BatchStep.COMMITTING.name, ENDTXN_SENT])
def test_a_stop_while_the_batch_commits_lets_it_finish(there: Runner, make_scene: MakeScene, point: str) -> None:
    scene = make(make_scene)
    there.orders.give(point, Action.WAIT)
    query = there.start(scene.plan)
    process = there.wait_for_order(point)
    query.stop()
    assert query.exception() is None
    assert not is_gone(process)
    there.orders.withdraw(point)
    wait_until(lambda: is_gone(process), "the process of foreachBatch ends", TIMEOUT_S)
    assert scene.check.assert_whole() == sum(scene.check.committed().values()) > 0
    finish(there, scene)


@pytest.mark.thorough
def test_a_stop_between_two_batches_ends_the_process(there: Runner, make_scene: MakeScene) -> None:
    scene = make(make_scene)
    query = there.start(scene.plan)
    wait_until(lambda: sum(scene.check.committed().values()) == scene.check.written, "all batches are done", TIMEOUT_S)
    query.stop()
    assert query.exception() is None
    scene.check.write(BATCH_RECORDS)
    finish(there, scene)
