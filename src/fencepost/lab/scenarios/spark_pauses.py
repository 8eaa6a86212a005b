"""Scenario 8 on Spark: a driver and an executor stand still for longer than every timeout, and wake up."""

import time

from fencepost.child import ChildFailed
from fencepost.lab.scenarios.orders import WRITTEN_SOME, Action, executor_of
from fencepost.lab.scenarios.scenario import Needs, scenario
from fencepost.lab.scenarios.spark_failures import TIMEOUT_MS
from fencepost.lab.scenarios.spark_stage import BATCH, JOB_TIMEOUT_S, TIMEOUT, TWO_EXECUTORS, SparkShop
from fencepost.lab.scenarios.stage import Stage
from fencepost.processes import continue_all, stop_all, tree

#: A driver gives up an executor that says nothing for this long.
NETWORK_TIMEOUT_S = 10
#: For the executor: its driver must have the time to give it up first.
LONG_TIMEOUT_S = 20
SILENCE = {
    "spark.network.timeout": f"{NETWORK_TIMEOUT_S}s",
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeoutInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": f"{NETWORK_TIMEOUT_S}s",
}


@scenario(8, Needs.SPARK)
def spark_driver_pauses(stage: Stage) -> None:
    """A Spark driver stands still while a successor does its work, then goes on to commit.

    Its epoch is fenced, so it is refused.
    """
    shop = SparkShop(stage)
    shop.sell(2 * BATCH)
    point = ("COMMITTING", WRITTEN_SOME, "OFFSETS_ADDED")[stage.seed % 3]
    shop.orders.give(point, Action.WAIT)
    stage.tell(f"Protocol {shop.protocol}: the driver is at {point}. SIGSTOP to it, its JVM and its workers.")
    zombie = shop.start(options={TIMEOUT: str(TIMEOUT_MS)})
    shop.wait_for_order(point)
    shop.look()
    zombie.pause()
    shop.orders.withdraw(point)
    if stage.seed % 2:
        stage.tell("A successor takes over while the transaction is open, and processes everything.")
    else:
        stage.tell(f"The timeout ({TIMEOUT_MS} ms) passes, and a successor processes everything.")
        shop.wait_until_settled()
    shop.start(is_endless=True)
    shop.get_over_it()
    stage.tell("SIGCONT: the first driver goes on to commit its batch.")
    zombie.resume()
    fenced = zombie.wait_for("failed", timeout_s=JOB_TIMEOUT_S)["fenced"]
    for line in fenced:
        stage.answer(stage.short(line).strip()[:300])
    stage.check(bool(fenced), "it is refused: another driver has the pipeline", zombie.said())
    shop.look_at_everything()
    stage.tell("It has not disturbed its successor, which does one more batch.")
    shop.sell()
    shop.get_over_it()
    shop.close()


@scenario(8, Needs.SPARK)
def spark_executor_pauses(stage: Stage) -> None:
    """An executor stands still for longer than every timeout, then goes on to write.

    Being away for longer than any timeout loses nothing and repeats nothing.
    """
    shop = SparkShop(stage)
    options = {TIMEOUT: str(1000 * LONG_TIMEOUT_S)}
    shop.go_live(" with two executors", master=TWO_EXECUTORS, conf=SILENCE, options=options)
    shop.orders.give(WRITTEN_SOME, Action.WAIT)
    shop.sell()
    stopped = tree(executor_of(shop.wait_for_order(WRITTEN_SOME)))
    stage.tell("A task has written some of its records. SIGSTOP to its executor and its Python workers.")
    shop.look()
    stop_all(stopped)
    stopped_s = time.monotonic()
    shop.orders.withdraw(WRITTEN_SOME)
    stage.tell("The driver gives it up, and the batch is run again without it.")
    try:
        try:
            shop.wait_until_processed()
        except ChildFailed:
            # Two attempts in a row that exceed the timeout end the query. It has to be started again.
            stage.note("the query stopped, and is started again", said=shop.job.said())
            shop.start(is_endless=True, master=TWO_EXECUTORS, options=options)
        shop.get_over_it()
        time.sleep(max(0.0, stopped_s + LONG_TIMEOUT_S - time.monotonic()))
        stage.tell("SIGCONT, past every timeout: what is left of the executor goes on.")
    finally:
        continue_all(stopped)
    shop.sell()
    shop.get_over_it()
    shop.close()
