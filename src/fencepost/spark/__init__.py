"""Exactly-once Kafka for Spark Structured Streaming: a source, and a sink with one transaction per micro-batch.

    from fencepost.spark import write_stream

    purchases = (spark.readStream.format("fencepost")
                 .option("kafka.bootstrap.servers", "localhost:9092")
                 .option("subscribe", "purchases")
                 .option("pipeline", "shop")
                 .load())
    query = write_stream(to_invoices(purchases), checkpoint="checkpoint")

Everything here needs the extra `spark`. Import it before you make the session: then Spark runs this Python and finds
the source, also in an environment that is not activated (`environment`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.spark import environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from fencepost.spark.sink.arrow_transform import TransformArrow
    from fencepost.spark.sink.pipeline import Pipeline
    from fencepost.spark.sink.plain import WriteSummary
    from fencepost.spark.sink.progress import SinkProgress, TransactionProgress
    from fencepost.spark.sink.queries import Noted
    from fencepost.spark.sink.record_maker import Transform
    from fencepost.spark.source.lag import Lag

__all__ = ["batch_writer", "lag", "progress", "read_tables", "register", "subscribe", "write", "write_stream"]

environment.prepare()


def register(spark: "SparkSession") -> None:
    """Register `format("fencepost")` with a session that was made before `fencepost.spark` was imported.

    Not needed if the Python that Spark starts has fencepost installed.
    """
    from pyspark_fencepost import DefaultSource

    environment.adopt(spark)
    spark.dataSource.register(DefaultSource)


def read_tables(
    spark: "SparkSession", options: Mapping[str, object], columns: Sequence[str] | None = None
) -> "DataFrame":
    """A stream for `write_stream(…, transform_arrow=…)` only: its rows name ranges, which that function gets as tables.

    `options` are those of the source. The tables have the columns that a DataFrame of the source would have, or those
    of `columns`. Records are not turned into rows of Spark's, which is quicker. Spark's metrics count ranges.
    """
    from fencepost.spark.options import Options
    from fencepost.spark.source import tables
    from fencepost.spark.source.data_source import reading_options
    from fencepost.spark.source.read_options import ReadKind

    given = {name: str(value) for name, value in options.items()}
    environment.adopt(spark)
    schema = spark.readStream.format("fencepost").options(**given).load().schema
    if columns is not None:
        schema = type(schema)([schema[name] for name in columns])
    token = tables.register(reading_options(Options(given), ReadKind.STREAM, schema))
    return spark.readStream.format("fencepost").options(**given).option(tables.TABLES, token).load()


def write_stream(
    df: "DataFrame",
    *,
    pipeline: str | None = None,
    bootstrap_servers: str | None = None,
    checkpoint: str,
    topic: str | None = None,
    transform: "Transform | None" = None,
    transform_arrow: "TransformArrow | None" = None,
    trigger: Mapping[str, Any] | None = None,
    output_mode: str = "append",
    query_name: str | None = None,
    options: Mapping[str, object] | None = None,
) -> "StreamingQuery":
    """Start a query that writes a streaming DataFrame, each micro-batch in one transaction with its input offsets.

    `df` has the columns of Spark's Kafka sink: `value`, and optionally `key`, `topic`, `headers`, `partition` and
    `timestamp`. `pipeline` is the consumer group and identifies the work of a restarted or moved query: two pipelines
    must not share a name. `pipeline` and `bootstrap_servers` default to those of the query's `fencepost` source, and
    with the latter come its options for TLS and SASL. A source of another pipeline is refused. `transform` makes the
    columns from a batch's rows, if that needs state (`fencepost.spark.state`). `transform_arrow` makes them in the
    executors, from a pyarrow Table with a part of the batch to one or several Tables. `trigger` are the arguments of
    DataStreamWriter.trigger, and `output_mode` is that of DataStreamWriter.outputMode: append, update or complete.
    """
    from fencepost.spark.sessions import is_connect
    from fencepost.spark.sink.active import refuse_running
    from fencepost.spark.sink.inherited import choose, choose_security, sources_of
    from fencepost.spark.sink.queries import note

    session = df.sparkSession
    environment.adopt(session)
    sources = sources_of(df)
    name, servers = choose(pipeline, bootstrap_servers, sources, sees_views=not is_connect(session))
    if bootstrap_servers is None:
        options = {**choose_security(servers, sources), **(options or {})}
    function = _pipeline(name, servers, topic, transform, transform_arrow, options, note(df, checkpoint, sources))
    if transform is None:
        df = function.prepare(df)
    writer = df.writeStream.foreachBatch(function).option("checkpointLocation", checkpoint).outputMode(output_mode)
    if trigger:
        writer = writer.trigger(**trigger)
    if query_name:
        writer = writer.queryName(query_name)
    refuse_running(session, function.settings, checkpoint, query_name)
    function.fence(session)
    with environment.explained():
        return environment.patiently(writer.start, lambda: environment.lacks_connect(session))


def batch_writer(
    *,
    pipeline: str,
    bootstrap_servers: str,
    topic: str | None = None,
    transform: "Transform | None" = None,
    transform_arrow: "TransformArrow | None" = None,
    options: Mapping[str, object] | None = None,
    checkpoint: str | None = None,
) -> "Pipeline":
    """The same as a function for `foreachBatch`, for a query that you build yourself.

    With Spark Connect it needs the query's `checkpoint`, which Spark does not tell there.
    """
    from fencepost.spark.sessions import active_session
    from fencepost.spark.sink.queries import Noted

    environment.adopt(active_session())
    return _pipeline(pipeline, bootstrap_servers, topic, transform, transform_arrow, options, Noted(checkpoint))


def _pipeline(
    name: str,
    servers: str,
    topic: str | None,
    transform: "Transform | None",
    transform_arrow: "TransformArrow | None",
    options: Mapping[str, object] | None,
    noted: "Noted",
) -> "Pipeline":
    from fencepost.spark.sink.pipeline import Pipeline
    from fencepost.spark.sink.settings import SinkSettings

    return Pipeline(SinkSettings.of(name, servers, topic, options), transform, noted, transform_arrow)


def write(
    df: "DataFrame",
    *,
    bootstrap_servers: str,
    topic: str | None = None,
    transactional_id: str | None = None,
    options: Mapping[str, object] | None = None,
) -> "WriteSummary":
    """Write a batch DataFrame in one transaction: all of its rows become visible together, or none ever does.

    Give a job that runs repeatedly a `transactional_id`. Each run then aborts at once what an earlier run left open,
    and fences that run if it is still writing. Never give one id to two jobs.
    """
    from fencepost.spark.sink.plain import write_plain

    environment.adopt(df.sparkSession)
    return write_plain(df, bootstrap_servers, topic, transactional_id, options)


def progress(query: "StreamingQuery") -> "SinkProgress | None":
    """What the sink of a query has done since it started; None before its first transaction.

    With Spark Connect `recent` has the last transaction only.
    """
    from fencepost.spark.sink.progress import of_query, of_remote_query

    found = of_query(str(query.id))
    session = getattr(query, "_session", None)  # a query of Spark Connect has one
    return found if found is not None or session is None else of_remote_query(session, str(query.id))


def lag(query: "StreamingQuery") -> "Lag | None":
    """How far the query's `fencepost` sources are behind, as of its last progress; None before the first."""
    from fencepost.spark.source.lag import of_query

    return of_query(query)


def subscribe(listener: "Callable[[TransactionProgress], None]") -> Callable[[], None]:
    """Call `listener` after every transaction of every pipeline in this process. Returns a function that ends this.

    The pipelines of Spark Connect run in processes of the server: a listener of this process is not called for them.
    """
    from fencepost.spark.sink.progress import subscribe as begin

    return begin(listener)
