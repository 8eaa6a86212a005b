"""Scenario 7: what dies, is repeated or comes late in a Spark job. The seed chooses the transaction protocol."""

from dataclasses import dataclass
from typing import Any

from fencepost.client.raw import Session
from fencepost.lab.scenarios.orders import ENCODING, ENDTXN_SENT, VARIABLE, WRITTEN_SOME, Action
from fencepost.lab.scenarios.scenario import Needs, scenario
from fencepost.lab.scenarios.spark_cluster import StandaloneSpark
from fencepost.lab.scenarios.spark_stage import BATCH, JOB_TIMEOUT_S, TIMEOUT, TWO_EXECUTORS, SparkShop
from fencepost.lab.scenarios.stage import Stage
from fencepost.lab.scenarios.zombie import REFUSALS
from fencepost.spark.home import link_spark

TIMEOUT_MS = 10_000
#: Long enough to begin writing.
SHORT_TIMEOUT_MS = 3_000
REFUSED = "may not write"

#: A second copy of any task that takes longer than its companion.
EAGER_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
}
#: A second copy of any task that takes seconds.
PATIENT_SPECULATION = {
    **EAGER_SPECULATION,
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.task.duration.threshold": "3s",
}


@dataclass(frozen=True, slots=True)
class Death:
    """How a driver dies: where, and which processes. It writes batches of up to `small` records without tasks."""

    point: str
    action: Action
    small: int
    means: str


#: A run plays three in a row; seeds 0, 1 and 2 play all. KILL ends Python alone. Its JVM lives a little longer.
DEATHS = [
    Death(WRITTEN_SOME, Action.KILL_GROUP, 0, "a writer has written some of its records"),
    Death("COMMITTING", Action.KILL, 1000, "EndTxn is about to be sent"),
    Death("COMMITTED", Action.KILL_GROUP, 1000, "Kafka has acknowledged it, Spark's checkpoint does not know"),
    Death("WRITING", Action.KILL, 0, "the first writer has its permit, and is about to write"),
    Death(ENDTXN_SENT, Action.KILL_GROUP, 0, "EndTxn has been sent, and nobody has read the answer"),
    Death("OFFSETS_ADDED", Action.KILL_GROUP, 1000, "records and offsets are in the transaction, none of them visible"),
    Death(ENCODING, Action.KILL_GROUP, 0, "a worker encodes; nothing is in Kafka"),
    Death("WRITTEN", Action.KILL_GROUP, 0, "every record is in Kafka, none of them visible"),
    Death("DECIDED", Action.KILL_GROUP, 1000, "the batch is about to be run"),
]
DEATHS_A_RUN = 3


@scenario(7, Needs.SPARK)
def spark_workers_die(stage: Stage) -> None:
    """Python workers of a Spark job are killed and tasks fail, before and after they wrote.

    A batch is one transaction. If a task may have written, the whole batch is repeated, not the task.
    """
    shop = SparkShop(stage)
    shop.go_live(options={TIMEOUT: str(TIMEOUT_MS)})
    shop.suffer(ENCODING, Action.KILL, "A Python worker is killed while it encodes. Spark runs its task again.")
    shop.suffer(ENCODING, Action.FAIL, "A task fails while it encodes. Spark retries it.")
    shop.suffer(WRITTEN_SOME, Action.KILL, "A Python worker is killed after it has written some of its records.")
    shop.suffer(WRITTEN_SOME, Action.FAIL, "A task fails after it has written some of its records.")
    shop.suffer(WRITTEN_SOME, Action.WAIT, "A task stands still for ever, after it has written some of its records.")
    shop.close()


@scenario(7, Needs.SPARK)
def spark_driver_dies(stage: Stage) -> None:
    """The Spark driver is killed at three of nine points of a batch, and its checkpoint is lost once.

    The next driver fences, reads what Kafka says is committed, and skips or runs the batch.
    """
    kill_drivers(stage)


