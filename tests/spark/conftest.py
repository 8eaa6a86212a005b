"""One Spark for all tests of this directory: it takes seconds to start, so it starts once per test process."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from fencepost.client import Cluster
from fencepost.lab.kit.kafka import AUTHORIZER
from fencepost.lab.kit.servers import SHORT_CYCLES
from fencepost.security.names import Protocol
from tests import logins, quick_spark
from tests.conftest import APACHE_SETTINGS

#: What the documentation calls ${env:KAFKA_PASSWORD}. Spark's processes get their environment when it starts.
KAFKA_PASSWORD = "the password of alice"


#: These tests write records with old timestamps, and none waits for retention.
SECURED_SETTINGS = {**SHORT_CYCLES, **AUTHORIZER, "log.retention.ms": "-1"}


@pytest.fixture(scope="session")
def original_settings(security: Protocol | None) -> dict[str, str]:
    return APACHE_SETTINGS if security is None else SECURED_SETTINGS


@pytest.fixture(scope="session", autouse=True)
def quick_start() -> None:
    quick_spark.hasten()
    os.environ["KAFKA_PASSWORD"] = KAFKA_PASSWORD


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    started = quick_spark.start("tests", tmp_path_factory.mktemp("spark"))
    yield started
    started.stop()


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with logins.cluster(bootstrap) as opened:
        yield opened
