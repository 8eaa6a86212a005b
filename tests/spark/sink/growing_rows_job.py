"""A pipeline whose records grow from 100 bytes to 10 MB, in a Spark with little memory for them.

    python -m tests.spark.sink.growing_rows_job BOOTSTRAP SOURCE TARGET HOME COLUMNAR

Copies the source to the target, a batch for each size and two for the smallest. Says what the sink logged.
"""

import logging
import sys
from pathlib import Path

from confluent_kafka import Producer

from fencepost.spark import write_stream
from tests import quick_spark

#: How many records of how many bytes there are in each batch.
BATCHES = ((5_000, 100), (5_000, 100), (3_000, 10_000), (60, 10_000_000))
RECORD_BYTES_MAX = 16 << 20
LIMITS = {
    # For the Arrow batches of two tasks at a time. Spark's bound is 64 MB for each, and its buffers double in size.
    "spark.driver.extraJavaOptions": "-XX:MaxDirectMemorySize=512m",
    # Address space of two workers. With everything loaded, each has used 0.5 GB of it before the first record. The
    # records of the last batch are 0.6 GB.
    "spark.executor.pyspark.memory": "2g",
}


def fill(bootstrap: str, topic: str, first: int, count: int, size: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.max.bytes": RECORD_BYTES_MAX, "compression.type": "lz4"}
    )
    for number in range(first, first + count):
        producer.produce(topic, f"{number}:".encode().ljust(size, b"."))
        producer.poll(0)
    assert producer.flush(60) == 0


def main(bootstrap: str, source: str, target: str, home: str, columnar: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    spark = quick_spark.start("growing", Path(home), log_file=Path(home) / "spark.log", conf=LIMITS)
    rows = (
        spark.readStream.format("fencepost")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("struct(CAST(value AS STRING) AS text) AS value")
    )
    options = {
        "smallBatchRecords": "0",
        "columnar": columnar,
        "kafka.compression.type": "gzip",
        "kafka.max.request.size": str(RECORD_BYTES_MAX),
    }
    place = {"bootstrap_servers": bootstrap, "topic": target, "checkpoint": f"{home}/checkpoint"}
    query, first = None, 0
    for count, size in BATCHES:
        fill(bootstrap, source, first, count, size)
        first += count
        query = query or write_stream(rows, pipeline="growing", options=options, **place)
        query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
