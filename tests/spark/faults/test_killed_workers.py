"""Workers, executors and the broker are killed under a running pipeline, which has to go on by itself.

One pipeline lives through all of it: each fault is ordered, waited for, and followed by a batch that commits.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel

from fencepost.lab.kit.servers import Ours
from fencepost.lab.scenarios import orders
from fencepost.lab.scenarios.orders import Action, Orders
from fencepost.spark.home import link_spark
from tests.conftest import wait_until
from tests.spark.faults.process import TIMEOUT_S, DriverProcess
from tests.spark.faults.scene import SMALL_RECORD_BATCHES, Scene

ALL_WRITE = {**SMALL_RECORD_BATCHES, "smallBatchRecords": "0"}
RECORDS = 400

#: A second copy of any task that takes longer than its companion.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
}


def wait_until_processed(scene: Scene, driver: DriverProcess) -> None:
    """All that has been written is committed."""

    def is_processed() -> bool:
        assert driver.is_alive, f"the driver has ended:\n{driver.story()}"
        return scene.check.committed() == scene.check.ends(scene.plan.source, IsolationLevel.READ_COMMITTED)

    wait_until(is_processed, "everything is processed", TIMEOUT_S)
    scene.check.assert_complete()


def fault(scene: Scene, driver: DriverProcess, point: str, action: Action) -> None:
    """Something happens while the next numbers are processed; they are processed all the same."""
    Orders(driver.orders).give(point, action)
    scene.check.write(RECORDS)
    driver.wait_for_order(point)
    wait_until_processed(scene, driver)
    Orders(driver.orders).withdraw(point)


@pytest.mark.timeout(1200)
def test_a_pipeline_survives_its_workers(make_scene: Callable[..., Scene]) -> None:
    options = {**ALL_WRITE, "kafka.transaction.timeout.ms": "10000"}
    scene = make_scene(master="local[2,4]", is_endless=True, batch_records=RECORDS, options=options)
    scene.check.write(RECORDS)
    driver = scene.start()
    wait_until_processed(scene, driver)
    fault(scene, driver, orders.ENCODING, Action.KILL)
    fault(scene, driver, orders.ENCODING, Action.FAIL)
    fault(scene, driver, orders.WRITTEN_SOME, Action.KILL)
    fault(scene, driver, orders.WRITTEN_SOME, Action.FAIL)
    fault(scene, driver, orders.WRITTEN_SOME, Action.WAIT)  # for ever; its transaction ends, and so does its job


@pytest.mark.timeout(1200)
def test_a_pipeline_survives_its_broker(make_scene: Callable[..., Scene], start_broker: Callable[..., Ours]) -> None:
    """Killed and started again on the same port: in the middle of a batch, and between batches."""
    broker = start_broker()
    scene = make_scene(broker, is_endless=True, batch_records=RECORDS, options=ALL_WRITE)
    scene.check.write(RECORDS)
    driver = scene.start()
    wait_until_processed(scene, driver)
    for point in (orders.WRITTEN_SOME, "COMMITTING"):
        Orders(driver.orders).give(point, Action.WAIT)
        scene.check.write(RECORDS)
        driver.wait_for_order(point)
        broker.kill()
        broker.start()
        Orders(driver.orders).withdraw(point)
        wait_until_processed(scene, driver)
    broker.kill()
    broker.start()
    scene.check.write(RECORDS)
    wait_until_processed(scene, driver)


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Spark as it is installed, but what its executors write goes elsewhere."""
    return link_spark(tmp_path / "spark-home")


@pytest.mark.timeout(1200)
def test_a_pipeline_survives_its_executors(
    make_scene: Callable[..., Scene], spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are processes of their own here; with one of them go the record batches that it made for other writers."""
    monkeypatch.setenv("SPARK_HOME", str(spark_home))
    scene = make_scene(
        master="local-cluster[2,1,1024]", is_endless=True, batch_records=RECORDS, options=ALL_WRITE, conf=SPECULATION
    )
    scene.check.write(RECORDS)
    driver = scene.start()
    wait_until_processed(scene, driver)
    fault(scene, driver, orders.WRITTEN_SOME, Action.KILL_EXECUTOR)
    fault(scene, driver, orders.ENCODING, Action.KILL_EXECUTOR)
    fault(scene, driver, orders.WRITTEN_SOME, Action.KILL)
