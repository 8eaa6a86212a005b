"""Spark: the shop's pipeline with our source and sink, with Spark's own, and as a Kafka Streams application.

    python -m bench.spark                          everything, on Apache Kafka and then on our broker
    python -m bench.spark --parts pipeline --brokers kafka
    python -m bench.spark --parts pipeline --systems fencepost streams-1000 --repetitions 3
    python -m bench.spark --parts small read memory
    python -m bench.spark --parts secured          our source and sink over SASL_SSL beside plaintext
    python -m bench.spark --write                  puts tables and plots into docs/benchmarks.md

The pipeline is a race. All read the same purchases, one in a thousand of them bad, check them by the shop's rules, and
write invoices, shipments and dead letters. Afterwards all records are read and compared: keys, values and headers must
be byte for byte what they should be, or the bench fails. Only the wording of a dead letter's reason is the system's
own. Ours takes part in three ways; typed SQL is the one that others are compared with ("ours is"). It writes each batch
in one transaction. Kafka Streams runs with exactly_once_v2 at two commit intervals. Spark's own sink writes at least
once, so it does less.

One clock times them all, from outside: ten times a second it asks the broker up to where the outputs are visible to a
`read_committed` reader. It starts when two thirds of the purchases are visible, so everybody is warmed up by the same
volume, and stops when all are. CPU seconds are those of the processes over the same time, from /proc. "of that
compilers" is what a JVM's compilers still took: a stream that runs for days does not pay it. "2nd half / 1st" is the
rate of the second half of that time to the first: near 1, or somebody was not warm yet.
"""

import itertools
from importlib.metadata import version
from typing import Any

from bench.harness import brokers
from bench.harness import options as shared
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment, median, ratio, spread
from bench.race import run as races
from bench.race.contests import ShopContest
from bench.race.input import create, fill
from bench.race.run import Run
from bench.race.systems import SHOP, SparkJob
from fencepost.security.names import Protocol
from fencepost.shop import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS

PARTS = ("pipeline", "read", "small", "memory", "secured")
#: Records in a micro-batch, to see what a task needs for them.
MEMORY_BATCHES = (50_000, 200_000, 800_000)
OURS = SparkJob("Spark with fencepost", "fencepost")
SPARKS = SparkJob("Spark's own (at least once)", "spark")


def prepare(server: Server, options: Any) -> None:
    create(server, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), options.partitions)
    fill(server, PURCHASES, options.records)


def how(options: Any) -> Run:
    return Run(options.batch, options.cores, options.partitions, options.warm_up)


def job(name: str, system: SparkJob, server: Server, options: Any, *more: str) -> dict[str, Any]:
    return races.answer_of(server, name, system, how(options), "--records", str(options.records), *more)


def pipelines(server: Server, options: Any, report: Report) -> list[list[Any]]:
    systems = races.available(SHOP, options.systems, report)
    found = races.race(server, ShopContest(server), systems, how(options), options.repetitions)
    report.raw += races.raw(server, found, part="pipeline")
    return races.rows(server, systems, found)


def reads(server: Server, options: Any, report: Report) -> list[list[Any]]:
    rates: dict[str, list[float]] = {}
    for _, system in itertools.product(range(options.repetitions), (OURS, SPARKS)):
        rates.setdefault(system.system, []).append(job("read", system, server, options)["records_per_s"])
    report.raw += [
        {"part": "read", "broker": server.name, "system": key, "values": each} for key, each in rates.items()
    ]
    ours, theirs = rates["fencepost"], rates["spark"]
    return [[server.name, spread(ours), spread(theirs), ratio(median(ours), median(theirs))]]


