"""Where the time goes: the CPU of each part of a pipeline, for the three ways to write the shop.

Typed SQL is there twice: evaluated on columns, as it is by default, and on rows.

    python -m bench.stages                         on Apache Kafka and then on our broker
    python -m bench.stages --brokers fencepost --records 1000000 --ways typed arrow

The pipeline is run up to its first part, up to its second, and so on, over the same purchases in one warm Spark. A part
costs what a run takes more than the one before it. Runs are batch jobs of one task per partition, with the stages that
a micro-batch has, so what Spark spends on planning a micro-batch is not in here. CPU is that of all threads of the JVM
but its compilers, of the Python processes, and of the broker. Differences of a noisy machine can be below zero: look at
"other cores".
"""

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median
from typing import Any

from bench.clients.spark_job import spark_session
from bench.harness import brokers
from bench.harness import options as shared
from bench.harness.brokers import Flush, Server
from bench.harness.process import CompilerAccount, CpuAccount, busy_cpu_s
from bench.harness.report import Report, environment
from bench.race.input import create, fill
from fencepost.client.cluster import Cluster
from fencepost.shop import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS

KINDS = ("JVM", "Python", "broker")
#: Runs that are not counted: code is compiled during them.
WARM_UP = 4
#: In the order of the pipeline. The Arrow path has no rows.
PARTS = {
    "read": "fetch, decode → rows",
    "compute": "SQL or Arrow",
    "to Python": "rows → Arrow → Python",
    "write": "JSON, record batches, send, commit",
}


@dataclass(frozen=True, slots=True)
class Way:
    """How far each part goes: a job that runs the pipeline up to it."""

    title: str
    jobs: dict[str, Callable[[], object]]


def ways(spark: Any, server: Server, topic_config: dict[str, str]) -> dict[str, Way]:
    from fencepost.shop import arrow_tables, sql_over_bytes, typed_sql
    from fencepost.spark.sink.arrow_transform import ArrowTransform
    from fencepost.spark.source import tables

    def source(**more: str) -> Any:
        options = {**topic_config, "subscribe": PURCHASES, **more}
        return spark.read.format("fencepost").options(**options).load()

    def sql(title: str, read: Any, made: Any) -> Way:
        from fencepost.spark.sink.columns import select_columns
        from fencepost.spark.sink.flat import flatten

        rows = flatten(select_columns(made, None, None))
        jobs: dict[str, Callable[[], object]] = {
            "read": lambda: noop(read),
            "compute": lambda: noop(rows),
            "to Python": lambda: _send(rows),
            "write": lambda: _write(spark, server, rows, None),
        }
        return Way(title, jobs)

    typed, plain = source(**typed_sql.SOURCE), source(includeHeaders="true")
    options = _reading({**topic_config, "subscribe": PURCHASES, **typed_sql.SOURCE}, typed.schema)
    ranges = source(**typed_sql.SOURCE, **{tables.TABLES: tables.register(options)})

    def arrow(function: Any) -> ArrowTransform:
        return ArrowTransform(function, are_ranges=True, sources=tables.registered())

    def tables_of(title: str, function: Any) -> Way:
        return Way(
            title,
            {
                "read": lambda: noop(_drained(ranges, arrow(lambda table: None))),
                "compute": lambda: noop(_drained(ranges, arrow(function))),
                "write": lambda: _write(spark, server, ranges, arrow(function)),
            },
        )

    stream = spark.readStream.format("fencepost").options(**topic_config, subscribe=PURCHASES, **typed_sql.SOURCE)
    return {
        "columns": tables_of("typed SQL", _program(typed_sql.shop(stream.load()))),
        "typed": sql("typed SQL, on rows", typed, typed_sql.shop(typed)),
        "arrow": tables_of("Arrow tables", arrow_tables.shop),
        "bytes": sql("SQL over bytes", plain, sql_over_bytes.shop(plain)),
    }


def _program(made: Any) -> Callable[[Any], Any]:
    """What is evaluated on columns, as a function on tables."""
    from fencepost.spark.columnar.plan import columnar_query
    from fencepost.spark.sink.columns import select_columns

    query = columnar_query(select_columns(made, None, None, for_rows=False))
    if query is None:
        raise SystemExit("the shop's SQL is not evaluated on columns")
    program = query.program
    return lambda table: program.run(table.combine_chunks().to_batches()[0])


def noop(df: Any) -> None:
    df.write.format("noop").mode("overwrite").save()


def _reading(options: dict[str, str], schema: Any) -> Any:
    from fencepost.spark.options import Options
    from fencepost.spark.source.data_source import reading_options
    from fencepost.spark.source.read_options import ReadKind

    return reading_options(Options(options), ReadKind.BATCH, schema)


