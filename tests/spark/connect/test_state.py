"""State in a session of Spark Connect: fencepost's own, and Spark's own after a death between the two commits."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from fencepost.lab.scenarios.orders import Action
from fencepost.spark import lag, progress
from fencepost.spark.sessions import tells_limits
from fencepost.spark.sink.steps import BatchStep
from fencepost.spark.state import Keyed, StatefulStep, Updated
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.connect.remote import Function, Runner, writer_of
from tests.spark.numbers_job import Plan
from tests.spark.scene import Scene

DIGITS = 10


def add_up(given: Keyed) -> Updated:
    counts = given.old.column("n").fill_null(0).to_numpy() + np.bincount(given.index, minlength=len(given.keys))
    state = pa.table({"n": counts})
    return Updated(state, given.keys.append_column("n", state.column("n")))


def copy_and_count(plan: Plan) -> Function:
    """Every number goes to `left`. How many numbers have ended with each digit goes to `right`."""
    step = StatefulStep("counts", ("digit",), "n long", add_up, "digit string, n long", plan.right)
    writer = writer_of(plan)

    def function(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(df.selectExpr("key", "concat('L ', CAST(value AS STRING)) AS value"), topic=plan.left)
            batch.update(df.selectExpr("right(CAST(value AS STRING), 1) AS digit"), step)

    return function


def test_several_writes_and_a_stateful_step_are_one_transaction(there: Runner, scene: Scene) -> None:
    plan = dataclasses.replace(scene.plan, batch_records=40)
    numbers = numbers_job.read(there.session, plan)
    scene.check.write(100)
    there.orders.give(BatchStep.COMMITTED.name, Action.KILL)
    there.run_until_failed(plan, numbers, function=copy_and_count(plan))
    query = there.run(plan, numbers, function=copy_and_count(plan))

    assert sorted(read_committed(plan.bootstrap, plan.left)) == sorted(f"L {n}" for n in range(100))
    told = [json.loads(value) for value in read_committed(plan.bootstrap, plan.right)]
    assert {each["digit"]: each["n"] for each in sorted(told, key=lambda each: each["n"])} == {
        str(digit): 100 // DIGITS for digit in range(DIGITS)
    }
    assert set(Counter((each["digit"], each["n"]) for each in told).values()) == {1}
    sums = progress(query)
    assert sums is not None and (sums.skipped, sums.dead_letters) == (1, {})
    assert sums.last is not None and sums.last.records[plan.left] > 0
    if tells_limits():
        behind = lag(query)
        assert behind is not None and behind.total_offsets == 0


def test_the_state_of_sparks_own_survives_a_death_between_the_two_commits(there: Runner, scene: Scene) -> None:
    """Otherwise Spark would look for a version of its state that does not exist, or let duplicates pass."""
    plan = dataclasses.replace(scene.plan, batch_records=40)
    unique = numbers_job.read(there.session, plan).dropDuplicates(["value"])
    records = unique.selectExpr(f"'{plan.left}' AS topic", "CAST(value AS STRING) AS value")
    scene.check.write(100)
    there.orders.give(BatchStep.COMMITTED.name, Action.KILL)
    there.run_until_failed(plan, records)
    scene.check.written = 0
    scene.check.write(120)  # a hundred of them once more
    query = there.run(plan, records)
    sums = progress(query)
    assert sums is not None and sums.skipped == 1
    assert sorted(map(int, read_committed(plan.bootstrap, plan.left))) == [*range(120)]
