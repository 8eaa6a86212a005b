"""Results as people read them (a Markdown table), as programs read them (JSON), and kept (`bench/results/NAME.md`)."""

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.harness import java
from fencepost.lab.kit.java import JavaMissing, find_java

RESULTS = Path(__file__).resolve().parents[1] / "results"

Cell = str | float | int | None


@dataclass(slots=True)
class Report:
    """One or more tables with a title, what was measured on, and the raw numbers behind them."""

    name: str
    title: str
    notes: list[str] = field(default_factory=list)
    tables: list[tuple[str, list[str], list[list[Cell]]]] = field(default_factory=list)
    raw: list[dict[str, Any]] = field(default_factory=list)

    def table(self, caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        self.tables.append((caption, list(columns), [list(row) for row in rows]))

    def markdown(self) -> str:
        parts = [f"## {self.title}", ""]
        parts += [f"- {note}" for note in self.notes]
        for caption, columns, rows in self.tables:
            parts += ["", caption, "", *markdown_table(columns, rows)]
        return "\n".join(parts) + "\n"

    def json(self) -> str:
        tables = [
            {"caption": caption, "rows": [dict(zip(columns, row, strict=True)) for row in rows]}
            for caption, columns, rows in self.tables
        ]
        return json.dumps({"name": self.name, "notes": self.notes, "tables": tables, "raw": self.raw}, indent=2)

    def publish(self, *, as_json: bool, save: bool) -> None:
        print(self.json() if as_json else self.markdown(), flush=True)
        if save:
            RESULTS.mkdir(exist_ok=True)
            path = RESULTS / f"{self.name}.md"
            before = path.read_text() if path.exists() else f"# {self.name}\n\nAppended by `--save`, newest last.\n"
            path.write_text(f"{before}\n{self.markdown()}")
            print(f"appended to bench/results/{path.name}", file=sys.stderr)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    cells = [list(columns), *([text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    lines = [
        "| " + " | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return str(cell)


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if not ours or not theirs else ours / theirs


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> str:
    """Median, with the smallest and largest behind it when there was more than one."""
    middle = text(float(median(values)))
    return middle if len(values) == 1 else f"{middle} ({text(float(min(values)))}–{text(float(max(values)))})"


def environment() -> list[str]:
    """What a number means nothing without."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        now,
        f"{os.cpu_count()} × {_cpu_model()}, {platform.system()} {platform.release()}; broker and client share them",
        f"load average at the start {os.getloadavg()[0]:.2f}",
        f"Python {platform.python_version()}, {_java_version()}, Apache Kafka {_kafka_version()}",
    ]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _java_version() -> str:
    try:
        done = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False)
    except JavaMissing:
        return "no Java"
    return "Java " + [*done.stderr.split('"'), "", "?"][1]


def _kafka_version() -> str:
    for jar in java.kafka().library.glob("kafka-clients-*.jar"):
        return jar.stem.removeprefix("kafka-clients-")
    return "absent"
