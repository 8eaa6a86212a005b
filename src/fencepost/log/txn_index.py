"""The aborted transactions that ended in a segment, in the order of their markers.

Layout of `.txnindex` (big-endian), 34 bytes an entry, as Kafka's::

    version int16 = 0, producerId int64, firstOffset int64, lastOffset int64, lastStableOffset int64

`lastOffset` is the marker's offset. `lastStableOffset` is the LSO after the marker: a reader that meets one beyond its
range has seen every entry that matters to it. Entries are written as they come: there are few of them.
"""

import struct
from dataclasses import dataclass

from fencepost.log.disk import Disk
from fencepost.log.index import IndexFile

VERSION = 0
#: How many entries are read at a time while collecting.
CHUNK_ENTRIES = 128
LAST_OFFSET_FIELD = 3


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex(IndexFile):
    LAYOUT = struct.Struct(">hqqqq")

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__(disk, path, self.LAYOUT, tail_entries=1)

    def load(self) -> bool:
        """A segment without aborted transactions needs no file."""
        return not self._disk.exists(self.path) or super().load()

    def add(self, aborted: AbortedTransaction) -> None:
        self.append(
            VERSION, aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset
        )  # fmt: skip

    def collect(self, start_offset: int, end_offset: int, into: list[AbortedTransaction]) -> bool:
        """Add the aborted transactions with data in [start, end); True when later segments cannot have any more."""
        number = self.floor(start_offset - 1, LAST_OFFSET_FIELD) + 1 if self.count else 0
        while number < self.count:
            for entry in self.entries(number, number + CHUNK_ENTRIES):
                aborted = AbortedTransaction(*entry[1:])
                if aborted.first_offset < end_offset:
                    into.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return True
            number += CHUNK_ENTRIES
        return False

    def spill(self) -> None:
        if self._tail or (self._outdated and self._disk.exists(self.path)):
            super().spill()
