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
from tests.spark.sink.inprocess import InProcess


@pytest.fixture
def make_scene(topic: Callable[..., str], bootstrap: str, tmp_path: Path) -> Callable[..., Scene]:
    """`make_scene(bootstrap=…, options=…)`."""
    numbers = itertools.count()

    def make(make_topic: Callable[..., str] = topic, **settings: Any) -> Scene:
        home = tmp_path / f"scene-{next(numbers)}"
        home.mkdir()
        given = {"bootstrap": bootstrap, "checkpoint": str(home / "checkpoint"), "options": SMALL_RECORD_BATCHES}
        names = {"source": make_topic(3), "left": make_topic(3), "right": make_topic(2), "pipeline": unique("pipeline")}
        return Scene(Plan(**{**given, **names, **settings}))

    return make


@pytest.fixture
def scene(make_scene: Callable[..., Scene]) -> Scene:
    return make_scene()


@pytest.fixture
def here(spark: SparkSession) -> Iterator[InProcess]:
    """Runs pipelines in this process; all have ended after the test."""
    runner = InProcess(spark)
    yield runner
    runner.close()


@pytest.fixture
def make_small_scene(make_scene: Callable[..., Scene]) -> Callable[..., Scene]:
    """With so many numbers in its source."""

    def make(count: int = 300, **settings: object) -> Scene:
        made = make_scene(**settings)
        made.check.write(count)
        return made

    return make
