"""The shop on Spark, a program that is killed and paused: `python -m fencepost.lab.scenarios.spark_job`.

It is the shop's own pipeline, with topics of this run. It reports in JSON lines when Spark runs, each step of each
batch, and how it ended. It looks for orders (`orders`) at each step.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from fencepost.lab.kit.programs import read_plan, say
from fencepost.lab.scenarios import orders
from fencepost.spark.sessions import tells_limits

FAILED = 3
TOLD_CHARACTERS = 1_000
#: Spark describes the query at length after this line.
QUERY_FOLLOWS = "=== Streaming Query ==="


@dataclass(frozen=True, slots=True)
class Plan:
    kafka: dict[str, str]  #: the settings of a client, by Kafka's names
    pipeline: str
    purchases: str
    checkpoint: str
    suffix: str = ""  #: of every output topic
    batch_records: int = 200
    master: str = "local[2,4]"
    is_endless: bool = False
    source_format: str = "fencepost"  #: or `kafka`, Spark's own
    options: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    log_file: str = ""


def start(spark: Any, plan: Plan) -> Any:
    from pyspark.sql import functions

    from fencepost.shop.sql_over_bytes import shop
    from fencepost.spark import write_stream

    kafka = {f"kafka.{name}": value for name, value in plan.kafka.items()}
    reader = (
        spark.readStream.format(plan.source_format)
        .options(**kafka)
        .option("subscribe", plan.purchases)
        .option("maxOffsetsPerTrigger", plan.batch_records)
    )
    if plan.source_format == "fencepost":
        reader = reader.option("startingOffsets", "committed").option("kafka.group.id", plan.pipeline)
        reader = reader.option("limitFirstBatch", "true")
    else:
        reader = reader.option("startingOffsets", "earliest")
    outputs = shop(reader.load())
    if plan.suffix:
        outputs = outputs.withColumn("topic", functions.concat(functions.col("topic"), functions.lit(plan.suffix)))
    return write_stream(
        outputs,
        pipeline=plan.pipeline,
        bootstrap_servers=plan.kafka["bootstrap.servers"],
        checkpoint=plan.checkpoint,
        trigger={"availableNow": True} if _ends_by_itself(plan) else {"processingTime": "100 milliseconds"},
        options={**kafka, **plan.options},
    )


def obey() -> None:
    """Look for orders at every step, and when EndTxn has been sent."""
    from fencepost.client.connection import Connection, Pending
    from fencepost.client.registration import END_TXN
    from fencepost.spark.sink import steps

    def hook(step: steps.BatchStep, batch_id: int) -> None:
        say("step", step=step.name, batch=batch_id)
        orders.look(step.name)

    receive = Connection.receive

    def receive_and_look(self: Connection, pending: Pending, **more: Any) -> Any:
        if pending.api_key == END_TXN:
            orders.look(orders.ENDTXN_SENT)
        return receive(self, pending, **more)

    steps.hook = hook
    Connection.receive = receive_and_look  # type: ignore[method-assign, assignment]


def main() -> int:
    from fencepost.spark.session import session

    plan = Plan(**read_plan())
    obey()
    conf = {
        "spark.python.daemon.module": "fencepost.lab.scenarios.spark_daemon",
        "spark.sql.streaming.pollingDelay": "10",
        "spark.sql.shuffle.partitions": "2",
        **plan.conf,
    }
    spark = session("scenarios", plan.master, conf, log_file=plan.log_file or None)
    say("spark")
    return await_end(start(spark, plan), plan)


def _ends_by_itself(plan: Plan) -> bool:
    """Before Spark 4.2 `availableNow` cannot have several batches. There it is stopped when everything is done."""
    return not plan.is_endless and tells_limits()


def await_end(query: Any, plan: Plan) -> int:
    """Report how it ended. Returns the exit status."""
    from pyspark.errors import StreamingQueryException

    from fencepost.spark import progress

    try:
        if not plan.is_endless and not tells_limits():
            query.processAllAvailable()
            query.stop()
        query.awaitTermination()
    except StreamingQueryException as error:
        # Reasons are not indented, unlike the stacks of Spark and Python between them.
        reasons = str(error).partition(QUERY_FOLLOWS)[0].splitlines()
        said = [line for line in reasons if line and not line.startswith((" ", "\t"))]
        fenced = [line for line in said if "has been fenced" in line]
        say("failed", error="\n".join(said)[-TOLD_CHARACTERS:], fenced=fenced[-1:])
        return FAILED
    sums = progress(query)
    say("done", progress={} if sums is None else sums.as_dict())
    return 0


if __name__ == "__main__":
    sys.exit(main())
