"""Scenario 8 on Spark: a driver and an executor stand still for longer than every timeout, and wake up."""

import time

from fencepost.child import ChildFailed
from fencepost.lab.scenarios.orders import WRITTEN_SOME, Action, executor_of
from fencepost.lab.scenarios.scenario import Needs, Scenario
from fencepost.lab.scenarios.spark_failures import TIMEOUT_MS, TWO_EXECUTORS
from fencepost.lab.scenarios.spark_job import FAILED
from fencepost.lab.scenarios.spark_stage import BATCH, JOB_TIMEOUT_S, SparkShop
from fencepost.lab.scenarios.stage import Stage
from fencepost.processes import continue_all, stop_all, tree

#: An executor that says nothing for so long is given up by its driver.
NETWORK_TIMEOUT_S = 10
OPTIONS = {"kafka.transaction.timeout.ms": str(TIMEOUT_MS)}
#: For the executor, whose driver has to have the time to give it up first.
LONG_TIMEOUT_S = 20


def driver_pauses(stage: Stage) -> None:
    shop = SparkShop(stage)
    shop.sell(2 * BATCH)
    protocol = stage.protocols()[stage.seed % len(stage.protocols())]
    point = stage.random.choice(["WRITTEN", "OFFSETS_ADDED", "COMMITTING"])
    orders = shop.orders()
    orders.give(point, Action.WAIT)
    stage.tell(f"Protocol {protocol}: the driver has come to {point}. SIGSTOP to it, its JVM and its workers.")
    zombie = shop.job(protocol, orders=orders, options=OPTIONS)
    shop.wait_for_order(zombie, orders, point)
    shop.look()
    zombie.pause()
    orders.withdraw(point)
    stage.tell(f"The timeout ({TIMEOUT_MS} ms) passes, and a successor processes everything.")
    outputs = shop.books.outputs(stage)
    stage.eventually(
        lambda: all(found.lso == found.end for found in stage.view.ends(outputs).values()), "the timeout aborts it"
    )
    shop.finish(shop.job(protocol))
    shop.look_at_everything()
    stage.tell("SIGCONT: the first driver goes on to commit its batch.")
    zombie.resume()
    status = zombie.wait(JOB_TIMEOUT_S)
    fenced = zombie.wait_for("failed")["fenced"] if status == FAILED else []
    for line in fenced:
        stage.answer(stage.short(line).strip()[:300])
    stage.check(bool(fenced), "it is refused: another driver has the pipeline", zombie.said())
    shop.look_at_everything()


def executor_pauses(stage: Stage) -> None:
    shop = SparkShop(stage)
    protocol = stage.protocols()[-1]
    orders = shop.orders()
    stage.tell(f"Protocol {protocol}: the shop runs with two executors.")
    shop.sell()
    conf = {
        "spark.network.timeout": f"{NETWORK_TIMEOUT_S}s",
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeoutInterval": "1s",
        "spark.storage.blockManagerHeartbeatTimeoutMs": f"{NETWORK_TIMEOUT_S}s",
    }
    options = {"kafka.transaction.timeout.ms": str(1000 * LONG_TIMEOUT_S)}
    job = shop.job(protocol, orders=orders, is_endless=True, master=TWO_EXECUTORS, conf=conf, options=options)
    shop.wait_until_processed(job)
    orders.give(WRITTEN_SOME, Action.WAIT)
    shop.sell()
    worker = shop.wait_for_order(job, orders, WRITTEN_SOME)
    stopped = tree(executor_of(worker))
    stage.tell("A task has written some of its records. SIGSTOP to its executor and its Python workers.")
    shop.look()
    stop_all(stopped)
    stopped_s = time.monotonic()
    orders.withdraw(WRITTEN_SOME)
    stage.tell("The driver gives it up, and the batch is run again without it.")
    try:
        try:
            shop.wait_until_processed(job)
        except ChildFailed:
            # Two attempts in a row that outlast the timeout end the query: whoever watches over it starts it again.
            stage.note("the query stopped, and is started again", said=job.said())
            job = shop.job(protocol, is_endless=True, master=TWO_EXECUTORS, options=options)
            shop.wait_until_processed(job)
        shop.look()
        shop.check_progress()
        time.sleep(max(0.0, stopped_s + LONG_TIMEOUT_S - time.monotonic()))
        stage.tell("SIGCONT, past every timeout: what is left of the executor goes on.")
    finally:
        continue_all(stopped)
    shop.sell()
    shop.wait_until_processed(job)
    shop.check_progress()
    job.kill_all()
    shop.look_at_everything()


SCENARIOS = [
    Scenario(
        "spark-driver-pauses",
        8,
        "A Spark driver stands still while a successor does its work, then goes on to commit",
        "Anything older than the fence is a zombie, and is refused.",
        driver_pauses,
        Needs.SPARK,
    ),
    Scenario(
        "spark-executor-pauses",
        8,
        "An executor stands still for longer than every timeout, then goes on to write",
        "Being away for longer than any timeout loses nothing and repeats nothing.",
        executor_pauses,
        Needs.SPARK,
    ),
]
