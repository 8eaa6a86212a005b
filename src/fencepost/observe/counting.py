"""Counting the records of a range, not its offsets: markers and aborted records have offsets, compaction leaves gaps.

Counting means fetching, so it has a limit in bytes. What lies beyond it is bounded by its offsets, and the answer says
so. 0 is always exact.
"""

from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.scanning import Content, ScannedBatch, scan_batches
from fencepost.wire.terms import TopicPartition

#: What is fetched for a count at most, over all partitions, unless told otherwise.
BYTES_MAX = 64 << 20
FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Count:
    records: int
    is_exact: bool
    oldest_ms: int | None


class Counter:
    """Counts in one partition after the other, until the limit is used up."""

    def __init__(self, cluster: Cluster, bytes_max: int | None) -> None:
        self._cluster = cluster
        self._bytes_max = bytes_max
        self._bytes = 0

    def count(self, where: TopicPartition, start: int, end: int) -> Count:
        records, position, oldest_ms = 0, start, None
        for batch in scan_batches(self._cluster, where, start, end, fetch_bytes=FETCH_BYTES):
            self._bytes += batch.header.size
            if batch.content is Content.RECORDS:
                records += _count_in(batch, start, end)
                if oldest_ms is None and records:
                    oldest_ms = _first_ms(batch, start)
            position = batch.header.last_offset + 1
            if self._is_spent and oldest_ms is not None:
                break
        else:
            position = end
        left = max(0, end - position)
        return Count(records + left, left == 0, oldest_ms)

    @property
    def _is_spent(self) -> bool:
        return self._bytes_max is not None and self._bytes >= self._bytes_max


def _count_in(batch: ScannedBatch, start: int, end: int) -> int:
    header = batch.header
    if start <= header.base_offset and header.last_offset < end:
        return header.record_count
    return sum(start <= record.offset < end for record in batch.records())


def _first_ms(batch: ScannedBatch, start: int) -> int | None:
    found = next(record.timestamp for record in batch.records() if record.offset >= start)
    return found if found >= 0 else None
