"""kill -9 of the driver in a batch, again and again on one pipeline; `sink/test_deaths.py` has every step there is.

Each start goes on from where the last one died, with its checkpoint or, every second time, without it; does at least
one more batch and dies at the next step. Nothing is torn at any time, and in the end everything is there once.
"""

import pytest

from fencepost.lab.scenarios import orders
from fencepost.lab.scenarios.orders import Action, Orders
from fencepost.spark.sink.steps import BatchStep
from tests.spark.faults.scene import Scene

BATCH_RECORDS = 150

#: Where, what dies (the whole driver at once, or Python alone, while its JVM and workers live a little longer), and up
#: to how many records a batch is written by the driver instead of by tasks.
DEATHS = [
    (orders.WRITTEN_SOME, Action.KILL_GROUP, 0),
    (BatchStep.COMMITTING.name, Action.KILL, 1000),
    (BatchStep.COMMITTED.name, Action.KILL_GROUP, 1000),
]
MORE_DEATHS = [
    (BatchStep.DECIDED.name, Action.KILL_GROUP, 1000),
    (orders.ENCODING, Action.KILL_GROUP, 0),
    (BatchStep.WRITING.name, Action.KILL, 0),
    (BatchStep.WRITING.name, Action.KILL_GROUP, 1000),
    (BatchStep.WRITTEN.name, Action.KILL_GROUP, 0),
    (orders.ENDTXN_SENT, Action.KILL_GROUP, 0),
]


@pytest.mark.timeout(1800)
def test_a_driver_that_is_killed_again_and_again_leaves_every_record_in_effect_once(
    scene: Scene, pytestconfig: pytest.Config
) -> None:
    deaths = DEATHS + (MORE_DEATHS if pytestconfig.getoption("--thorough") else [])
    scene.check.write(BATCH_RECORDS * (len(deaths) + 3))
    for number, (point, action, small) in enumerate(deaths):
        home = scene.new_home()
        how = {"batch_records": BATCH_RECORDS, "options": {**scene.plan.options, "smallBatchRecords": str(small)}}
        if point in (orders.ENCODING, orders.WRITTEN_SOME):
            Orders(home / "orders").give(point, Action.WAIT)
            driver = scene.start(home, **how)
            driver.wait_for_order(point)
            driver.kill()
        else:
            Orders(home / "orders").give(point, action, passes=1)  # in its second batch, so that it has done one
            driver = scene.start(home, **how)
            driver.wait_until_killed()
        scene.check.assert_whole()
        if number % 2:
            scene.delete_checkpoint()
    scene.start().wait_until_done()
    scene.check.assert_complete()
