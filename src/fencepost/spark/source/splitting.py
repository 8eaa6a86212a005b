"""Ranges of offsets to tasks. Pure.

By default one task reads one partition's range. Records of one key are in one partition, so they stay in order.
`minPartitions` and `maxRecordsPerPartition` split ranges and lose that order. A small batch is one task: starting a
task costs more than reading some hundred records.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.wire.terms import TopicPartition

#: One task reads a batch of up to this many offsets.
SMALL_BATCH_OFFSETS = 2_000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    where: TopicPartition
    start: int
    end: int
    topic_id: bytes = b""

    @property
    def size(self) -> int:
        return self.end - self.start


def plan_tasks(
    ranges: Sequence[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[list[OffsetRange]]:
    """The ranges of each task."""
    wanted = [each for each in ranges if each.size > 0]
    if not wanted:
        return []
    if min_partitions is None and max_records is None and sum(each.size for each in wanted) <= SMALL_BATCH_OFFSETS:
        return [wanted]
    if max_records is not None:
        wanted = [part for each in wanted for part in divide(each, -(-each.size // max_records))]
    if min_partitions is not None and len(wanted) < min_partitions:
        wanted = _spread(wanted, min_partitions)
    return [[each] for each in wanted]


def divide(given: OffsetRange, parts: int) -> list[OffsetRange]:
    """Split into `parts` of about the same size."""
    parts = max(1, min(parts, given.size))
    bounds = [given.start + given.size * part // parts for part in range(parts + 1)]
    return [OffsetRange(given.where, first, last, given.topic_id) for first, last in itertools.pairwise(bounds)]


def _spread(ranges: Sequence[OffsetRange], at_least: int) -> list[OffsetRange]:
    """Split the large ranges in proportion to their size, so that there are about `at_least`."""
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _parts(each.size, total, at_least) == 1}
    left_total = total - sum(each.size for each in whole)
    left_parts = max(1, at_least - len(whole))
    found: list[OffsetRange] = []
    for each in ranges:
        found += [each] if each in whole else divide(each, _parts(each.size, left_total, left_parts))
    return found


def _parts(size: int, total: int, wanted: int) -> int:
    return max(1, round(size / total * wanted))
