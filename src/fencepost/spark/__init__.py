"""Exactly-once Kafka for Spark Structured Streaming: a source, and a sink with one transaction per micro-batch.

    from fencepost.spark import write_stream

    purchases = (spark.readStream.format("fencepost")
                 .option("kafka.bootstrap.servers", "localhost:9092")
                 .option("subscribe", "purchases")
                 .option("startingOffsets", "committed").option("kafka.group.id", "shop")
                 .load())
    query = write_stream(to_invoices(purchases), pipeline="shop", bootstrap_servers="localhost:9092", checkpoint="ckpt")

Everything here needs the extra `spark`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from fencepost.spark.sink.pipeline import Pipeline, Transform
    from fencepost.spark.sink.plain import WriteSummary
    from fencepost.spark.sink.progress import SinkProgress, TransactionProgress

__all__ = ["batch_writer", "progress", "register", "subscribe", "write", "write_stream"]


def register(spark: "SparkSession") -> None:
    """Make `format("fencepost")` known to a session. Needed only where Spark does not find it on its own."""
    from pyspark_fencepost import DefaultSource

    spark.dataSource.register(DefaultSource)


def write_stream(
    df: "DataFrame",
    *,
    pipeline: str,
    bootstrap_servers: str,
    checkpoint: str,
    topic: str | None = None,
    transform: "Transform | None" = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    options: Mapping[str, object] | None = None,
) -> "StreamingQuery":
    """Start a query that writes a streaming DataFrame, each micro-batch in one transaction with its input offsets.

    `df` has the columns of Spark's Kafka sink: `value`, and optionally `key`, `topic`, `headers`, `partition` and
    `timestamp`. `pipeline` is its consumer group, and by it a restarted or moved query knows what has been done:
    two pipelines never share a name. `transform` makes those columns from a batch's rows, where that needs state
    (`fencepost.spark.state`). `trigger` are the arguments of DataStreamWriter.trigger.
    """
    function = batch_writer(
        pipeline=pipeline, bootstrap_servers=bootstrap_servers, topic=topic, transform=transform, options=options
    )
    if transform is None:
        df = function.prepare(df)
    function.fence()
    writer = df.writeStream.foreachBatch(function).option("checkpointLocation", checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    if query_name:
        writer = writer.queryName(query_name)
    return writer.start()


def batch_writer(
    *,
    pipeline: str,
    bootstrap_servers: str,
    topic: str | None = None,
    transform: "Transform | None" = None,
    options: Mapping[str, object] | None = None,
) -> "Pipeline":
    """The same as a function for `foreachBatch`, for those who build their query themselves."""
    from fencepost.spark.sink.pipeline import Pipeline
    from fencepost.spark.sink.settings import SinkSettings

    return Pipeline(SinkSettings.of(pipeline, bootstrap_servers, topic, options), transform)


def write(
    df: "DataFrame",
    *,
    bootstrap_servers: str,
    topic: str | None = None,
    transactional_id: str | None = None,
    options: Mapping[str, object] | None = None,
) -> "WriteSummary":
    """Write a batch DataFrame in one transaction: all of its rows become visible together, or none ever does."""
    from fencepost.spark.sink.plain import write_plain

    return write_plain(df, bootstrap_servers, topic, transactional_id, options)


def progress(query: "StreamingQuery") -> "SinkProgress | None":
    """What the sink of a query has done in this process; None before its first transaction."""
    from fencepost.spark.sink.progress import of_query

    return of_query(str(query.id))


def subscribe(listener: "Callable[[TransactionProgress], None]") -> Callable[[], None]:
    """Have `listener` called after every transaction of every pipeline in this process. Gives what ends it."""
    from fencepost.spark.sink.progress import subscribe as begin

    return begin(listener)
