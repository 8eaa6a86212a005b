"""The exactly-once pipeline on Apache Kafka, with its newest transaction protocol and with the one before.

driver: killed while it writes · killed with a commit sent and not answered · killed before Spark's checkpoint
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness import brokers, java
from fencepost.lab.kit.java import JavaMissing
from fencepost.lab.kit.servers import Server
from fencepost.lab.scenarios import orders
from fencepost.lab.scenarios.orders import Action, Orders
from fencepost.spark.sink.steps import BatchStep
from tests.compat.tools import Tool
from tests.conftest import APACHE_SETTINGS, unique
from tests.spark.faults.driver import Plan
from tests.spark.faults.scene import SMALL_RECORD_BATCHES, Scene
from tests.spark.faults.shop_checker import SHOP, open_shop

BATCH_RECORDS = 150


@pytest.fixture(params=["1", "2"], ids=lambda version: f"transaction.version {version}")
def kafka(request: pytest.FixtureRequest) -> Iterator[Server]:
    with brokers.running("kafka", APACHE_SETTINGS) as running:
        if request.param == "1":
            tool = Tool(running.bootstrap)
            tool("features", "downgrade", "--feature", "transaction.version=1")
            assert "transaction.version\t" in tool("features", "describe")
        yield running


@pytest.fixture
def make_scene(kafka: Server, tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(settings: Mapping[str, Any]) -> Scene:
        open_shop(kafka.bootstrap)
        plan = Plan(
            bootstrap=kafka.bootstrap,
            pipeline=unique("pipeline"),
            checkpoint=str(tmp_path / "checkpoint"),
            batch_records=BATCH_RECORDS,
            options=SMALL_RECORD_BATCHES,
            **SHOP,
            **settings,
        )
        made.append(Scene(plan, tmp_path))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def spark_kafka() -> dict[str, Any]:
    """Spark's own source in front of our sink."""
    try:
        jars = sorted(str(path) for path in java.spark_library().glob("*.jar"))
    except JavaMissing as missing:
        pytest.skip(str(missing))
    return {"source_format": "kafka", "conf": {"spark.jars": ",".join(jars)}}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["fencepost", "kafka"])
def test_a_pipeline_whose_driver_is_killed_again_and_again(make_scene: Callable[..., Scene], source: str) -> None:
    scene = make_scene({} if source == "fencepost" else spark_kafka())
    scene.check.write(BATCH_RECORDS * 6)
    for point in (orders.WRITTEN_SOME, orders.ENDTXN_SENT, BatchStep.COMMITTED.name):
        home = scene.new_home()
        if point == orders.WRITTEN_SOME:
            Orders(home / "orders").give(point, Action.WAIT)
            driver = scene.start(home)
            driver.wait_for_order(point)
            driver.kill()
        else:
            Orders(home / "orders").give(point, Action.KILL_GROUP)
            scene.start(home).wait_until_killed()
        scene.check.assert_whole()
    scene.start().wait_until_done()
    scene.check.assert_complete()
