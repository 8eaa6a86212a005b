"""Results as people read them (Markdown, plots), as programs read them (JSON), and kept (`bench/results/NAME.md`)."""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.harness import java, page
from fencepost.lab.kit.java import JavaMissing, find_java

RESULTS = Path(__file__).resolve().parents[1] / "results"

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    section: str  #: of docs/benchmarks.md; "" if it is not shown there
    plots: dict[str, str]  #: SVG by name

    def markdown(self) -> list[str]:
        return [self.caption, "", *markdown_table(self.columns, self.rows)]


@dataclass(slots=True)
class Report:
    """One or more tables with a title, what was measured on, and the raw numbers behind them."""

    name: str
    title: str
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    raw: list[dict[str, Any]] = field(default_factory=list)

    def table(
        self,
        caption: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        *,
        section: str = "",
        plots: Mapping[str, str] | None = None,
    ) -> None:
        self.tables.append(Table(caption, list(columns), [list(row) for row in rows], section, dict(plots or {})))

    def markdown(self) -> str:
        parts = [f"## {self.title}", ""]
        parts += [f"- {note}" for note in self.notes]
        for table in self.tables:
            parts += ["", *table.markdown()]
        return "\n".join(parts) + "\n"

    def json(self) -> str:
        tables = [
            {"caption": table.caption, "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows]}
            for table in self.tables
        ]
        return json.dumps({"name": self.name, "notes": self.notes, "tables": tables, "raw": self.raw}, indent=2)

    def write(self) -> None:
        """The tables that have a section into docs/benchmarks.md, with their plots."""
        shown = [table for table in self.tables if table.section]
        sections = {}
        for table in shown:
            plots = [f"![{table.caption}](img/{page.image_name(name)})" for name in table.plots]
            sections[table.section] = "\n".join(
                [*plots, *([""] if plots else []), *table.markdown(), "", *self._small()]
            )
        page.write(sections, {name: svg for table in shown for name, svg in table.plots.items()})
        print(f"wrote {', '.join(sections) or 'nothing'} to docs/benchmarks.md", file=sys.stderr)

    def _small(self) -> list[str]:
        return ["<sub>" + "; ".join(self.notes) + "</sub>"]

    def publish(self, options: argparse.Namespace) -> None:
        print(self.json() if options.json else self.markdown(), flush=True)
        if options.write:
            self.write()
        if options.save:
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


def middle(cell: Cell) -> float:
    """The number of a cell that `spread` may have made."""
    return float(str(cell).split(" ")[0]) if cell not in (None, "") else 0.0


def environment() -> list[str]:
    """What a number means nothing without."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        now,
        f"{os.cpu_count()} × {_cpu_model()}, {platform.system()} {_kernel()}; broker and client share them",
        f"load average at the start {os.getloadavg()[0]:.2f}",
        f"Python {platform.python_version()}, {_java_version()}, Apache Kafka {_kafka_version()}",
    ]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _kernel() -> str:
    return ".".join(platform.release().split(".")[:2])


def _java_version() -> str:
    try:
        done = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False)
    except JavaMissing:
        return "no Java"
    return "Java " + [*done.stderr.split('"'), "", "?"][1]


def _kafka_version() -> str:
    # The jar with its tests has a longer name.
    for jar in sorted(java.kafka().library.glob("kafka-clients-*.jar"), key=lambda path: len(path.name)):
        return jar.stem.removeprefix("kafka-clients-")
    return "absent"
