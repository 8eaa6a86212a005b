"""What a run of the shop prints: its progress, and the table at the end.

On a terminal two progress bars; elsewhere a line whenever something has changed, so that logs stay readable. Owns the
terminal: no other module prints. Any thread may change `Figures`; the display only reads them.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

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


class Display:
    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._console = Console(force_terminal=self._is_terminal, highlight=False, soft_wrap=True)

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False)

    def watching(self, figures: Figures) -> AbstractContextManager[object]:
        """A `with` block in which the figures are shown."""
        if not self._is_terminal:
            return self._lines(figures)
        return Live(
            get_renderable=lambda: _bars(figures),
            console=self._console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )

    @contextmanager
    def _lines(self, figures: Figures) -> Iterator[None]:
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

    def table(self, rows: list[tuple[str, str]]) -> None:
        table = Table(box=box.SIMPLE, show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)


def _bars(figures: Figures) -> RenderableType:
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
