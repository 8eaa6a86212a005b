"""kill -9 of a driver whose query uses Spark's standard writer API, right before and right after Kafka's commit."""

import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, unique
from tests.spark.numbers_job import Plan
from tests.spark.scene import Scene

TIMEOUT_S = 200
#: What `pyspark[connect]` installs.
CONNECT = "connect" if importlib.util.find_spec("grpc_status") else "classic"


def drive(plan: Plan, kind: str, *accident: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    variables = {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.writer_api_job", json.dumps(dataclasses.asdict(plan)), kind, *accident],
        cwd=ROOT,
        env={**{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}, **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.timeout(700)
def test_a_driver_that_is_killed_before_or_after_the_commit_writes_nothing_twice(
    bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    """In a classic session and with Spark Connect, which continue each other's work."""
    names = {"source": topic(3), "left": topic(3), "right": topic(2), "pipeline": unique("pipeline")}
    scene = Scene(Plan(bootstrap=bootstrap, checkpoint=str(tmp_path / "checkpoint"), batch_records=1000, **names))
    scene.check.write(50)
    assert drive(scene.plan, "classic", "kill:COMMITTED:0").returncode == -signal.SIGKILL
    assert scene.check.assert_whole() == 50
    scene.check.write(50)
    assert drive(scene.plan, CONNECT, "kill:COMMITTING:1").returncode == -signal.SIGKILL
    assert scene.check.assert_whole() == 50
    scene.check.write(50)
    ran = drive(scene.plan, "classic")
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "ended, with 200 rows" in ran.stdout
    scene.check.assert_complete()
