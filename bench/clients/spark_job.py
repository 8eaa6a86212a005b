"""One Spark job in a process of its own; the answer is a line of JSON with Spark's own account of its batches.

    python -m bench.clients.spark_job pipeline --system fencepost --config FILE --records 1000000 ...

The jobs are the same for both systems but for the names of source and sink: `fencepost` is ours with a transaction per
batch, `spark` is Spark's own connector, which writes at least once. Spark's connector has to be on its class path, and
is for both where it was fetched for this version of Spark.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness import java, process
from bench.harness.brokers import read_client_file
from fencepost.processes import tree
from fencepost.spark.sessions import tells_limits

#: Of a hundred records each; the second half counts.
SMALL_BATCHES = 200
#: Batches that are not counted: code is compiled and workers are started during them.
WARM_UP = 2


def spark_session(options: argparse.Namespace) -> Any:
    """With our settings for both systems, but for what Spark's own does with Python: that is as Spark has it.

    With `--plain`, as PySpark starts without us.
    """
    from pyspark.sql import SparkSession

    from fencepost.spark.java import java_home
    from fencepost.spark.session import session

    needs_connector = options.system == "spark" or java.connector_missing() is None
    jars = sorted(str(path) for path in java.spark_library().glob("*.jar")) if needs_connector else []
    master = options.master or f"local[{options.cores}]"
    conf: dict[str, Any] = {"spark.jars": ",".join(jars), "spark.driver.memory": "2g"}
    if options.plain:
        os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
        return SparkSession.builder.master(master).config(map=conf).getOrCreate()
    if options.system == "spark":
        conf["spark.python.unix.domain.socket.enabled"] = "false"
    return session("bench", master, conf, log_file=Path(tempfile.mkdtemp(prefix="bench-spark-")) / "log")


def source(spark: Any, options: argparse.Namespace, **more: str) -> Any:
    reader = spark.readStream.format("fencepost" if options.system == "fencepost" else "kafka")
    return reader.options(**source_options(options, **more)).load()


def source_options(options: argparse.Namespace, **more: str) -> dict[str, str]:
    own = {"kafka.isolation.level": "read_committed"} if options.system == "spark" else {"limitFirstBatch": "true"}
    return {**options.config, "subscribe": options.topic, "startingOffsets": "earliest", **own, **more}


def everything(options: argparse.Namespace) -> dict[str, Any]:
    """The trigger for all records in batches of the limit. Before Spark 4.2 `availableNow` of ours has one batch."""
    is_limited = options.system == "spark" or tells_limits()
    return {"availableNow": True} if is_limited else {"processingTime": "0 seconds"}


def wait(query: Any, options: argparse.Namespace) -> None:
    """Until a query with that trigger has processed everything."""
    if "availableNow" not in everything(options):
        query.processAllAvailable()
        query.stop()
    query.awaitTermination()


def pipeline(options: argparse.Namespace) -> dict[str, Any]:
    """purchases → invoices + shipments, in batches; records a second of the batches after the first ones."""
    spark = spark_session(options)
    query = start(*shop(spark, options, maxOffsetsPerTrigger=str(options.batch)), options)
    wait(query, options)
    return {**rate_of(query, options), "worker_peak_bytes": worker_peak_bytes()}


def shop(spark: Any, options: argparse.Namespace, **more: str) -> tuple[Any, Any]:
    """The shop's records in one of the ways to write it, and the function that makes them, if that is not Spark."""
    from fencepost.shop import arrow_tables, sql_over_bytes, typed_sql

    if options.system == "spark" or options.way == "bytes":
        return sql_over_bytes.shop(source(spark, options, includeHeaders="true", **more)), None
    if options.way == "arrow":
        from fencepost.spark import read_tables

        return read_tables(spark, source_options(options, **typed_sql.SOURCE, **more)), arrow_tables.shop
    return typed_sql.shop(source(spark, options, **typed_sql.SOURCE, **more)), None


