"""The same pipelines as in the fault tests, run by the Spark of this process."""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.faults.conftest import make_scene, scene
from tests.spark.faults.scene import Scene
from tests.spark.sink.inprocess import InProcess

__all__ = ["make_scene", "scene"]


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
