"""Pipelines of numbers on the session's broker, run by the Spark of this process."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.conftest import unique
from tests.spark.numbers_job import Plan
from tests.spark.scene import SMALL_RECORD_BATCHES, Scene
from tests.spark.sink.inprocess import InProcess, MakeScene


@pytest.fixture
def make_scene(topic: Callable[..., str], bootstrap: str, tmp_path: Path) -> MakeScene:
    """`make_scene(300, options=…)`: with 300 numbers in its source."""
    checkpoints = itertools.count()

    def make(count: int = 0, **settings: Any) -> Scene:
        checkpoint = str(tmp_path / f"checkpoint-{next(checkpoints)}")
        given = {"bootstrap": bootstrap, "checkpoint": checkpoint, "options": SMALL_RECORD_BATCHES}
        names = {"source": topic(3), "left": topic(3), "right": topic(2), "pipeline": unique("pipeline")}
        made = Scene(Plan(**{**given, **names, **settings}))
        made.check.write(count)
        return made

    return make


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    return make_scene()


@pytest.fixture
def here(spark: SparkSession) -> Iterator[InProcess]:
    """Runs pipelines in this process; all have ended after the test."""
    runner = InProcess(spark)
    yield runner
    runner.close()
