"""Python workers of a Spark job are killed, fail, hang, or run twice. The job goes on by itself."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.lab.scenarios.orders import ENCODING, VARIABLE, WRITTEN_SOME, Action, Orders
from tests.conftest import ROOT
from tests.scenarios.playing import assert_right, thorough
from tests.spark.bad_rows import check
from tests.spark.scene import MakeScene

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quick_python")]


@pytest.mark.parametrize("seed", [1, thorough(0)], ids=["protocol 2", "protocol 1"])
def test_a_pipeline_survives_its_workers(seed: int) -> None:
    assert_right("spark-workers-die", seed=seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1], ids=["protocol 1", "protocol 2"])
def test_a_task_that_writes_after_its_transaction_is_over_is_refused(seed: int) -> None:
    assert_right("spark-straggler", seed=seed)


@pytest.mark.thorough
def test_tasks_that_spark_starts_twice_write_once() -> None:
    assert_right("spark-speculation")


@pytest.mark.thorough
def test_each_row_is_written_once_or_is_a_dead_letter_when_workers_are_killed(
    make_bad_scene: MakeScene, tmp_path: Path
) -> None:
    """`connect/test_dead_letters.py` has the same with Spark Connect."""
    scene = make_bad_scene(100, smallBatchRecords="0")
    plan = dataclasses.replace(scene.plan, batch_records=20)
    orders = Orders(tmp_path / "orders")
    for point in (ENCODING, WRITTEN_SOME):
        orders.give(point, Action.KILL, passes=1)
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.failures.bad_rows_job", json.dumps(dataclasses.asdict(plan)), tmp_path],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, VARIABLE: str(orders.directory)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert orders.taken_by(ENCODING) is not None and orders.taken_by(WRITTEN_SOME) is not None
    check(plan, 100)
