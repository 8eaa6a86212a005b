"""From samples to a rate: the work between the end of the warm-up and the end of everything. Pure.

The clock starts at the first sample by which the warm-up's share is visible, and stops at the first by which all is. A
system that commits in batches is measured from one commit to another, so it gains and loses nothing by their size. CPU
is counted over the same samples. Whether all was warm is told by `drift`, the rate of the second half to that of the
first, and by what the compilers used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.race.clock import NotFinished, Sample
from bench.race.outputs import Weights
from fencepost.wire.terms import TopicPartition

#: Sums of halves are not exact.
NEARLY_ALL = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Window:
    records: float
    seconds: float
    cpu_s: Mapping[str, float]
    drift: float | None
    others_cores: float  #: what everybody else on the machine kept busy, the clock included
    compilers_s: float  #: of `cpu_s`: what the compilers of the client's JVM used

    @property
    def rate(self) -> float:
        return self.records / self.seconds

    def cpu_s_per_million(self, kind: str) -> float:
        return self.cpu_s.get(kind, 0.0) / self.records * 1e6

    @property
    def compilers_s_per_million(self) -> float:
        return self.compilers_s / self.records * 1e6

    @property
    def all_cpu_s_per_million(self) -> float:
        return sum(self.cpu_s.values()) / self.records * 1e6


def progress(samples: Sequence[Sample], weights: Mapping[TopicPartition, Weights]) -> list[float]:
    """How much of the work was visible at each sample."""
    return [sum(weights[where].before(end) for where, end in each.ends.items() if where in weights) for each in samples]


def window(
    samples: Sequence[Sample], weights: Mapping[TopicPartition, Weights], records: float, warm_up: float
) -> Window:
    """`records` is all the work, `warm_up` the share of it that is not counted."""
    done = progress(samples, weights)
    last = _first(done, NEARLY_ALL * records)
    first = _first(done, warm_up * records)
    if first is None or last is None:
        raise NotFinished(f"only {max(done, default=0):,.0f} of {records:,.0f} purchases are visible")
    if first >= last:
        raise NotFinished("everything became visible at once: more records or smaller batches are needed")
    begin, end = samples[first], samples[last]
    cpu_s = {kind: used - begin.cpu_s.get(kind, 0.0) for kind, used in end.cpu_s.items()}
    seconds = end.time_s - begin.time_s
    others_s = end.machine_s - begin.machine_s - sum(cpu_s.values())
    drift = _drift(samples, done, first, last)
    compilers_s = end.compilers_s - begin.compilers_s
    return Window(done[last] - done[first], seconds, cpu_s, drift, max(0.0, others_s / seconds), compilers_s)


def _first(done: Sequence[float], least: float) -> int | None:
    return next((index for index, each in enumerate(done) if each >= least), None)


def _drift(samples: Sequence[Sample], done: Sequence[float], first: int, last: int) -> float | None:
    """None if there is no commit in between."""
    half = _first(done, (done[first] + done[last]) / 2)
    if half is None or not first < half < last:
        return None
    before = (done[half] - done[first]) / (samples[half].time_s - samples[first].time_s)
    after = (done[last] - done[half]) / (samples[last].time_s - samples[half].time_s)
    return after / before
