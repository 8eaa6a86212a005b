"""State: running totals by key as a stateful step of ours, as Spark's, and as a Kafka Streams application's.

    python -m bench.state                          all of them on our broker, and rebuilding a million keys
    python -m bench.state --systems fencepost spark --keys 43000
    python -m bench.state --brokers kafka --parts rates

Ours keeps the state in a changelog topic, in the transaction of its output. Spark's keep it in the checkpoint and write
their output at least once. Kafka Streams keeps it in RocksDB with a changelog topic, in transactions. Rates are of
records a second, warm. Rebuilding is reading the changelog into an empty cache, one partition after the other in one
process; then again with the cache there.
"""

import tempfile
import time
import uuid
from typing import Any

from bench.clients import streams
from bench.harness import brokers
from bench.harness import options as shared
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment, ratio
from bench.spark import create, fill, job

SYSTEMS = {
    "fencepost": ("a stateful step of fencepost", "fencepost", ()),
    "spark": ("Spark's aggregation", "spark", ()),
    "transform": ("Spark's transformWithState", "spark", ("--by-key",)),
}
STREAMS = {
    f"streams-{commit_ms}": (f"Kafka Streams with RocksDB, commits every {commit_ms} ms", commit_ms)
    for commit_ms in (100, 1000)
}


def rates(server: Server, options: Any, report: Report) -> list[list[Any]]:
    found: dict[str, float] = {}
    for system in options.systems:
        if system in STREAMS:
            name, commit_ms = STREAMS[system]
            found[name] = streams.totals_rate(
                server, ("purchases", "totals"), options.keys, options.partitions, options.records, commit_ms,
                options.cores,
            )  # fmt: skip
        else:
            name, kind, more = SYSTEMS[system]
            found[name] = job("state", kind, server, options, "--keys", str(options.keys), *more)["records_per_s"]
        report.raw.append({"part": "rates", "broker": server.name, "system": name, "records_per_s": found[name]})
    ours = found.get(SYSTEMS["fencepost"][0])
    return [[server.name, name, rate, ratio(ours, rate)] for name, rate in found.items()]


def rebuild(server: Server, options: Any, report: Report) -> list[list[Any]]:
    from fencepost.client.cluster import Cluster
    from fencepost.client.replication import NO_MODELS
    from fencepost.spark.naming import changelog_name
    from fencepost.spark.state.cache import cache_for
    from fencepost.spark.state.changelog import look
    from fencepost.wire.terms import TopicPartition

    pipeline = f"rebuild-{uuid.uuid4().hex[:6]}"
    job("state", "fencepost", server, options, "--keys", str(options.rebuilt_keys), "--pipeline", pipeline)
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
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS, *STREAMS], default=[*SYSTEMS, *STREAMS])
    parser.add_argument("--parts", nargs="+", choices=["rates", "rebuild"], default=["rates", "rebuild"])
    parser.add_argument("--records", type=int, default=1_200_000)
    parser.add_argument("--batch", type=int, default=100_000, help="records in a micro-batch")
    parser.add_argument("--keys", type=int, default=43_000)
    parser.add_argument("--rebuilt-keys", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.set_defaults(brokers=["fencepost"], repetitions=1)
    options = shared.parse(parser)
    report = Report("state", "State", environment())
    report.notes.append(f"{options.records} records in batches of {options.batch}, {options.keys} keys")
    rated: list[list[Any]] = []
    rebuilt: list[list[Any]] = []
    for kind in options.brokers:
        with brokers.running(kind, Flush.NEVER.settings) as server:
            create(server, ("purchases", "totals"), options.partitions)
            fill(server, "purchases", options.records)
            if "rates" in options.parts:
                rated += rates(server, options, report)
            if "rebuild" in options.parts:
                rebuilt += rebuild(server, options, report)
    if rated:
        report.table("Running totals", ["broker", "", "records/s", "ours is"], rated)
    if rebuilt:
        report.table("Rebuilding", ["broker", "", "keys", "records read", "seconds"], rebuilt)
    report.publish(as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
