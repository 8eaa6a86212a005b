"""How much of what is there the next batch takes: the limits, and the wait for enough. Pure.

Spark has no limit that means "at least so much, at most so much, but do not wait longer than that", so the three are
put together here, as Spark's own Kafka source does it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.spark.offsets_json import Positions
from fencepost.wire.terms import TopicPartition


def backlog(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Positions:
    """How many offsets lie between, for each partition of `end`."""
    return {where: max(0, offset - start[where]) for where, offset in end.items()}


def limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int) -> Positions:
    """The part of the way from `start` to `end` that is about `most` offsets long.

    Each partition gets its share by what it holds, and none with records is left out altogether: with more such
    partitions than `most`, each gets one.
    """
    sizes = backlog(start, end)
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    return {where: start[where] + max(1, most * size // total) if size else end[where] for where, size in sizes.items()}


@dataclass(slots=True)
class Gate:
    """Holds a batch back until there is enough for it, or the last one was long ago. The first is never held back."""

    least: int
    max_delay_ms: int
    opened_ms: int | None = None  #: when the last batch went through

    def opens(self, waiting: int, now_ms: int) -> bool:
        long_ago = self.opened_ms is None or now_ms - self.opened_ms >= self.max_delay_ms
        if waiting and (long_ago or waiting >= self.least):
            self.opened_ms = now_ms
            return True
        return False
