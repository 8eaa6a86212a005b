"""What a run of the shop prints: its progress, and the table at the end.

On a terminal two progress bars; elsewhere a line whenever something has changed, so that logs stay readable. Owns the
terminal: no other module prints. Any thread may change `Figures`; the display only reads them.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fencepost.shop.verify import Report

LINE_EVERY_S = 2.0
REFRESH_PER_S = 5
WORD_WIDTH = 20


@dataclass(slots=True)
class Figures:
    """The progress of a run."""

    phase: str = ""
    wanted: int = 0  #: total purchases in the topic at the end; 0: no limit
    written: int = 0  #: purchases in the topic now
    to_process: int = 0  #: purchases that the pipeline processes in this run
    processed: int = 0
    committed: int = 0  #: transactions of the pipeline
    aborted: int = 0
    write_s: float = 0.0
    process_s: float = 0.0
    written_here: int = 0  #: by this run
    started_s: float = field(default_factory=time.monotonic)

    @property
    def rates(self) -> str:
        parts = []
        if self.write_s:
            parts.append(f"{self.written_here / self.write_s:,.0f} written/s")
        if self.process_s:
            parts.append(f"{self.processed / self.process_s:,.0f} processed/s")
        return ", ".join(parts)

    @property
    def transactions(self) -> str:
        return f"{self.committed:,} committed, {self.aborted:,} aborted"

    def line(self) -> str:
        parts = [
            self.phase,
            f"written {_of(self.written, self.wanted)}",
            f"processed {_of(self.processed, self.to_process)}",
        ]
        return " · ".join(filter(None, [*parts, f"transactions {self.transactions}", self.rates]))


class Display(Protocol):
    def say(self, line: str) -> None:
        """Print a line."""

    def watching(self, figures: Figures) -> Any:
        """A `with` block in which the figures are shown."""

    def table(self, rows: list[tuple[str, str]], *, is_right: bool) -> None: ...


def display() -> Display:
    return RichDisplay() if sys.stdout.isatty() else PlainDisplay()


class PlainDisplay:
    """For a pipe or a file: lines."""

    def say(self, line: str) -> None:
        print(line, flush=True)  # noqa: T201

    @contextmanager
    def watching(self, figures: Figures) -> Iterator[None]:
        done = threading.Event()

        def watch() -> None:
            last = ""
            while not done.wait(LINE_EVERY_S):
                line = figures.line()
                if line != last:
                    self.say(line)
                    last = line

        thread = threading.Thread(target=watch, name="shop-display", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def table(self, rows: list[tuple[str, str]], *, is_right: bool) -> None:
        for name, value in rows:
            self.say(f"  {name:<{WORD_WIDTH}} {value:>12}")


class RichDisplay:
    """For a terminal: progress bars."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)

    def say(self, line: str) -> None:
        self._console.print(line, markup=False)

    @contextmanager
    def watching(self, figures: Figures) -> Iterator[None]:
        from rich.live import Live

        with Live(
            get_renderable=lambda: _bars(figures),
            console=self._console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        ):
            yield

    def table(self, rows: list[tuple[str, str]], *, is_right: bool) -> None:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE, show_header=False, border_style="green" if is_right else "red")
        table.add_column()
        table.add_column(justify="right")
        for name, value in rows:
            table.add_row(name, value)
        self._console.print(table)


def _bars(figures: Figures) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for label, done, of in (
        ("purchases written", figures.written, figures.wanted),
        ("processed", figures.processed, figures.to_process),
    ):
        bar = ProgressBar(total=of or None, completed=min(done, of) if of else 0, width=40, pulse=not of)
        grid.add_row(Text(label.rjust(WORD_WIDTH)), bar, Text(_of(done, of)))
    grid.add_row(Text("transactions".rjust(WORD_WIDTH)), Text(figures.transactions), Text(figures.rates, style="dim"))
    seconds = time.monotonic() - figures.started_s
    return Group(grid, Text(f"{figures.phase.rjust(WORD_WIDTH)} {seconds:.0f} s", style="dim"))


def _of(done: int, whole: int) -> str:
    return f"{done:,} of {whole:,}" if whole else f"{done:,}"


def rows_of(report: "Report", figures: Figures) -> list[tuple[str, str]]:
    """The table at the end."""
    rows = [
        ("purchases", f"{report.purchases:,}"),
        ("invoices", f"{report.invoices:,}"),
        ("shipments", f"{report.shipments:,}"),
        ("dead letters", f"{report.dead_letters:,}"),
        ("transactions", figures.transactions),
    ]
    if figures.process_s and figures.processed:
        rows.append(("processed", f"{figures.processed / figures.process_s:,.0f} purchases/s"))
    rows.append(("total time", f"{time.monotonic() - figures.started_s:.1f} s"))
    return rows
