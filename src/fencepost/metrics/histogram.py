"""Durations, counted in buckets. Cheap enough for every request: one search in a short tuple and two additions."""

from bisect import bisect_left

#: Upper bounds in seconds. From what a request in memory takes to what a client no longer waits for.
BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: For what takes from a hundredth of a second to an hour: transactions, batches of a pipeline.
LONG_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Histogram:
    __slots__ = ("_bounds_ns", "bounds_s", "counts", "total_ns")

    def __init__(self, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self._bounds_ns = tuple(round(bound * NS_PER_S) for bound in bounds_s)
        #: By bucket, each without those before it. The last one has no upper bound.
        self.counts = [0] * (len(bounds_s) + 1)
        self.total_ns = 0

    def observe_ns(self, duration_ns: int) -> None:
        self.counts[bisect_left(self._bounds_ns, duration_ns)] += 1
        self.total_ns += duration_ns

    @property
    def count(self) -> int:
        return sum(self.counts)
