"""The curves of Spark: a topic is copied, in batches; by output and input partitions, record and batch size, executors.

Times are of triggers, by Spark's own account, in a warm session: one for all points of a curve on a broker, and one for
each number of executors.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.client import rows as payload
from bench.clients.perf import ToolFailed
from bench.growth.show import TITLES, Axes, add
from bench.harness import brokers
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, median, spread
from bench.race.input import create, fill
from fencepost.child import Child

TIMEOUT_S = 1800.0
PARTITIONS = 4
RECORD_BYTES = 100
#: What is written in a transaction while topics are filled.
FILL_BYTES = 64_000_000
BATCHES = 3

Point = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a point of a curve is beside its batches: `bench.scale` fits its model to these."""

    cores: int
    record_bytes: int = RECORD_BYTES
    input_partitions: int = PARTITIONS
    output_partitions: int = PARTITIONS


def measure(server: Server, system: str, points: Sequence[Point], cores: int, master: str = "") -> list[list[Any]]:
    """The batches of each point."""
    said: list[str] = []
    config = str(brokers.client_file(server, "spark"))
    command = [sys.executable, "-m", "bench.clients.copy_job", "--system", system, "--config", config]
    command += ["--points", json.dumps(list(points)), "--cores", str(cores), "--master", master]
    with (
        tempfile.TemporaryDirectory(prefix="bench-growth-") as home,
        Child(Path(home, "log"), "the Spark job", on_line=said.append) as process,
    ):
        process.start(command)
        if process.wait(TIMEOUT_S) != 0:
            raise ToolFailed(f"Spark ({system}) on {server.name}:\n{process.said()}")
    found: list[list[Any]] = json.loads(said[-1])
    return found