def small(server: Server, options: Any, report: Report) -> list[list[Any]]:
    """A hundred records a batch, in a Spark with its own settings and in one with ours."""
    jobs = [
        (settings, name, [job("small", system, server, options, *more, *plain) for _ in range(options.repetitions)])
        for settings, plain in (("Spark's", ("--plain",)), ("ours", ()))
        for name, system, more in (
            ("nothing is done", OURS, ("--empty",)),
            (OURS.title, OURS, ()),
            (SPARKS.title, SPARKS, ()),
        )
    ]
    report.raw += [
        {"part": "small", "broker": server.name, "settings": settings, "system": name, "values": found}
        for settings, name, found in jobs
    ]
    empty_ms = median([each["trigger_ms"] for each in jobs[0][2]])
    rows = []
    for settings, name, found in jobs:
        trigger_ms, visible_ms = ([each[key] for each in found] for key in ("trigger_ms", "visible_ms"))
        ratio_to_empty = median(visible_ms) / empty_ms
        rows.append([server.name, settings, name, spread(trigger_ms), spread(visible_ms), ratio_to_empty])
    return rows


def memory(server: Server, options: Any, report: Report) -> list[list[Any]]:
    rows = []
    for batch in MEMORY_BATCHES:
        peak_bytes = job("pipeline", OURS, server, options, "--batch", str(batch))["worker_peak_bytes"]
        report.raw.append({"part": "memory", "broker": server.name, "batch": batch, "worker_peak_bytes": peak_bytes})
        rows.append([server.name, f"{batch:,}", round(peak_bytes / 1e6)])
    return rows


def secured(server: Server, options: Any, report: Report) -> list[list[Any]]:
    """The same pipeline and reading alone on a second broker of the same kind, with TLS and a login."""
    with brokers.running(server.name, Flush.NEVER.settings, Protocol.SASL_SSL) as other:
        prepare(other, options)
        rows = []
        for name in ("pipeline", "read"):
            rates: dict[str, list[float]] = {}
            for _, (label, each) in itertools.product(
                range(options.repetitions), (("PLAINTEXT", server), ("SASL_SSL", other))
            ):
                rates.setdefault(label, []).append(job(name, OURS, each, options)["records_per_s"])
            report.raw.append({"part": "secured", "broker": server.name, "job": name, **rates})
            plain, with_tls = rates["PLAINTEXT"], rates["SASL_SSL"]
            rows.append([server.name, name, spread(plain), spread(with_tls), ratio(median(with_tls), median(plain))])
    return rows


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--batch", type=int, default=200_000, help="records in a micro-batch")
    races.add_options(parser, SHOP)
    parser.set_defaults(brokers=["kafka", "fencepost"], repetitions=1)
    options = shared.parse(parser)
    races.check_options(parser, options)
    report = Report("spark", "Spark", environment())
    report.notes.append(f"Spark {version('pyspark')}")
    report.notes.append(races.described(options))
    rows: dict[str, list[list[Any]]] = {part: [] for part in PARTS}
    for kind in options.brokers:
        with brokers.running(kind, Flush.NEVER.settings) as server:
            prepare(server, options)
            for part, measure in zip(PARTS, (pipelines, reads, small, memory, secured), strict=True):
                if part in options.parts:
                    rows[part] += measure(server, options, report)
    if rows["pipeline"]:
        report.table(
            "purchases → invoices, shipments and dead letters",
            races.COLUMNS,
            rows["pipeline"],
            section="shop",
            plots=races.plots("shop", "The shop", rows["pipeline"]),
        )
    if rows["read"]:
        report.table("Reading alone", ["broker", "fencepost records/s", "Spark's own records/s", "ratio"], rows["read"])
    if rows["small"]:
        columns = ["broker", "settings", "100 records a batch", "trigger, ms", "visible after, ms"]
        columns.append("to a trigger of Spark's that does nothing")
        report.table("Small batches", columns, rows["small"], section="small-batches")
    if rows["memory"]:
        report.table("Memory", ["broker", "records in a batch", "largest Python worker, MB"], rows["memory"])
    if rows["secured"]:
        report.table("Secured", ["broker", "", "PLAINTEXT records/s", "SASL_SSL records/s", "ratio"], rows["secured"])
    report.publish(options)


if __name__ == "__main__":
    main()
