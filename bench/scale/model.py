"""The model: how long a batch takes, and from that what a load needs. Pure.

    batch_ms   = fixed_ms + input_ms · inputs + output_ms · outputs + work_ms / cores
    work_ms    = records · (record_us + byte_ns · record_bytes / 1000) / 1000
    visible_ms = commit_ms + marker_ms · outputs

`work_ms` is what executors share. Everything before it happens once for a batch, most of it in the driver, and no
executor shortens it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.scale.observations import Batch

#: Batches that take nearly all of their interval fall behind at the first disturbance.
HEADROOM = 0.8


@dataclass(frozen=True, slots=True)
class Coefficients:
    fixed_ms: float
    input_ms: float
    output_ms: float
    record_us: float
    byte_ns: float


@dataclass(frozen=True, slots=True)
class Line:
    """y = base + slope · x."""

    base: float
    slope: float

    def at(self, x: float) -> float:
        return self.base + self.slope * x


@dataclass(frozen=True, slots=True)
class Load:
    records_per_s: float
    record_bytes: int
    interval_s: float
    input_partitions: int
    output_partitions: int


@dataclass(frozen=True, slots=True)
class Need:
    """`cores` is None if the part that happens once takes the whole interval: then no number of executors is enough."""

    once_share: float
    cores: int | None
    writer_partitions: int
    shuffle_mb_per_s: float


def fit(points: Sequence[Batch]) -> Coefficients:
    """Least squares of the relative errors, so that small batches count; no coefficient is below zero."""
    if len(points) < len(Coefficients.__slots__):
        raise ValueError(f"{len(points)} points are too few for {len(Coefficients.__slots__)} coefficients")
    measured = np.array([point.ms for point in points])
    terms = np.array([_terms(point) for point in points]) / measured[:, None]
    free = list(range(terms.shape[1]))
    found = np.zeros(terms.shape[1])
    while free:
        solved, *_ = np.linalg.lstsq(terms[:, free], np.ones(len(points)), rcond=None)
        if solved.min() >= 0:
            found[free] = solved
            break
        free.pop(int(solved.argmin()))  # a cost cannot be negative: without it the others are fitted again
    return Coefficients(*(float(value) for value in found))


def batch_ms(of: Coefficients, point: Batch) -> float:
    values = (of.fixed_ms, of.input_ms, of.output_ms, of.record_us, of.byte_ns)
    return sum(value * term for value, term in zip(values, _terms(point), strict=True))


def line(points: Sequence[tuple[float, float]]) -> Line:
    """Through points whose errors are in proportion to them."""
    x, y = (np.array(values, float) for values in zip(*points, strict=True))
    terms = np.stack([np.ones_like(x), x], 1) / y[:, None]
    (base, slope), *_ = np.linalg.lstsq(terms, np.ones_like(y), rcond=None)
    return Line(max(0.0, float(base)), max(0.0, float(slope)))


def need(of: Coefficients, load: Load, send_s_per_gb: float) -> Need:
    """What this load takes, if a batch is to be over within HEADROOM of its interval."""
    interval_ms = 1000 * load.interval_s
    once_ms = of.fixed_ms + of.input_ms * load.input_partitions + of.output_ms * load.output_partitions
    records = load.records_per_s * load.interval_s
    work_ms = records * (of.record_us + of.byte_ns * load.record_bytes / 1000) / 1000
    left_ms = HEADROOM * interval_ms - once_ms
    megabytes = load.records_per_s * load.record_bytes / 1e6
    # A partition has one writer. While others work it sends, so it may take the time that is left.
    send_ms = records * load.record_bytes / 1e9 * send_s_per_gb * 1000
    possible = left_ms > 0
    return Need(
        once_ms / interval_ms,
        max(1, math.ceil(work_ms / left_ms)) if possible else None,
        max(1, math.ceil(send_ms / left_ms)) if possible else 0,
        megabytes,
    )


def _terms(point: Batch) -> tuple[float, ...]:
    shared = point.records / point.cores
    return (
        1.0,
        float(point.input_partitions),
        float(point.output_partitions),
        shared / 1000,
        shared * point.record_bytes / 1e6,
    )