def load(server: Server, topic: str, records: int, partitions: int = PARTITIONS, size: int = RECORD_BYTES) -> None:
    create(server, [topic], partitions)
    fill(server, topic, records, lambda _first, count: payload(count, size), max(1, FILL_BYTES // size))


def _label(server: Server, system: str) -> str:
    who = "fencepost" if system == "fencepost" else "Spark's own"
    return f"{who} on {TITLES[server.name]}"


class _Table:
    """Collects the points of all brokers and systems, in milliseconds a batch and records a second."""

    def __init__(self, report: Report, name: str) -> None:
        self._report, self._name = report, name
        self.rows: list[list[Any]] = []
        self.times: dict[str, list[tuple[float, float]]] = {}
        self.rates: dict[str, list[tuple[float, float]]] = {}

    def enter(self, server: Server, system: str, x: int, batches: list[Any], shape: Shape) -> None:
        label = _label(server, system)
        record_bytes = shape.record_bytes
        ms = [batch["ms"] for batch in batches]
        rate = median([1000 * batch["rows"] / batch["ms"] for batch in batches])
        self.rows.append([label, f"{x:,}", spread(ms), rate, rate * record_bytes / 1e6])
        self.times.setdefault(label, []).append((x, median(ms)))
        self.rates.setdefault(label, []).append((x, rate * record_bytes / 1e6))
        entry = {"curve": self._name, "broker": server.name, "system": system, "x": x, "shape": asdict(shape)}
        self._report.raw.append({**entry, "batches": batches})

    def columns(self, x: str) -> list[str]:
        return ["system", x, "ms a batch", "records/s", "MB/s"]


def _each(options: argparse.Namespace) -> Any:
    for kind in options.brokers:
        with brokers.running(kind, Flush.NEVER.settings) as server:
            yield server


def output_partitions(options: argparse.Namespace, report: Report) -> None:
    """The same batches into topics of 1 to 256 partitions."""
    table = _Table(report, "output-partitions")
    counts = options.points or [1, 4, 16, 64, 256]
    for server in _each(options):
        load(server, "in", options.batch * (BATCHES + 2))
        for count in counts:
            create(server, [f"out-{count}"], count)
        points = [{"topic": "in", "to": f"out-{n}", "batch": options.batch, "batches": BATCHES} for n in counts]
        for system in options.systems:
            for count, batches in zip(counts, measure(server, system, points, options.cores), strict=True):
                table.enter(server, system, count, batches, Shape(options.cores, output_partitions=count))
    caption = f"Output partitions: batches of {options.batch:,} records of {RECORD_BYTES} bytes"
    axes = Axes("output partitions", "ms a batch", log_y=False)
    add(report, "output-partitions", caption, axes, table.columns("output partitions"), table.rows, table.times)


def input_partitions(options: argparse.Namespace, report: Report) -> None:
    """The same records in topics of 1 to 64 partitions."""
    table = _Table(report, "input-partitions")
    counts = options.points or [1, 2, 4, 16, 64]
    for server in _each(options):
        create(server, ["out"], PARTITIONS)
        for count in counts:
            load(server, f"in-{count}", options.batch * (BATCHES + 2), count)
        points = [{"topic": f"in-{n}", "to": "out", "batch": options.batch, "batches": BATCHES} for n in counts]
        for system in options.systems:
            for count, batches in zip(counts, measure(server, system, points, options.cores), strict=True):
                table.enter(server, system, count, batches, Shape(options.cores, input_partitions=count))
    caption = f"Input partitions: batches of {options.batch:,} records of {RECORD_BYTES} bytes"
    axes = Axes("input partitions", "ms a batch", log_y=False)
    add(report, "input-partitions", caption, axes, table.columns("input partitions"), table.rows, table.times)


def batch_size(options: argparse.Namespace, report: Report) -> None:
    """Batches of 1,000 to 1,000,000 records."""
    table = _Table(report, "batch-size")
    sizes = options.points or [1_000, 10_000, 100_000, 1_000_000]
    for server in _each(options):
        # Small batches are many, so that their median means something.
        points = [
            {"topic": "in", "to": "out", "batch": n, "batches": min(20, max(BATCHES, 50_000 // n))} for n in sizes
        ]
        load(server, "in", max(n["batch"] * (n["batches"] + 2) for n in points))
        create(server, ["out"], PARTITIONS)
        for system in options.systems:
            for size, batches in zip(sizes, measure(server, system, points, options.cores), strict=True):
                table.enter(server, system, size, batches, Shape(options.cores))
    caption = f"Batch size: records of {RECORD_BYTES} bytes"
    axes = Axes("records in a batch", "ms a batch")
    add(report, "batch-size", caption, axes, table.columns("records in a batch"), table.rows, table.times)


def record_size(options: argparse.Namespace, report: Report) -> None:
    """Batches of the same number of bytes, in records of 100 bytes to 1 MB."""
    table = _Table(report, "record-size")
    sizes = options.points or [100, 1_000, 10_000, 100_000, 1_000_000]
    for server in _each(options):
        points = []
        create(server, ["out"], PARTITIONS)
        for size in sizes:
            batch = max(PARTITIONS, options.batch_bytes // size)
            load(server, f"in-{size}", batch * (BATCHES + 2), size=size)
            points.append({"topic": f"in-{size}", "to": "out", "batch": batch, "batches": BATCHES})
        for system in options.systems:
            for size, batches in zip(sizes, measure(server, system, points, options.cores), strict=True):
                table.enter(server, system, size, batches, Shape(options.cores, size))
    caption = f"Record size: batches of {options.batch_bytes // 1_000_000} MB"
    axes = Axes("bytes in a record", "MB/s")
    add(report, "record-size", caption, axes, table.columns("bytes in a record"), table.rows, table.rates)


def executors(options: argparse.Namespace, report: Report) -> None:
    """`local-cluster` of 1 to 4 executors with one core each."""
    table = _Table(report, "executors")
    counts = options.points or [1, 2, 3, 4]
    for server in _each(options):
        load(server, "in", options.batch * (BATCHES + 2), 12)
        create(server, ["out"], 12)
        point = {"topic": "in", "to": "out", "batch": options.batch, "batches": BATCHES}
        for system in options.systems:
            for count in counts:
                found = measure(server, system, [point], options.cores, f"local-cluster[{count},1,1024]")
                table.enter(server, system, count, found[0], Shape(count, RECORD_BYTES, 12, 12))
    caption = f"Executors with one core each: batches of {options.batch:,} records of {RECORD_BYTES} bytes"
    axes = Axes("executors", "ms a batch", log_y=False)
    add(report, "executors", caption, axes, table.columns("executors"), table.rows, table.times)
