"""The end of a log, where batches are written: when a new segment begins, and under which leader epoch.

Invariants: a write that raises has changed nothing that counts; when a segment is left behind, its indexes and a
snapshot of the producers are written first, and go with the same sync as the first batch of its successor.
"""

import struct

from fencepost.clock import Clock
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.config import LogConfig
from fencepost.log.epochs import LeaderEpochs
from fencepost.log.flush import Mark
from fencepost.log.partition_directory import PartitionDirectory
from fencepost.log.producers import Producers
from fencepost.log.segment import MAX_RELATIVE, Segment
from fencepost.log.segments import Segments
from fencepost.log.snapshot import Place
from fencepost.wire.batch import LOG_OVERHEAD

NEVER = 2**63
#: An index has to have room for one more entry of the larger kind.
INDEX_ENTRY_BYTES = 12
_PLACE = struct.Struct(">qii")  # base offset, length (as it was), leader epoch: all before the CRC


class Tail:
    def __init__(
        self, directory: PartitionDirectory, topic_id: bytes, segments: Segments, producers: Producers,
        epochs: LeaderEpochs, clock: Clock, config: LogConfig, end_offset: int, *, clean: bool,
    ) -> None:  # fmt: skip
        self._directory = directory
        self._topic_id = topic_id
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._clock = clock
        self._epoch_begun = epochs.latest
        self.active = segments.active
        self.end_offset = end_offset
        #: Whether a sync has been to the disk since the first segment was made.
        self.has_synced = clean and bool(segments.all)
        #: Up to here the active segment's indexes and a snapshot are written down, if not yet synced, and how many
        #: bytes of the segment that covers.
        self._settled_offset, self._settled_bytes = end_offset, 0
        if self.active is not None:
            if clean:
                self._settled_bytes = self.active.size
            else:
                self._settled_offset = self.active.base_offset
        #: Whether a segment was closed and has to be synced.
        self.has_rolled = False
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        self._segment_bytes = config.segment_bytes
        self._max_segment_ms = config.max_segment_ms
        self._index_interval = config.index_interval_bytes
        self._max_index_entries = config.segment_index_bytes // INDEX_ENTRY_BYTES
        self._set_limits()

    def write(self, view: memoryview, size: int, last_offset: int, max_timestamp: int, leader_epoch: int) -> None:
        """Put a batch at the end of the log, with its offset and leader epoch in it. Raises OSError or KafkaError."""
        segment = self.active
        if (
            segment is None
            or segment.size + size > self._segment_bytes
            or max_timestamp > self._roll_after_timestamp
            or last_offset > self._roll_after_offset
            or segment.index.count >= self._max_index_entries
        ):
            segment = self._segment_for(size)
        if leader_epoch != self._epoch_begun:
            self._begin_epoch(leader_epoch)
        _PLACE.pack_into(view, 0, self.end_offset, size - LOG_OVERHEAD, leader_epoch)
        if segment.append(view, size, last_offset, max_timestamp, self._index_interval) == 0:
            self._set_limits()
        self.end_offset = last_offset + 1

    def mark(self) -> Mark:
        """Where the log ends now."""
        active = self.active
        if active is None:
            return Mark(self.end_offset, 0, 0, self.end_offset)
        return Mark(self.end_offset, active.base_offset, active.size, self._settled_offset)

    def roll(self) -> Segment:
        """Begin a new segment at the log's end. After an OSError the old one stays active."""
        old = self.active
        if old is not None:
            if old.size == 0:
                return old
            if not self.has_synced:
                # If the first segment's name got lost and the next one's did not, the log would seem to begin there.
                self._directory.sync_names()
                self.has_synced = True
            old.complete()
            self._directory.take_snapshot(self._producers, self.end_offset)
        new = self._directory.new_segment(self.end_offset, self._clock.now_ms())
        if old is not None:
            self._directory.completed(old)
        self._segments.all.append(new)
        self.active = new
        self._settled_offset, self._settled_bytes = self.end_offset, 0
        self.has_rolled = True
        self._set_limits()
        return new

    @property
    def unsettled_bytes(self) -> int:
        """How much recovery would have to go through in the active segment."""
        return self.active.size - self._settled_bytes if self.active is not None else 0

    def settle(self) -> None:
        """Write down the indexes and producers: with the next sync, recovery can begin here. Raises OSError."""
        active = self.active
        if active is not None:
            active.complete()
            place = Place(active.size, active.index.count, active.time_index.count, active.txn_index.count)
            self._directory.take_snapshot(self._producers, self.end_offset, place)
            self._directory.completed(active)
            self._settled_offset, self._settled_bytes = self.end_offset, active.size

    def _segment_for(self, size: int) -> Segment:
        if size > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes; segment.bytes is {self._segment_bytes}"
            )
        if self.active is None:
            self._directory.create(self._topic_id)
        return self.roll()

    def _begin_epoch(self, leader_epoch: int) -> None:
        """Batches from here on carry another leader epoch. The file is synced together with the first of them."""
        if self._epochs.assign(leader_epoch, self.end_offset):
            self._directory.save_epochs(self._epochs)
        self._epoch_begun = leader_epoch

    def _set_limits(self) -> None:
        active = self.active
        self._roll_after_timestamp = self._roll_after_offset = NEVER
        if active is not None:
            self._roll_after_offset = active.base_offset + MAX_RELATIVE
            if active.first_timestamp >= 0 and active.size:
                self._roll_after_timestamp = active.first_timestamp + self._max_segment_ms
