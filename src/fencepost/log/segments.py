"""The segments of one log in order, and lookups over all of them.

Invariant: base offsets ascend, and every segment but the last, the active one, ends where the next begins.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from fencepost.log.segment import Segment
from fencepost.log.txn_index import LAST_OFFSET_FIELD, AbortedTransaction
from fencepost.wire.batch import BatchHeader

_base_offset = attrgetter("base_offset")
_first_offset = attrgetter("first_offset")


class Segments:
    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        self.last_aborted_offset = max((last_aborted(segment) for segment in segments), default=-1)
        #: Where a read that came to the end of what is readable left off: the next one most likely begins there.
        self._cursor: tuple[int, Segment | None, int] = (-1, None, 0)

    @property
    def active(self) -> Segment | None:
        return self.all[-1] if self.all else None

    def number_of(self, offset: int) -> int:
        """Which segment may hold `offset`."""
        if self.all[-1].base_offset <= offset:
            return len(self.all) - 1
        return max(bisect_right(self.all, offset, key=_base_offset) - 1, 0)

    def locate(self, offset: int, end_offset: int) -> tuple[Segment, int] | None:
        """The segment and position of the first batch that ends at or after `offset`.

        Batches that compaction emptied are passed over if one with records follows before `end_offset`: a Java
        consumer that receives nothing else returns from `poll` without records.
        """
        number = self.number_of(offset)
        cursor_offset, segment, position = self._cursor
        if offset == cursor_offset and self.all[number] is segment and position < segment.size:
            return segment, position
        emptied: tuple[Segment, int] | None = None
        for candidate in range(number, len(self.all)):
            segment = self.all[candidate]
            for position, header in segment.headers_from(offset):
                if header.record_count and (emptied is None or header.base_offset < end_offset):
                    return segment, position
                if header.base_offset >= end_offset:
                    return emptied
                emptied = emptied or (segment, position)
        return emptied

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """`offset` begins, or will begin, at `position`."""
        self._cursor = (offset, segment, position)

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch from the one that holds `offset` on."""
        if self.all:
            for segment in self.all[self.number_of(offset) :]:
                yield from segment.batches_from(offset)

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with data in [start, end), ascending by first offset."""
        found: list[AbortedTransaction] = []
        if self.last_aborted_offset >= start_offset and self.all:
            for segment in self.all[self.number_of(start_offset) :]:
                if segment.txn_index.collect(start_offset, end_offset, found):
                    break
        return sorted(found, key=_first_offset)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        self.all[-1].txn_index.add(aborted)
        self.last_aborted_offset = aborted.last_offset

    def ends(self) -> list[int]:
        """The base offset of each segment's successor; the active one has none."""
        return [segment.base_offset for segment in self.all[1:]]

    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.all)

    def release(self) -> None:
        for segment in self.all:
            segment.release()


def last_aborted(segment: Segment) -> int:
    """The offset of the last abort marker in a segment, -1 when there is none."""
    entry = segment.txn_index.last()
    return entry[LAST_OFFSET_FIELD] if entry else -1
