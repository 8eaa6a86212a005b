"""The driver that is killed: the shop, or numbers from one topic to two others, in small batches; a program of its own.

It says on its standard output, in JSON, when Spark runs, each step of a batch, and how it ended.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.lab.kit.programs import say
from fencepost.lab.scenarios import orders
from fencepost.lab.scenarios.spark_job import await_end
from fencepost.shop.pipeline import shop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

END_TXN = 26


@dataclass(frozen=True)
class Plan:
    """What to run: the shop's SQL if `is_shop`; else `left` gets "L n" and `right` "R n" for every number n."""

    bootstrap: str
    pipeline: str
    source: str
    left: str
    right: str
    checkpoint: str
    batch_records: int = 200
    master: str = "local[2]"
    conf: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    is_endless: bool = False
    source_format: str = "fencepost"  #: or `kafka`, Spark's own
    is_shop: bool = False

    def json(self) -> str:
        return json.dumps(asdict(self))


def read(spark: "SparkSession", plan: Plan) -> "DataFrame":
    reader = (
        spark.readStream.format(plan.source_format)
        .option("kafka.bootstrap.servers", plan.bootstrap)
        .option("subscribe", plan.source)
        .option("maxOffsetsPerTrigger", plan.batch_records)
    )
    if plan.source_format == "fencepost":
        reader = reader.option("startingOffsets", "committed").option("kafka.group.id", plan.pipeline)
    else:
        reader = reader.option("startingOffsets", "earliest")
    return reader.load()


def transform(numbers: "DataFrame", plan: Plan) -> "DataFrame":
    if plan.is_shop:
        return shop(numbers)
    return numbers.selectExpr(
        f"""inline(array(
            named_struct('topic', '{plan.left}', 'key', key, 'value', concat('L ', CAST(value AS STRING))),
            named_struct('topic', '{plan.right}', 'key', key, 'value', concat('R ', CAST(value AS STRING)))))"""
    )


def start(spark: "SparkSession", plan: Plan) -> "StreamingQuery":
    from fencepost.spark import write_stream

    return write_stream(
        transform(read(spark, plan), plan),
        pipeline=plan.pipeline,
        bootstrap_servers=plan.bootstrap,
        checkpoint=plan.checkpoint,
        trigger={"processingTime": "100 milliseconds"} if plan.is_endless else {"availableNow": True},
        options=plan.options,
    )


def obey() -> None:
    """Look for orders at every step."""
    from fencepost.client.connection import Connection, Pending
    from fencepost.spark.sink import steps

    def hook(step: steps.BatchStep, batch_id: int) -> None:
        say(step.name, batch=batch_id)
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

    plan = Plan(**json.loads(sys.argv[1]))
    obey()
    conf = {
        "spark.python.daemon.module": "fencepost.lab.scenarios.spark_daemon",
        "spark.sql.streaming.pollingDelay": "10",
        **plan.conf,
    }
    spark = session("faults", plan.master, conf, log_file=os.environ.get("SPARK_TEST_LOG"))
    say("spark")
    return await_end(start(spark, plan))


if __name__ == "__main__":
    sys.exit(main())
