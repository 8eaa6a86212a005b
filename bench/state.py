"""State: running totals by key as a stateful step of ours, as Spark's, and as a Kafka Streams application's.

    python -m bench.state                          all of them on both brokers, and rebuilding a million keys
    python -m bench.state --systems fencepost spark --keys 43000
    python -m bench.state --brokers kafka --parts rates

The rates are of a race with the clock, the warm-up and the account of CPU of `bench.spark`. All count the same
purchases (one JSON object each, with a purchaseId and a totalPrice in order) in whole cents, and write the same bytes:
the last record of every key is compared with what it should be, or the bench fails. How often a key is written is up to
the system. So progress is not the number of records but the sum of the counts in the last visible record of every key.

Ours keeps the state in a changelog topic, in the transaction of its output. Spark's keep it in the checkpoint, in
RocksDB or in the default store, and write their output at least once. Kafka Streams keeps it in RocksDB with a
changelog topic, in transactions. Rebuilding is reading the changelog into an empty cache, one partition after the
other in one process; then again with the cache there.
"""

import tempfile
import time
import uuid
from importlib.metadata import version
from typing import Any

from bench.harness import brokers
from bench.harness import options as shared
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment
from bench.race import run as races
from bench.race.contests import TotalsContest
from bench.race.input import create, fill
from bench.race.systems import TOTALS
from bench.spark import OURS, how, job
from fencepost.shop import PURCHASES


def rates(server: Server, options: Any, report: Report) -> list[list[Any]]:
    systems = races.available(TOTALS, options.systems, report)
    found = races.race(server, TotalsContest(server, options.keys), systems, how(options), options.repetitions)
    report.raw += races.raw(server, found, part="rates")
    return races.rows(server, systems, found)


def rebuild(server: Server, options: Any, report: Report) -> list[list[Any]]:
    from fencepost.client.cluster import Cluster
    from fencepost.client.replication import NO_MODELS
    from fencepost.spark.naming import changelog_name
    from fencepost.spark.state.cache import cache_for
    from fencepost.spark.state.changelog import look
    from fencepost.wire.terms import TopicPartition

    pipeline = f"rebuild-{uuid.uuid4().hex[:6]}"
    job("state", OURS, server, options, "--keys", str(options.rebuilt_keys), "--pipeline", pipeline)
    rows = []
    with Cluster(server.bootstrap) as cluster, tempfile.TemporaryDirectory(prefix="bench-state-") as home:
        changelog = look(cluster, changelog_name(pipeline, "totals"), 1, {}, None, NO_MODELS)
        for what in ("rebuilt", "with the cache there"):
            before = time.perf_counter()
            records = keys = 0
            for partition, end in changelog.ends.items():
                cache = cache_for(home, changelog.topic_id, partition)
                records += cache.catch_up(cluster, TopicPartition(changelog.topic, partition), end)
                keys += len(cache)
            seconds = time.perf_counter() - before
            rows.append([server.name, what, keys, records, seconds])
            report.raw.append({"part": what, "broker": server.name, "keys": keys, "records": records, "s": seconds})
    return rows


def main() -> None:
    parser = shared.parser(__doc__)
    races.add_options(parser, TOTALS)
    parser.add_argument("--parts", nargs="+", choices=["rates", "rebuild"], default=["rates", "rebuild"])
    parser.add_argument("--records", type=int, default=4_500_000)
    parser.add_argument("--batch", type=int, default=100_000, help="records in a micro-batch")
    parser.add_argument("--keys", type=int, default=43_000)
    parser.add_argument("--rebuilt-keys", type=int, default=1_000_000)
    parser.set_defaults(brokers=["kafka", "fencepost"], repetitions=1)
    options = shared.parse(parser)
    races.check_options(parser, options)
    report = Report("state", "State", environment())
    report.notes += [f"Spark {version('pyspark')}", f"{races.described(options)}; {options.keys:,} keys"]
    rated: list[list[Any]] = []
    rebuilt: list[list[Any]] = []
    for kind in options.brokers:
        with brokers.running(kind, Flush.NEVER.settings) as server:
            create(server, (PURCHASES, "totals"), options.partitions)
            fill(server, PURCHASES, options.records)
            if "rates" in options.parts:
                rated += rates(server, options, report)
            if "rebuild" in options.parts:
                rebuilt += rebuild(server, options, report)
    if rated:
        report.table(
            f"Running totals of {options.keys:,} keys",
            races.COLUMNS,
            rated,
            section="totals",
            plots=races.plots("totals", "Running totals", rated),
        )
    if rebuilt:
        columns = ["broker", "", "keys", "records read", "seconds"]
        report.table("Rebuilding the state", columns, rebuilt, section="rebuilding")
    report.publish(options)


if __name__ == "__main__":
    main()
