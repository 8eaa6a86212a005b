"""Pipelines of numbers, run by the Spark of this process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.sink.inprocess import InProcess


@pytest.fixture
def here(spark: SparkSession) -> Iterator[InProcess]:
    """Runs pipelines in this process; all have ended after the test."""
    runner = InProcess(spark)
    yield runner
    runner.close()