def worker_peak_bytes() -> int:
    """Of the Python worker that had the most in memory at a time; they outlive the query by a minute."""
    found = [0]
    for pid in tree(os.getpid()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"pyspark.worker" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(process.peak_rss_bytes(pid))
    return max(found)


def rate_of(query: Any, options: argparse.Namespace) -> dict[str, Any]:
    """By Spark's own account of its batches, without the first ones and what is left at the end."""
    batches = [
        {"rows": progress.numInputRows, "ms": progress.durationMs["triggerExecution"]}
        for progress in query.recentProgress
        if progress.numInputRows
    ]
    counted = [batch for batch in batches[WARM_UP:] if batch["rows"] >= options.batch // 2]
    rows, ms = sum(batch["rows"] for batch in counted), sum(batch["ms"] for batch in counted)
    return {"records_per_s": 1000 * rows / ms if ms else 0.0, "batches": batches}


def start(records: Any, transform_arrow: Any, options: argparse.Namespace, **trigger: Any) -> Any:
    from fencepost.spark import write_stream

    checkpoint = tempfile.mkdtemp(prefix="bench-checkpoint-")
    trigger = trigger or everything(options)
    if options.system == "fencepost":
        return write_stream(
            records,
            transform_arrow=transform_arrow,
            pipeline=f"bench-{uuid.uuid4().hex[:8]}",
            options=options.config,
            checkpoint=checkpoint,
            trigger=trigger,
        )
    writer = records.writeStream.format("kafka").options(**options.config)
    return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()


def read(options: argparse.Namespace) -> dict[str, Any]:
    """The whole topic into nothing, several times; the best counts, as the first ones warm up."""
    spark = spark_session(options)
    reader = (
        spark.read.format("fencepost" if options.system == "fencepost" else "kafka")
        .options(**options.config)
        .option("subscribe", options.topic)
    )
    seconds = []
    for _ in range(WARM_UP + 3):
        before = time.perf_counter()
        reader.load().write.format("noop").mode("append").save()
        seconds.append(time.perf_counter() - before)
    counted = sorted(seconds[WARM_UP:])
    return {"records_per_s": options.records / counted[len(counted) // 2], "seconds": seconds}


def state(options: argparse.Namespace) -> dict[str, Any]:
    """Running totals of `--keys` keys over the purchases; records a second of the batches after the first ones.

    Ours keeps them in a changelog, in the transaction. `spark` is the built-in aggregation, with its state in the
    checkpoint and at-least-once output; `transform` is transformWithState, which calls Python for every key.
    """
    from bench.clients import totals

    spark = spark_session(options)
    more = {"maxOffsetsPerTrigger": str(options.batch)}
    if options.system == "fencepost":
        query = totals.start_ours(source(spark, options, **totals.SOURCE, **more), options, everything(options))
    else:
        query = totals.start_sparks(source(spark, options, **more), options)
    wait(query, options)
    return rate_of(query, options)


def small(options: argparse.Namespace) -> dict[str, Any]:
    """Batches of a hundred records: how long a trigger takes, and until when its records are visible.

    `--empty` does nothing with the records of the same query: what is left is Spark's own work on a trigger.
    """
    spark = spark_session(options)
    records, transform_arrow = shop(spark, options, maxOffsetsPerTrigger="100")
    if options.empty:
        checkpoint = tempfile.mkdtemp(prefix="bench-checkpoint-")
        writer = records.writeStream.foreachBatch(lambda rows, batch_id: None)
        query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()
    else:
        query = start(records, transform_arrow, options, processingTime="0 seconds")
    deadline_s = time.monotonic() + 300
    while (
        time.monotonic() < deadline_s
        and query.isActive
        and (query.lastProgress or {"batchId": 0})["batchId"] < SMALL_BATCHES
    ):
        time.sleep(0.2)
    query.stop()
    counted = [progress.durationMs for progress in query.recentProgress if "addBatch" in progress.durationMs]
    counted = counted[len(counted) // 2 :]
    whole = [found["triggerExecution"] for found in counted]
    visible = [found["triggerExecution"] - found.get("commitOffsets", 0) for found in counted]
    parts = {name: median([found.get(name, 0) for found in counted]) for name in counted[0]}
    return {"trigger_ms": median(whole), "visible_ms": median(visible), "parts": parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["pipeline", "read", "small", "state"])
    parser.add_argument("--system", choices=["fencepost", "spark"], default="fencepost")
    parser.add_argument("--config", required=True, type=read_client_file, help="options of the connection, in a file")
    parser.add_argument("--topic", default="purchases")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--master", default="", help="default: local[CORES]")
    parser.add_argument("--way", choices=["typed", "arrow", "bytes"], default="typed", help="how the shop is written")
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--plain", action="store_true", help="Spark with its own settings instead of ours")
    parser.add_argument("--keys", type=int, default=43_000)
    parser.add_argument("--pipeline", default="", help="its name, where the state is looked at later")
    parser.add_argument("--rocksdb", action="store_true", help="Spark's state in RocksDB instead of its default store")
    parser.add_argument("--by-key", action="store_true", help="transformWithState instead of the built-in aggregation")
    options = parser.parse_args()
    jobs = {"pipeline": pipeline, "read": read, "small": small, "state": state}
    result = jobs[options.job](options)
    print(json.dumps(result), flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
