"""A driver that is stopped, as by a hypervisor, and wakes up beside its successor."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from fencepost.lab.scenarios import orders
from fencepost.lab.scenarios.orders import Action, Orders
from tests.spark.faults import driver as program
from tests.spark.faults.scene import SMALL_RECORD_BATCHES, Scene

RECORDS = 400


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("protocol", "point"), [("1", "COMMITTING"), ("2", orders.WRITTEN_SOME)], ids=["committing, 1", "writing, 2"]
)
def test_a_driver_that_wakes_up_beside_its_successor_is_refused(
    make_scene: Callable[..., Scene], spark: SparkSession, protocol: str, point: str
) -> None:
    scene = make_scene(options={**SMALL_RECORD_BATCHES, "transactionProtocol": protocol}, batch_records=RECORDS)
    scene.check.write(RECORDS)
    home = scene.new_home()
    Orders(home / "orders").give(point, Action.WAIT)
    zombie = scene.start(home)
    zombie.wait_for_order(point)
    zombie.pause()
    Orders(zombie.orders).withdraw(point)
    successor = program.start(spark, scene.plan)
    assert successor.awaitTermination(300)
    scene.check.assert_complete()
    zombie.resume()
    said = zombie.wait_until_failed()
    assert "Fenced" in said and scene.plan.pipeline in said, said
    scene.check.assert_complete()
    # What the zombie left behind is in nobody's way.
    scene.check.write(100)
    assert program.start(spark, scene.plan).awaitTermination(300)
    scene.check.assert_complete()


@pytest.mark.timeout(1200)
def test_a_transaction_that_outlasts_its_timeout_while_it_is_written_names_the_setting(
    make_scene: Callable[..., Scene], spark: SparkSession
) -> None:
    """A writer is refused as if somebody else had the id; but nobody has, and the batch is at fault."""
    options = {**SMALL_RECORD_BATCHES, "kafka.transaction.timeout.ms": "1000", "maxAttempts": "1"}
    scene = make_scene(options=options, batch_records=RECORDS)
    scene.check.write(RECORDS)
    home = scene.new_home()
    Orders(home / "orders").give(orders.WRITTEN_SOME, Action.WAIT)
    driver = scene.start(home)
    driver.wait_for_order(orders.WRITTEN_SOME)
    scene.check.wait_until_settled()  # the coordinator has aborted it
    Orders(driver.orders).withdraw(orders.WRITTEN_SOME)
    said = driver.wait_until_failed()
    assert "transaction.timeout.ms=1000" in said
    assert scene.check.assert_whole() == 0
    assert program.start(spark, scene.plan).awaitTermination(300)
    scene.check.assert_complete()