def _send(rows: Any) -> None:
    """The rows to Python, where they are dropped."""
    from fencepost.spark.sink.arrow_batches import ArrowBatches, checked

    def drop(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        return iter(())

    with ArrowBatches(rows.sparkSession).settings(rows.sparkSession):
        noop(checked(rows).mapInArrow(drop, "nothing INT"))


def _drained(ranges: Any, transform: Any) -> Any:
    def drop(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in transform.records(batches):
            pass
        return iter(())

    return ranges.mapInArrow(drop, "nothing INT")


def _write(spark: Any, server: Server, rows: Any, transform: Any) -> None:
    """The sink's own job."""
    from fencepost.spark.sink.jobs import WriteJob
    from fencepost.spark.sink.opening import Opening
    from fencepost.spark.sink.plain import plain_transaction
    from fencepost.spark.sink.settings import SinkSettings

    name = f"stages-{uuid.uuid4().hex[:8]}"
    settings = SinkSettings.of(name, None, None, server.client_config("spark"))

    with (
        Cluster(settings.client) as cluster,
        contextlib.closing(WriteJob(spark, settings, cluster)) as job,
        plain_transaction(cluster, name, settings) as transaction,
    ):
        job._batches.learn(0)  # as after a first batch of small rows
        job.run(rows, None, Opening(transaction, lambda: None), transform=transform, is_free=True)


class Meter:
    """CPU seconds by kind since the last look. Compilers are left out."""

    def __init__(self, server: Server) -> None:
        self._cpu = CpuAccount({"client": os.getpid(), "broker": server.pid})
        self._compilers = CompilerAccount(os.getpid())
        self._before: dict[str, float] = {}
        self._machine_s = self._time_s = 0.0
        self.look()

    def look(self) -> tuple[dict[str, float], float]:
        """By kind, and the cores that others kept busy."""
        used, machine_s, time_s = self._cpu.look(), busy_cpu_s(), time.monotonic()
        used["JVM"] = used.get("JVM", 0.0) - self._compilers.look()
        found = {kind: used.get(kind, 0.0) - self._before.get(kind, 0.0) for kind in KINDS}
        all_s, elapsed_s = machine_s - self._machine_s, max(time_s - self._time_s, 1e-9)
        self._before, self._machine_s, self._time_s = used, machine_s, time_s
        return found, max(0.0, (all_s - sum(found.values())) / elapsed_s)


def measure(server: Server, way: Way, records: int, repetitions: int) -> tuple[dict[str, dict[str, float]], float]:
    """CPU seconds per million of each part, by kind; and what others kept busy."""
    meter = Meter(server)
    so_far, found, others = dict.fromkeys(KINDS, 0.0), {}, []
    for part, job in way.jobs.items():
        seen: list[dict[str, float]] = []
        for turn in range(WARM_UP + repetitions):
            meter.look()
            job()
            used, busy = meter.look()
            if turn >= WARM_UP:
                seen.append(used)
                others.append(busy)
        middle = {kind: median(each[kind] for each in seen) / records * 1e6 for kind in KINDS}
        found[part] = {kind: middle[kind] - so_far[kind] for kind in KINDS}
        so_far = middle
        print(f"  {way.title}, {part}: {sum(found[part].values()):.2f} CPU s per million", file=sys.stderr, flush=True)
    return found, median(others)


def rows_of(server: Server, way: Way, found: dict[str, dict[str, float]], others: float) -> list[list[Any]]:
    parts = [[found[part][kind] for part in PARTS if part in found] for kind in KINDS]
    cells = dict.fromkeys(PARTS, "–") | {
        part: " + ".join(f"{found[part][kind]:.2f}" for kind in KINDS) for part in found
    }
    return [[server.name, way.title, *cells.values(), sum(map(sum, parts)), others]]


def main() -> None:
    parser = shared.parser(__doc__)
    names = ["columns", "typed", "arrow", "bytes"]
    parser.add_argument("--ways", nargs="+", choices=names, default=names)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.set_defaults(brokers=["kafka", "fencepost"], system="fencepost", master="", plain=False)
    options = shared.parse(parser)
    report = Report("stages", "Where the time goes", environment())
    report.notes += [f"Spark {version('pyspark')}", f"{options.records:,} purchases; median of {options.repetitions}"]
    spark = spark_session(options)
    made: list[list[Any]] = []
    for kind in options.brokers:
        with brokers.running(kind, Flush.NEVER.settings) as server:
            create(server, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), options.partitions)
            fill(server, PURCHASES, options.records)
            known = ways(spark, server, server.client_config("spark"))
            for name in options.ways:
                print(f"{server.name}: {known[name].title} …", file=sys.stderr, flush=True)
                made += rows_of(
                    server, known[name], *measure(server, known[name], options.records, options.repetitions)
                )
    columns = ["broker", "way", *PARTS.values(), "all", "other cores"]
    report.table("CPU s per million purchases: JVM + Python + broker", columns, made, section="stages")
    report.publish(options)


if __name__ == "__main__":
    main()
