"""Scenario 7: what dies, is repeated or comes late in a Spark job, in both transaction protocols."""

from fencepost.client.identity import TransactionProtocol
from fencepost.client.raw import Session
from fencepost.lab.scenarios.orders import ENCODING, VARIABLE, WRITTEN_SOME, Action
from fencepost.lab.scenarios.scenario import Needs, Scenario
from fencepost.lab.scenarios.spark_cluster import StandaloneSpark
from fencepost.lab.scenarios.spark_stage import BATCH, JOB_TIMEOUT_S, SparkShop
from fencepost.lab.scenarios.stage import Stage
from fencepost.lab.scenarios.zombie import REFUSALS
from fencepost.spark.home import link_spark

TIMEOUT_MS = 10_000
REFUSED = "may not write"
TWO_EXECUTORS = "local-cluster[2,1,1024]"

#: Where a driver is killed, and what that means.
DEATHS = {
    "WRITING": "the first writer has its permit, and is about to write",
    "WRITTEN": "every record is in Kafka, none of them visible",
    "OFFSETS_ADDED": "the offsets are in the transaction as well",
    "COMMITTING": "EndTxn is about to be sent",
    "COMMITTED": "Kafka has acknowledged it, Spark's checkpoint does not know",
}


def workers_die(stage: Stage) -> None:
    for protocol in stage.protocols():
        shop = SparkShop(stage, f"-p{protocol}")
        orders = shop.orders()
        stage.tell(f"Protocol {protocol}: the shop runs on Spark, local[2], and does its first batch.")
        shop.sell()
        job = shop.job(protocol, orders=orders, is_endless=True)
        shop.wait_until_processed(job)
        for point, action, words in (
            (ENCODING, Action.KILL, "A Python worker is killed while it encodes. Spark runs its task again"),
            (ENCODING, Action.FAIL, "A task fails while it encodes. Spark retries it"),
            (WRITTEN_SOME, Action.KILL, "A Python worker is killed after it has written some of its records"),
            (WRITTEN_SOME, Action.FAIL, "A task fails after it has written some of its records"),
        ):
            stage.tell(f"{words}.")
            orders.give(point, action)
            shop.sell()
            shop.wait_for_order(job, orders, point)
            shop.wait_until_processed(job)
            shop.look()
            shop.check_progress()
        job.kill_all()
        stage.tell("Look at everything.")
        shop.look_at_everything()


def driver_dies(stage: Stage) -> None:
    deaths = stage.random.sample(sorted(DEATHS), 3)
    shop = SparkShop(stage)
    shop.sell(BATCH * (len(deaths) + 3))
    protocols = stage.protocols()
    for number, point in enumerate(deaths):
        protocol = protocols[number % len(protocols)]
        stage.tell(f"Protocol {protocol}: the driver is killed at {point}: {DEATHS[point]}.")
        orders = shop.orders()
        orders.give(point, Action.WAIT, passes=1)
        job = shop.job(protocol, orders=orders)
        shop.wait_for_order(job, orders, point)
        shop.look()
        job.kill_all()
        stage.show_readers(shop.books.invoices)
    stage.tell("The next driver runs to the end.")
    shop.finish(shop.job(protocols[-1]))
    shop.look_at_everything()


def checkpoint_lost(stage: Stage) -> None:
    shop = SparkShop(stage)
    protocol = stage.protocols()[-1]
    shop.sell(3 * BATCH)
    orders = shop.orders()
    orders.give("COMMITTED", Action.WAIT, passes=1)
    stage.tell("The driver is killed after its second commit; Spark's checkpoint does not know of it.")
    job = shop.job(protocol, orders=orders)
    shop.wait_for_order(job, orders, "COMMITTED")
    job.kill_all()
    stage.show_offsets(shop.pipeline, shop.books.inputs(stage), stable=True)
    stage.tell("The checkpoint is deleted: all of it. The job starts anew, as another query.")
    shop.delete_checkpoint()
    shop.finish(shop.job(protocol))
    shop.look_at_everything()


def straggler(stage: Stage) -> None:
    for protocol in stage.protocols():
        shop = SparkShop(stage, f"-p{protocol}")
        shop.sell()
        orders = shop.orders()
        orders.give(WRITTEN_SOME, Action.WAIT)
        stage.tell(f"Protocol {protocol}: a task has written some of its records, and stands still.")
        job = shop.job(
            protocol, orders=orders, is_endless=True, options={"kafka.transaction.timeout.ms": str(TIMEOUT_MS)}
        )
        worker = shop.wait_for_order(job, orders, WRITTEN_SOME)
        owner = stage.view.owner(shop.transactional_id)
        stage.note(f"it is process {worker}")
        shop.look()
        stage.tell(f"The transaction's timeout ({TIMEOUT_MS} ms) passes: the coordinator aborts it.")
        stage.eventually(lambda: _state(stage, shop) == "CompleteAbort", "the timeout aborts it")  # noqa: B023
        shop.look()
        stage.tell("The straggler goes on, and writes what it had left: too late. The batch is run again.")
        orders.withdraw(WRITTEN_SOME)
        shop.wait_until_processed(job)
        shop.look()
        if owner is not None:
            stage.tell("The same late writes once more, by hand, so that their answers are seen.")
            _write_late(stage, shop, protocol, Session(owner.producer_id, owner.epoch, shop.transactional_id))
        shop.sell()
        shop.wait_until_processed(job)
        job.kill_all()
        shop.look_at_everything()


