"""A pipeline that is easy to check: numbers from one topic to two others, in small batches."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencepost.spark.sessions import tells_limits
from tests import logins

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


#: A trigger for everything that there is, in batches of the limit. Before Spark 4.2 `availableNow` has one batch.
EVERYTHING = {"availableNow": True} if tells_limits() else {"processingTime": "0 seconds"}


def end_when_done(query: "StreamingQuery") -> None:
    """For a query with that trigger."""
    if not tells_limits():
        query.processAllAvailable()
        query.stop()


@dataclass(frozen=True)
class Plan:
    """`left` gets "L n" and `right` "R n" for every number n of `source`."""

    bootstrap: str
    pipeline: str
    source: str
    left: str
    right: str
    checkpoint: str
    batch_records: int = 200
    options: dict[str, str] = field(default_factory=dict)
    is_endless: bool = False


def read(spark: "SparkSession", plan: Plan) -> "DataFrame":
    return (
        spark.readStream.format("fencepost")
        .options(**logins.spark(plan.bootstrap))
        .option("subscribe", plan.source)
        .option("maxOffsetsPerTrigger", plan.batch_records)
        .option("limitFirstBatch", "true")
        .option("startingOffsets", "committed")
        .option("kafka.group.id", plan.pipeline)
        .load()
    )


def transform(numbers: "DataFrame", plan: Plan) -> "DataFrame":
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
        trigger={"processingTime": "100 milliseconds"} if plan.is_endless else EVERYTHING,
        options={**logins.sink(plan.bootstrap), **plan.options},
    )