def kill_drivers(stage: Stage, **changes: Any) -> None:
    """`changes` override fields of the plan of each job."""
    first = stage.seed * DEATHS_A_RUN % len(DEATHS)
    shop = SparkShop(stage)
    shop.sell(BATCH * (DEATHS_A_RUN + 2))
    for number, death in enumerate(DEATHS[first : first + DEATHS_A_RUN]):
        shop.protocol = stage.protocol(number)
        stage.tell(f"Protocol {shop.protocol}: the driver is killed at {death.point}: {death.means}.")
        options = {"smallBatchRecords": str(death.small)}
        if death.point in (ENCODING, WRITTEN_SOME):
            shop.orders.give(death.point, Action.WAIT)
            shop.start(options=options, **changes)
            shop.wait_for_order(death.point)
            shop.job.kill_all()
        else:
            shop.die(death.point, death.action, options=options, **changes)
        shop.look()
        stage.show_readers(shop.books.invoices)
        shop.check_whole()
        if number % 2 and changes.get("source_format", "fencepost") == "fencepost":
            stage.tell("The checkpoint is deleted.")
            shop.delete_checkpoint()
    stage.tell("The next driver runs to the end.")
    shop.finish(**changes)


@scenario(7, Needs.SPARK)
def spark_checkpoint_lost(stage: Stage) -> None:
    """The Spark checkpoint is deleted after a commit that it did not know of.

    Kafka is the truth: offsets and batch identity are there, inside the transaction.
    """
    shop = SparkShop(stage)
    shop.sell(3 * BATCH)
    stage.tell("The driver is killed after its second commit. Spark's checkpoint does not know of it.")
    shop.die("COMMITTED", Action.KILL_GROUP)
    stage.show_offsets(shop.pipeline, shop.books.inputs(stage), stable=True)
    shop.check_whole()
    stage.tell("The whole checkpoint is deleted. The job starts as a new query.")
    shop.delete_checkpoint()
    shop.finish()


@scenario(7, Needs.SPARK)
def spark_straggler(stage: Stage) -> None:
    """A task stands still until its transaction is over, then writes.

    Its epoch is over. The write is refused, and the batch is run again.
    """
    shop = SparkShop(stage)
    shop.sell()
    shop.orders.give(WRITTEN_SOME, Action.WAIT)
    stage.tell(f"Protocol {shop.protocol}: a task has written some of its records, and stands still.")
    shop.start(is_endless=True, options={TIMEOUT: str(TIMEOUT_MS)})
    worker = shop.wait_for_order(WRITTEN_SOME)
    owner = stage.view.owner(shop.transactional_id)
    stage.note(f"it is process {worker}")
    shop.look()
    stage.tell(f"The transaction's timeout ({TIMEOUT_MS} ms) passes. The coordinator aborts it.")
    shop.wait_until_settled()
    shop.look()
    stage.tell("The straggler goes on, and writes what it had left: too late. The batch is run again.")
    shop.orders.withdraw(WRITTEN_SOME)
    shop.wait_until_processed()
    shop.look()
    if owner is not None:
        stage.tell("The same late writes once more, by hand, so that their answers are seen.")
        late = stage.producer(shop.protocol)
        late.who = Session(owner.producer_id, owner.epoch, shop.transactional_id)
        for where in shop.books.outputs(stage):
            code = late.produce(where, [b'{"by":"straggler"}'], sequence=10_000).error
            stage.expect(f"Produce {stage.short(where)} as {late.who}", code, "the late write is refused", REFUSALS)
    shop.sell()
    shop.wait_until_processed()
    shop.close()


@scenario(7, Needs.SPARK)
def spark_executor_dies(stage: Stage) -> None:
    """Executors of a Spark job are killed while they encode and while they write.

    Every purchase takes effect once, whichever process dies.
    """
    shop = SparkShop(stage)
    shop.go_live(" with two executors, processes of their own", master=TWO_EXECUTORS, conf=EAGER_SPECULATION)
    shop.suffer(WRITTEN_SOME, Action.KILL_EXECUTOR, "An executor is killed after a task has written some records.")
    shop.suffer(
        ENCODING, Action.KILL_EXECUTOR, "An executor is killed while it encodes, with what it made for other writers."
    )
    shop.close()


