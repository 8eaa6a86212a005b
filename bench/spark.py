"""Spark: the shop's pipeline with our source and sink, with Spark's own, and as a Kafka Streams application.

    python -m bench.spark                          everything, on Apache Kafka and then on our broker
    python -m bench.spark --parts pipeline --brokers kafka
    python -m bench.spark --parts small read memory
    python -m bench.spark --parts secured          our source and sink over SASL_SSL beside plaintext

Ours writes each batch in one transaction. Spark's own sink writes at least once, so it does less. Kafka Streams runs
with exactly_once_v2 at two commit intervals. All have the same partitions and cores, and read and write the same.
Rates are of purchases a second, warm: the first batches, or the first third, are not counted.
"""

import itertools
import json
import subprocess
import sys
import uuid
from importlib.metadata import version
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.clients import streams
from bench.clients.perf import ToolFailed
from bench.harness import brokers, java
from bench.harness import options as shared
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment, median, ratio, spread
from fencepost.security.names import Protocol

PARTS = ("pipeline", "read", "small", "memory", "secured")
#: Records in a micro-batch, to see what a task needs for them.
MEMORY_BATCHES = (50_000, 200_000, 800_000)
COMMIT_MS = (100, 1000)
ROWS_PER_TRANSACTION = 100_000


def fill(server: Server, topic: str, records: int) -> None:
    """Purchases of the shop's, in transactions as the shop writes them."""
    from fencepost.client.cluster import Cluster
    from fencepost.client.encode import Encoder
    from fencepost.client.shapes import TopicShape
    from fencepost.client.transaction import SharedTransaction
    from fencepost.client.writing import TransactionWriter
    from fencepost.shop.purchases import purchase_rows
    from fencepost.wire.terms import TopicPartition

    with Cluster(server.client_config("java")) as cluster:
        transaction = SharedTransaction(cluster, f"fill-{topic}")
        transaction.init()
        encoder = Encoder({topic: TopicShape(len(cluster.topic(topic).partitions))})
        for first in range(0, records, ROWS_PER_TRANSACTION):
            count = min(ROWS_PER_TRANSACTION, records - first)
            with TransactionWriter(cluster, transaction.begin()) as writer:
                for blob in encoder.encode(purchase_rows(1, first, count)):
                    writer.write(TopicPartition(blob.topic, blob.partition), blob.data)
            transaction.commit()


def create(server: Server, topics: tuple[str, ...], partitions: int) -> None:
    admin = AdminClient({**server.client_config("confluent"), "log_level": 0})
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name in topics]).values():
        made.result(30)


def prepare(server: Server, options: Any) -> None:
    create(server, ("purchases", "invoices", "shipments", "purchases.dead"), options.partitions)
    fill(server, "purchases", options.records)


def job(name: str, system: str, server: Server, options: Any, *more: str) -> dict[str, Any]:
    words = ["--system", system, "--config", str(brokers.client_file(server, "spark"))]
    words += ["--records", str(options.records)]
    words += ["--batch", str(options.batch), "--cores", str(options.cores), *more]
    command = [sys.executable, "-m", "bench.clients.spark_job", name, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise ToolFailed(f"Spark ({system}, {name}):\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def pipelines(server: Server, options: Any, report: Report) -> list[list[Any]]:
    rates: dict[str, list[float]] = {}
    systems: list[str | int] = ["fencepost", "spark", *COMMIT_MS]
    if missing := java.connector_missing():
        systems.remove("spark")
        report.notes.append(f"Spark's own source and sink are left out: {missing}")
    for _, system in itertools.product(range(options.repetitions), systems):
        if isinstance(system, int):
            topics = ("purchases", f"invoices-{uuid.uuid4().hex[:6]}", f"shipments-{uuid.uuid4().hex[:6]}")
            create(server, topics[1:], options.partitions)
            name = f"Kafka Streams, commits every {system} ms"
            rate = streams.shop_rate(server, topics, options.partitions, options.records, system, options.cores)
        else:
            name = "Spark with fencepost" if system == "fencepost" else "Spark's own (at least once)"
            rate = job("pipeline", system, server, options)["records_per_s"]
        rates.setdefault(name, []).append(rate)
        report.raw.append({"part": "pipeline", "broker": server.name, "system": name, "records_per_s": rate})
    ours = median(rates["Spark with fencepost"])
    return [[server.name, name, spread(found), ratio(ours, median(found))] for name, found in rates.items()]


def reads(server: Server, options: Any, report: Report) -> list[list[Any]]:
    rates: dict[str, list[float]] = {}
    for _, system in itertools.product(range(options.repetitions), ("fencepost", "spark")):
        rates.setdefault(system, []).append(job("read", system, server, options)["records_per_s"])
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
            ("nothing is done", "fencepost", ("--empty",)),
            ("Spark with fencepost", "fencepost", ()),
            ("Spark's own (at least once)", "spark", ()),
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
        peak_bytes = job("pipeline", "fencepost", server, options, "--batch", str(batch))["worker_peak_bytes"]
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
                rates.setdefault(label, []).append(job(name, "fencepost", each, options)["records_per_s"])
            report.raw.append({"part": "secured", "broker": server.name, "job": name, **rates})
            plain, with_tls = rates["PLAINTEXT"], rates["SASL_SSL"]
            rows.append([server.name, name, spread(plain), spread(with_tls), ratio(median(with_tls), median(plain))])
    return rows


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--records", type=int, default=1_600_000)
    parser.add_argument("--batch", type=int, default=200_000, help="records in a micro-batch")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.set_defaults(brokers=["kafka", "fencepost"], repetitions=1)
    options = shared.parse(parser)
    report = Report("spark", "Spark", environment())
    report.notes.append(f"Spark {version('pyspark')}")
    report.notes.append(f"{options.records} purchases, {options.partitions} partitions, {options.cores} cores")
    rows: dict[str, list[list[Any]]] = {part: [] for part in PARTS}
    for kind in options.brokers:
        with brokers.running(kind, Flush.NEVER.settings) as server:
            prepare(server, options)
            for part, measure in zip(PARTS, (pipelines, reads, small, memory, secured), strict=True):
                if part in options.parts:
                    rows[part] += measure(server, options, report)
    if rows["pipeline"]:
        report.table(
            "purchases → invoices + shipments", ["broker", "system", "purchases/s", "ours is"], rows["pipeline"]
        )
    if rows["read"]:
        report.table("Reading alone", ["broker", "fencepost records/s", "Spark's own records/s", "ratio"], rows["read"])
    if rows["small"]:
        columns = ["broker", "settings", "100 records a batch", "trigger, ms", "visible after, ms"]
        columns.append("to a trigger of Spark's that does nothing")
        report.table("Small batches", columns, rows["small"])
    if rows["memory"]:
        report.table("Memory", ["broker", "records in a batch", "largest Python worker, MB"], rows["memory"])
    if rows["secured"]:
        report.table("Secured", ["broker", "", "PLAINTEXT records/s", "SASL_SSL records/s", "ratio"], rows["secured"])
    report.publish(as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
