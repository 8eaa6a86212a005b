"""Many transactional producers, each committing ten times a second: how many commits come through, how long they take.

The producers are Kafka's own, in one JVM. On a small machine it takes more than either broker, so the number of commits
is that of the whole machine; the latencies and the broker's CPU per commit tell the brokers apart.
"""

import argparse
import json
import tempfile
import threading
from pathlib import Path
from typing import Any

from bench.clients.perf import ToolFailed
from bench.clients.streams import JAVA
from bench.growth.show import TITLES, Axes, add
from bench.harness import java
from bench.harness.arena import Arena, arena
from bench.harness.brokers import Flush, Server
from bench.harness.process import usage
from bench.harness.report import Report, ratio
from fencepost.child import Child
from fencepost.lab.kit.java import PERFORMANCE_OPTIONS

PARTITIONS = 50
PER_SECOND = 10
OPTIONS = ("-Xmx2G", "-Xss256k", *PERFORMANCE_OPTIONS)
TIMEOUT_S = 600.0
MEGABYTE = 1024 * 1024


def once(server: Server, topic: str, producers: int, seconds: int) -> dict[str, float]:
    """The warm-up takes as long as what counts."""
    said: list[str] = []
    counting = threading.Event()

    def hear(line: str) -> None:
        said.append(line)
        if line.strip() == "counting":
            counting.set()

    words = (server.bootstrap, topic, str(producers), str(PER_SECOND), str(seconds), str(seconds))
    with (
        tempfile.TemporaryDirectory(prefix="bench-producers-") as home,
        Child(Path(home, "log"), "ManyProducers", on_line=hear) as process,
    ):
        process.start(java.kafka().command(str(JAVA / "ManyProducers.java"), *words, options=OPTIONS))
        while not counting.wait(0.1):
            if not process.is_running:
                raise ToolFailed(f"ManyProducers ended: {process.said()}")
        before = usage(server.pid)
        if process.wait(TIMEOUT_S) != 0:
            raise ToolFailed(f"ManyProducers on {server.name}: {process.said()}")
        after = usage(server.pid)
    answer: dict[str, float] = json.loads(said[-1])
    cpu_ms = 1000 * (after.cpu_s - before.cpu_s) / max(1.0, answer["commits"])
    return {**answer, "cpu_ms": cpu_ms, "rss_mb": after.rss_bytes / MEGABYTE}


def _measure(where: Arena, server: Server, count: int, seconds: int) -> dict[str, float]:
    with where.topic(server, PARTITIONS) as topic:
        return once(server, topic, count, seconds)


def producers(options: argparse.Namespace, report: Report) -> None:
    """1,000 transactional producers."""
    points = options.points or [10, 100, 1_000]
    rows: list[list[Any]] = []
    series: dict[str, list[tuple[float, float]]] = {}
    with arena(options.brokers, Flush.NEVER.settings) as where:
        for count in points:
            found = {server.name: _measure(where, server, count, options.seconds) for server in where.servers}
            rates = {kind: each["commits"] / each["seconds"] for kind, each in found.items()}
            for kind, each in found.items():
                compared = ratio(rates.get("fencepost"), rates.get("kafka")) if kind == "fencepost" else None
                latencies = (each["p50_ms"], each["p99_ms"])
                cells = (count * PER_SECOND, rates[kind], compared, *latencies, each["cpu_ms"], each["rss_mb"])
                rows.append([TITLES[kind], f"{count:,}", *cells])
                series.setdefault(TITLES[kind], []).append((count, each["p50_ms"]))
                report.raw.append({"curve": "producers", "broker": kind, "producers": count, **each})
    columns = ["broker", "producers", "commits/s wanted", "commits/s", "ratio", "p50, ms", "p99, ms"]
    columns += ["broker CPU ms a commit", "broker MB"]
    caption = f"Transactional producers, {PER_SECOND} commits a second each, of one record"
    add(report, "producers", caption, Axes("producers", "median ms of a transaction"), columns, rows, series)
