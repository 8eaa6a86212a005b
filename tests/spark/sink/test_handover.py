"""Batches that the driver writes while tasks encode them: exact, and run the other way if anything is wrong."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from fencepost.spark.sink import jobs
from fencepost.spark.sink.handover import Handover
from fencepost.spark.sink.steps import BatchStep
from tests.spark import numbers_job
from tests.spark.checker import read_records
from tests.spark.scene import SMALL_RECORD_BATCHES, MakeScene, Scene
from tests.spark.sink.inprocess import ENDTXN_SENT, InProcess, dying_at

BY_TASKS = {**SMALL_RECORD_BATCHES, "smallBatchRecords": "0"}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tasks whose parts came to the driver, in order."""
    seen: list[int] = []
    take = Handover.take

    def noting(self: Handover, identity: Any, task: int, part: Any) -> None:
        seen.append(task)
        take(self, identity, task, part)

    monkeypatch.setattr(Handover, "take", noting)
    return seen


@pytest.mark.parametrize("protocol", ["1", "2"])
def test_all_batches_but_the_first_are_handed_over(
    here: InProcess, make_scene: MakeScene, parts: list[int], protocol: str
) -> None:
    scene = make_scene(600, options={**BY_TASKS, "transactionProtocol": protocol})
    here.run(scene.plan)
    scene.check.assert_complete()
    assert len(parts) >= 2


def test_a_batch_that_may_take_too_long_for_an_open_transaction_is_not(
    here: InProcess, make_scene: MakeScene, parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "TIMEOUT_SHARE", 0)
    scene = make_scene(600, options=BY_TASKS)
    here.run(scene.plan)
    scene.check.assert_complete()
    assert parts == []


def failing(rows: DataFrame, condition: str) -> DataFrame:
    """The same records. A row for which the condition holds fails its task, after a record batch was made."""
    return rows.withColumn("value", sf.expr(f"IF({condition}, raise_error('this row is bad'), value)"))


def test_a_row_that_fails_its_task_fails_the_batch_with_its_own_error_and_nothing_of_it_is_seen(
    here: InProcess, make_scene: MakeScene, parts: list[int]
) -> None:
    scene = make_scene(600, options=BY_TASKS)
    records = numbers_job.transform(numbers_job.read(here.spark, scene.plan), scene.plan)
    said = here.run_until_failed(scene.plan, failing(records, "value LIKE '% 399'"))
    assert "this row is bad" in said
    scene.check.assert_whole()
    here.run(scene.plan)
    scene.check.assert_complete()


@pytest.fixture
def broken_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first job that is finished fails after everything was written."""
    broken: list[str] = []
    finish = Handover.finish

    def once(self: Handover, reports: Any) -> Any:
        written = finish(self, reports)
        if not broken:
            broken.append("broken")
            raise RuntimeError("the driver lost something")
        return written

    monkeypatch.setattr(Handover, "finish", once)
    return broken


def test_a_failed_attempt_is_aborted_and_run_again_the_other_way(
    here: InProcess, make_scene: MakeScene, parts: list[int], broken_once: list[str]
) -> None:
    scene = make_scene(1000, options=BY_TASKS)
    here.run(scene.plan)
    assert broken_once == ["broken"]
    scene.check.assert_complete()
    assert parts


@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", [pytest.param("1", marks=pytest.mark.thorough), "2"])
def test_every_record_is_in_effect_once_whichever_way_the_killed_batch_was_written(
    here: InProcess, scene: Scene, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_deaths` has the way of handing over. Here every second run has the other."""
    options = {**scene.plan.options, **BY_TASKS, "transactionProtocol": protocol}
    plan = dataclasses.replace(scene.plan, batch_records=50, options=options)
    points: list[BatchStep | str] = [BatchStep.WRITTEN, BatchStep.WRITTEN, ENDTXN_SENT, BatchStep.COMMITTED]
    scene.check.write(50 * (len(points) + 3))
    for number, point in enumerate(points):
        monkeypatch.setattr(jobs, "TIMEOUT_SHARE", number % 2)
        with dying_at(point, passes=1):
            assert "the pipeline died" in here.run_until_failed(plan)
        scene.check.assert_whole()
    here.run(plan)
    scene.check.assert_complete()


def test_records_of_one_key_keep_their_order(
    here: InProcess, make_scene: MakeScene, topic: Callable[..., str], parts: list[int]
) -> None:
    scene = make_scene(900, source=topic(1), batch_records=300, options=BY_TASKS)
    rows = numbers_job.read(here.spark, scene.plan).selectExpr(
        f"'{scene.plan.left}' AS topic", "'one' AS key", "CAST(offset AS STRING) AS value"
    )
    here.run(scene.plan, rows)
    assert parts
    scene.check.wait_until_settled()
    offsets = [int(record.value() or b"") for record in read_records(scene.plan.bootstrap, scene.plan.left)]
    assert offsets == sorted(offsets)
    assert len(offsets) == 900
