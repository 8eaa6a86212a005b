"""How much the next batch reads: its limits, and the wait for enough records. Pure.

Spark has no read limit that combines a minimum, a maximum and a longest wait. So they are combined here, like in
Spark's own Kafka source.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.spark.offsets_json import Positions
from fencepost.wire.terms import TopicPartition


def backlog(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Positions:
    """The number of offsets from `start` to `end`, for each partition of `end`."""
    return {where: max(0, offset - start[where]) for where, offset in end.items()}


def limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int) -> Positions:
    """An end that is about `most` offsets after `start`.

    `most` is split in proportion to each partition's backlog. Every partition with a backlog gets at least one offset,
    even if there are more of them than `most`.
    """
    sizes = backlog(start, end)
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    return {where: start[where] + max(1, most * size // total) if size else end[where] for where, size in sizes.items()}


@dataclass(slots=True)
class Gate:
    """Delays a batch until there is enough for it, or the last batch was too long ago. Never delays the first batch."""

    least: int
    max_delay_ms: int
    opened_ms: int | None = None  #: when the last batch passed

    def opens(self, waiting: int, now_ms: int) -> bool:
        long_ago = self.opened_ms is None or now_ms - self.opened_ms >= self.max_delay_ms
        if waiting and (long_ago or waiting >= self.least):
            self.opened_ms = now_ms
            return True
        return False