def executor_dies(stage: Stage) -> None:
    shop = SparkShop(stage)
    protocol = stage.protocols()[stage.seed % len(stage.protocols())]
    orders = shop.orders()
    stage.tell(f"Protocol {protocol}: the shop runs on Spark with two executors, processes of their own.")
    shop.sell()
    job = shop.job(protocol, orders=orders, is_endless=True, master=TWO_EXECUTORS)
    shop.wait_until_processed(job)
    for point, words in (
        (WRITTEN_SOME, "An executor is killed after one of its tasks has written some records"),
        (ENCODING, "An executor is killed while it encodes; what it had made for other writers goes with it"),
    ):
        stage.tell(f"{words}.")
        orders.give(point, Action.KILL_EXECUTOR)
        shop.sell()
        shop.wait_for_order(job, orders, point)
        shop.wait_until_processed(job)
        shop.look()
        shop.check_progress()
    job.kill_all()
    stage.tell("Look at everything.")
    shop.look_at_everything()


def speculation(stage: Stage) -> None:
    cluster = stage.enter(StandaloneSpark(stage.home / "cluster", link_spark(stage.home / "spark-home")))
    conf = {
        **cluster.conf,
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.speculation.task.duration.threshold": "3s",
    }
    shop = SparkShop(stage)
    protocol = stage.protocols()[stage.seed % len(stage.protocols())]
    orders = shop.orders()
    stage.tell(f"Protocol {protocol}: two Spark workers on two addresses; slow tasks are started a second time.")
    shop.sell()
    conf[f"spark.executorEnv.{VARIABLE}"] = str(orders.directory)  # executors are no children of the driver here
    job = shop.job(protocol, orders=orders, is_endless=True, master=cluster.master, conf=conf)
    shop.wait_until_processed(job)
    stage.tell("A task is slow while it encodes. Spark starts a copy of it beside, which wins.")
    orders.give(ENCODING, Action.WAIT)
    shop.sell()
    stage.note(f"process {shop.wait_for_order(job, orders, ENCODING)} stands still")
    shop.wait_until_processed(job)
    stage.check(orders.taken_by(ENCODING) is not None, "the batch went through while the slow one stood still")
    orders.withdraw(ENCODING)
    shop.look()
    shop.check_progress()
    stage.tell("A task is slow after it has written some. Spark starts a copy of it beside.")
    orders.give(WRITTEN_SOME, Action.WAIT)
    shop.sell()
    stage.note(f"process {shop.wait_for_order(job, orders, WRITTEN_SOME)} stands still")
    refusal = stage.eventually(lambda: shop.find_in_logs(REFUSED), "the copy is refused", JOB_TIMEOUT_S)
    stage.answer(refusal)
    shop.look()
    stage.tell("The copy was refused its permit. The slow one goes on; it alone has written.")
    orders.withdraw(WRITTEN_SOME)
    shop.wait_until_processed(job)
    shop.look()
    shop.check_progress()
    stage.tell("One more batch; then look at everything.")
    shop.sell()
    shop.wait_until_processed(job)
    job.kill_all()
    shop.look_at_everything()


def _state(stage: Stage, shop: SparkShop) -> str:
    owner = stage.view.owner(shop.transactional_id)
    return owner.state if owner is not None else ""


def _write_late(stage: Stage, shop: SparkShop, protocol: TransactionProtocol, who: Session) -> None:
    """The same identity from here, so that the answer is seen as well."""
    late = stage.producer(protocol)
    late.who = who
    for where in shop.books.outputs(stage):
        code = late.produce(where, [b'{"by":"straggler"}'], sequence=10_000).error
        stage.answer(f"Produce {stage.short(where)} as {who}: {code.name}")
        stage.check(code in REFUSALS, "the late write is refused", code.name)


SCENARIOS = [
    Scenario(
        "spark-workers-die",
        7,
        "Python workers of a Spark job are killed and tasks fail, before and after they wrote",
        "A batch is one transaction: a task that may have written is not repeated alone, the batch is.",
        workers_die,
        Needs.SPARK,
    ),
    Scenario(
        "spark-driver-dies",
        7,
        "The Spark driver is killed at steps around the commit",
        "The next driver fences, reads what Kafka says is committed, and skips or runs the batch.",
        driver_dies,
        Needs.SPARK,
    ),
    Scenario(
        "spark-checkpoint-lost",
        7,
        "The Spark checkpoint is deleted after a commit that it did not know of",
        "Kafka is the truth: offsets and batch identity are there, inside the transaction.",
        checkpoint_lost,
        Needs.SPARK,
    ),
    Scenario(
        "spark-straggler",
        7,
        "A task stands still until its transaction is over, then writes",
        "Its epoch is of yesterday: the write is refused, and the batch is run again.",
        straggler,
        Needs.SPARK,
    ),
    Scenario(
        "spark-speculation",
        7,
        "Spark starts slow tasks a second time, while they encode and while they write",
        "Two writers with one sequence would be taken for a duplicate, so a second one is refused its permit.",
        speculation,
        Needs.SPARK,
    ),
    Scenario(
        "spark-executor-dies",
        7,
        "Executors of a Spark job are killed while they encode and while they write",
        "Whatever process dies: every purchase takes effect once.",
        executor_dies,
        Needs.SPARK,
    ),
]
