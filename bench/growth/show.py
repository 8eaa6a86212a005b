"""A curve as a table and a plot, and what its slope says. Pure but for the report that it adds to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.harness import chart
from bench.harness.report import Cell, Report

TITLES = {"fencepost": "our broker", "kafka": "Apache Kafka"}


@dataclass(frozen=True, slots=True)
class Axes:
    x: str
    y: str
    log_y: bool = True


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """How y grows with x over the upper half of the points: 0 is flat, 1 is in proportion. None if x does not grow."""
    if len(points) < 2:
        return None
    in_order = sorted(points)
    (x1, y1), (x2, y2) = in_order[(len(in_order) - 1) // 2], in_order[-1]
    return math.log(y2 / y1) / math.log(x2 / x1) if x2 > x1 and min(y1, y2) > 0 else None


def add(
    report: Report,
    name: str,
    caption: str,
    axes: Axes,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    series: Mapping[str, Sequence[tuple[float, float]]],
) -> None:
    """`series` are drawn; where there are enough points the caption says how they grow."""
    drawn = {label: [(x, y) for x, y in points if x > 0 and y > 0] for label, points in series.items()}
    drawn = {label: points for label, points in drawn.items() if points}
    grown = {label: exponent(points) for label, points in drawn.items()}
    said = ", ".join(f"{label} x^{power:.2f}" for label, power in grown.items() if power is not None)
    whole = f"{caption}. {axes.y} grows at the end of the curve as: {said}" if said else caption
    title = caption.partition(":")[0]
    plots = {f"growth-{name}": chart.lines(title, axes.x, axes.y, drawn, log_y=axes.log_y)} if drawn else {}
    report.table(whole, columns, rows, section=f"growth-{name}", plots=plots)
