"""Transactions: what committing every 100 ms costs a producer, and how long a commit takes.

    python -m bench.transactions                   both parts
    python -m bench.transactions --parts commits --sizes 1 1000 100000

The first part runs the same producer with and without transactions, in turn, on both brokers. The second measures the
commit call alone, after every record of the transaction has been acknowledged: it should not grow with their number.
librdkafka speaks the first transaction protocol, Java clients the second (KIP-890).
"""

import itertools
import json
from pathlib import Path
from typing import Any

from bench.clients import perf, rdkafka
from bench.clients.outcome import Outcome, Work, observe
from bench.harness import java
from bench.harness import options as shared
from bench.harness.arena import Arena, arena
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment, median, spread
from fencepost.lab.kit.java import PERF_TOOL

PARTS = ("throughput", "commits")
CLIENTS = ("perf", "confluent")
COMMIT_LATENCY = Path(__file__).parent / "java" / "CommitLatency.java"


def produce(client: str, server: Server, topic: str, options: Any, *, transactional: bool) -> Work:
    if client == "perf":
        interval = options.commit_ms if transactional else None
        return perf.produce(server, topic, options.records, options.record_size, transaction_ms=interval)
    action = "transactions" if transactional else "produce"
    more = ("--commit-ms", str(options.commit_ms))
    return rdkafka.run(server, action, topic, options.records, options.record_size, *more)


def throughput(where: Arena, options: Any, report: Report, flush: Flush) -> list[list[Any]]:
    rows = []
    orders = itertools.cycle([(False, True), (False, True), (True, False), (True, False)])
    for client in options.clients:

        def once(server: Server, client: str = client) -> dict[bool, Outcome]:
            outcomes: dict[bool, Outcome] = {}
            for transactional in next(orders):
                with where.topic(server, options.partitions) as topic:
                    outcomes[transactional] = observe(
                        server,
                        lambda t=topic, x=transactional: produce(client, server, t, options, transactional=x),  # type: ignore[misc]
                    )
            return outcomes

        for kind, pairs in where.alternate(options.repetitions, once).items():
            plain = [pair[False].mb_s for pair in pairs]
            committing = [pair[True].mb_s for pair in pairs]
            loss = [100 * (1 - pair[True].mb_s / pair[False].mb_s) for pair in pairs]
            rows.append([flush.value, client, kind, spread(plain), spread(committing), spread(loss)])
            report.raw += [
                pair[way].raw(broker=kind, client=client, flush=flush.value, transactional=way)
                for pair in pairs
                for way in (False, True)
            ]
    return rows


def commit_latencies(client: str, server: Server, topic: str, options: Any, size: int) -> list[float]:
    commits = max(3, min(options.commits, options.commits * 2_000 // size))
    if client == "confluent":
        words = ["--topic", topic, "--records", str(size), "--record-size", "100", "--commits", str(commits)]
        return [float(ms) for ms in rdkafka.call(server, "commits", *words)["latencies_ms"]]
    words = [server.bootstrap, topic, str(size), "100", str(commits)]
    done = java.kafka().run(str(COMMIT_LATENCY), *words, options=PERF_TOOL, timeout_s=600)
    if done.returncode != 0:
        raise perf.ToolFailed(f"CommitLatency on {server.name}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return [float(ms) for ms in json.loads(done.stdout.splitlines()[-1])]


def commits(where: Arena, options: Any, report: Report, flush: Flush) -> list[list[Any]]:
    rows = []
    for client in options.clients:
        for size in options.sizes:

            def once(server: Server, client: str = client, size: int = size) -> list[float]:
                with where.topic(server, options.partitions) as topic:
                    return commit_latencies(client, server, topic, options, size)

            results = where.alternate(options.repetitions, once, warm_up=size == options.sizes[0])
            row: list[Any] = [flush.value, "java" if client == "perf" else client, size]
            for kind in ("fencepost", "kafka"):
                every = sorted(ms for run in results.get(kind, []) for ms in run)
                row += [median(every), every[int(len(every) * 0.95)]] if every else [None, None]
                report.raw.append(
                    {"broker": kind, "client": client, "flush": flush.value, "records": size, "commit_ms": every}
                )
            rows.append(row)
    return rows


def main() -> None:
    parser = shared.parser(__doc__)
    shared.add_flush(parser, ["never"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--records", type=int, default=1_000_000, help="a run of the first part")
    parser.add_argument("--record-size", type=int, default=1024)
    parser.add_argument("--commit-ms", type=int, default=100)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 10, 100, 1_000, 10_000, 100_000])
    parser.add_argument(
        "--commits", type=int, default=50, help="measured for each size of the second part (fewer if large)"
    )
    options = shared.parse(parser)
    report = Report("transactions", "Transactions", environment())
    report.notes.append(f"{options.partitions} partitions; medians of {options.repetitions} repetitions (least–most)")
    cost: list[list[Any]] = []
    latency: list[list[Any]] = []
    for name in options.flush:
        flush = Flush[name.upper()]
        with arena(options.brokers, flush.settings) as where:
            if "throughput" in options.parts:
                cost += throughput(where, options, report, flush)
            if "commits" in options.parts:
                latency += commits(where, options, report, flush)
    if cost:
        columns = ["disk", "client", "broker", "plain MB/s", f"committing every {options.commit_ms} ms MB/s", "loss %"]
        report.table("What transactions cost a producer", columns, cost)
    if latency:
        columns = ["disk", "client", "records in it"]
        columns += [f"{kind} {what} ms" for kind in ("fencepost", "kafka") for what in ("p50", "p95")]
        report.table("How long a commit takes", columns, latency)
    report.publish(options)


if __name__ == "__main__":
    main()
