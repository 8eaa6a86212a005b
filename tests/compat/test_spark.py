"""The exactly-once pipeline on Apache Kafka, with its newest transaction protocol and with the one before.

Its driver is killed again and again; in front of the sink is our source, or Spark's own.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.harness import brokers, java
from fencepost.lab.kit.java import JavaMissing
from fencepost.lab.kit.servers import Server
from fencepost.lab.scenarios.scenario import Needs, Scenario
from fencepost.lab.scenarios.spark_failures import kill_drivers
from tests.compat.tools import Tool
from tests.conftest import APACHE_SETTINGS
from tests.scenarios.playing import assert_right


@pytest.fixture(params=["1", "2"], ids=lambda version: f"transaction.version {version}")
def kafka(request: pytest.FixtureRequest) -> Iterator[Server]:
    with brokers.running("kafka", APACHE_SETTINGS) as running:
        if request.param == "1":
            tool = Tool(running.bootstrap)
            tool("features", "downgrade", "--feature", "transaction.version=1")
            assert "transaction.version\t" in tool("features", "describe")
        yield running


def spark_kafka() -> dict[str, Any]:
    """Spark's own source in front of our sink."""
    try:
        jars = sorted(str(path) for path in java.spark_library().glob("*.jar"))
    except JavaMissing as missing:
        pytest.skip(str(missing))
    return {"source_format": "kafka", "conf": {"spark.jars": ",".join(jars)}}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("source", ["fencepost", "kafka"])
def test_a_pipeline_whose_driver_is_killed_again_and_again(kafka: Server, source: str, seed: int) -> None:
    changes = {} if source == "fencepost" else spark_kafka()
    dies = Scenario("dies", 7, "line", "says", lambda stage: kill_drivers(stage, **changes), Needs.SPARK)
    assert_right(dies, cluster=kafka.client_config("java"), seed=seed)