@scenario(7, Needs.SPARK | Needs.OWN_BROKER)
def spark_broker_dies(stage: Stage) -> None:
    """The broker is killed under a running Spark job: in a batch, before its commit, and between two.

    The job waits for the broker, finishes or repeats the batch, and goes on.
    """
    shop = SparkShop(stage)
    shop.go_live()
    for point, words in (
        (WRITTEN_SOME, "after a task has written some of its records"),
        ("COMMITTING", "when EndTxn is about to be sent"),
    ):
        stage.tell(f"The broker is killed {words}, and started again.")
        shop.orders.give(point, Action.WAIT)
        shop.sell()
        shop.wait_for_order(point)
        stage.kill_broker()
        stage.start_broker()
        shop.orders.withdraw(point)
        shop.get_over_it()
    stage.tell("The broker is killed between two batches, and started again.")
    stage.kill_broker()
    stage.start_broker()
    shop.sell()
    shop.get_over_it()
    shop.close()


@scenario(7, Needs.SPARK)
def spark_too_slow(stage: Stage) -> None:
    """A batch takes longer than its transaction may, and may not be tried again.

    Nobody else has the id, so the error names the setting to change. Nothing of the batch takes effect.
    """
    shop = SparkShop(stage)
    shop.sell()
    shop.orders.give(WRITTEN_SOME, Action.WAIT)
    setting = f"transaction.timeout.ms={SHORT_TIMEOUT_MS}"
    stage.tell(f"Protocol {shop.protocol}: a writer stands still for longer than {setting}.")
    job = shop.start(options={TIMEOUT: str(SHORT_TIMEOUT_MS), "maxAttempts": "1"})
    said = job.wait_for("failed", timeout_s=JOB_TIMEOUT_S)["error"]
    stage.check(setting in said, "the query fails, and names the setting", said)
    job.kill_all()
    # Only the log shows this: the driver has noted the failure in its ledger, in one more transaction.
    states = stage.show_log(shop.transactional_id)
    stage.check("CompleteAbort" in states, "the transaction was aborted", states)
    shop.check_whole()
    stage.check(not stage.read(shop.books.invoices), "nothing of the batch has taken effect")
    stage.tell("The next driver has the time that it needs.")
    shop.finish()


@scenario(7, Needs.SPARK)
def spark_speculation(stage: Stage) -> None:
    """Spark starts slow tasks a second time, while they encode and while they write.

    Kafka would take the records of a second writer for retries and drop them, so a second writer gets no permit.
    """
    cluster = stage.enter(StandaloneSpark(stage.home / "cluster", link_spark(stage.home / "spark-home")))
    shop = SparkShop(stage)
    # Executors are not children of the driver here, so they do not inherit its environment.
    orders = {f"spark.executorEnv.{VARIABLE}": str(shop.orders.directory)}
    conf = {**cluster.conf, **PATIENT_SPECULATION, **orders}
    shop.go_live(", on two workers at two addresses, with speculation", master=cluster.master, conf=conf)
    stage.tell("A task is slow while it encodes. Spark starts a copy of it, which wins.")
    shop.orders.give(ENCODING, Action.WAIT)
    shop.sell()
    stage.note(f"process {shop.wait_for_order(ENCODING)} stands still")
    shop.get_over_it()
    stage.check(shop.orders.taken_by(ENCODING) is not None, "the batch went through while the slow one stood still")
    shop.orders.withdraw(ENCODING)
    stage.tell("A task is slow after it has written some records. Spark starts a copy of it.")
    shop.orders.give(WRITTEN_SOME, Action.WAIT)
    shop.sell()
    stage.note(f"process {shop.wait_for_order(WRITTEN_SOME)} stands still")
    refusal = stage.eventually(lambda: shop.find_in_logs(REFUSED), "the copy is refused", JOB_TIMEOUT_S)
    stage.answer(refusal)
    shop.look()
    stage.tell("The copy got no permit. The slow one goes on. It alone has written.")
    shop.orders.withdraw(WRITTEN_SOME)
    shop.get_over_it()
    stage.tell("One more batch.")
    shop.sell()
    shop.wait_until_processed()
    shop.close()
