"""Who takes part in a race. A system more is a line more here, and a job that `bench.clients` can run.

`SHOP` makes invoices, shipments and dead letters of purchases. `TOTALS` keeps running totals by key.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A job of `bench.clients.spark_job`. It ends when it has read what there was."""

    title: str
    system: str  #: whose source and sink: `fencepost`, or `spark` for its own
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsApplication:
    """A program of `bench/java`. It runs until it is ended."""

    title: str
    commit_ms: int


System = SparkJob | StreamsApplication

OURS = "fencepost"
SPARKS = "spark"

SHOP: dict[str, System] = {
    OURS: SparkJob("Spark with fencepost, typed SQL", OURS),
    "fencepost-arrow": SparkJob("Spark with fencepost, Arrow tables", OURS, ("--way", "arrow")),
    "fencepost-bytes": SparkJob("Spark with fencepost, SQL over bytes", OURS, ("--way", "bytes")),
    SPARKS: SparkJob("Spark's own source and sink (at least once)", SPARKS),
    "streams-100": StreamsApplication("Kafka Streams, commits every 100 ms", 100),
    "streams-1000": StreamsApplication("Kafka Streams, commits every 1 s", 1000),
}

TOTALS: dict[str, System] = {
    OURS: SparkJob("a stateful step of fencepost", OURS),
    SPARKS: SparkJob("Spark's aggregation, RocksDB (at least once)", SPARKS, ("--rocksdb",)),
    "spark-default": SparkJob("Spark's aggregation, default store (at least once)", SPARKS),
    "transform": SparkJob("Spark's transformWithState in Python (at least once)", SPARKS, ("--rocksdb", "--by-key")),
    "streams-100": StreamsApplication("Kafka Streams with RocksDB, commits every 100 ms", 100),
    "streams-1000": StreamsApplication("Kafka Streams with RocksDB, commits every 1 s", 1000),
}
