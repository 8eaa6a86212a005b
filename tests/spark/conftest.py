"""One Spark for all tests of this directory: it takes seconds to start, so it starts once per test process."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.client import Cluster
from fencepost.spark.session import session
from tests import quick_spark

#: A query that waits for a worker to start on a busy machine takes its time.
TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session", autouse=True)
def quick_start() -> None:
    quick_spark.hasten()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, everything local; what Spark writes goes to a directory of its own."""
    home = tempfile.mkdtemp(prefix="spark-")
    conf = {
        "spark.local.dir": home,
        "spark.sql.warehouse.dir": f"{home}/warehouse",
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "16m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.pollingDelay": "10",
    }
    log = os.environ.get("SPARK_TEST_LOG")
    started = session("tests", "local[2]", conf, log_file=log)
    yield started
    started.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as opened:
        yield opened
