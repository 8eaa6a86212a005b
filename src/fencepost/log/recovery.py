"""Loads a partition's directory into memory after a clean shutdown, a kill or a power failure.

After a clean shutdown only the ends of the files and the newest producer snapshot are read. Otherwise everything from
the recovery point on is read: batches are checked, the first invalid one and all after it are cut off, and the indexes,
the aborted transactions and the producers are rebuilt. Invariant: what was synced before the recovery point is not read
again, and what is loaded is one unbroken sequence of batches.
"""

import logging
import os
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter

from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.log import files, snapshot
from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.epochs import LeaderEpochs
from fencepost.log.partition_directory import PartitionDirectory
from fencepost.log.producers import Producers
from fencepost.log.segment import Segment
from fencepost.log.swap import finish_swaps
from fencepost.log.txn_index import AbortedTransaction
from fencepost.wire.batch import BatchHeader
from fencepost.wire.records import decode_marker

logger = logging.getLogger(__name__)
_base_offset = attrgetter("base_offset")


@dataclass(slots=True)
class Loaded:
    """A log as found on disk."""

    #: With the snapshots that were found, and what was changed while loading and is not synced yet.
    directory: PartitionDirectory
    segments: list[Segment] = field(default_factory=list)
    producers: Producers = field(default_factory=Producers)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    #: Whether everything that a clean shutdown leaves behind was there.
    clean: bool = True


def load(
    disk: Disk, directory: str, config: LogConfig, now_ms: int,
    *, clean_shutdown: bool, recovery_point: int, log_start_offset: int,
) -> Loaded:  # fmt: skip
    """The log in `directory`, an empty one when there is none. Raises KafkaError for damage that cannot be cut off."""
    given = (config, now_ms, recovery_point, log_start_offset)
    if clean_shutdown:
        try:
            return Loader(PartitionDirectory(disk, directory), *given, clean=True).load()
        except KafkaError as error:
            logger.warning("%s: shut down cleanly, but %s; checking its batches", directory, error)
    return Loader(PartitionDirectory(disk, directory), *given, clean=False).load()


class Loader:
    """Loads one directory; used once."""

    def __init__(
        self, home: PartitionDirectory, config: LogConfig, now_ms: int, recovery_point: int, log_start: int,
        *, clean: bool,
    ) -> None:  # fmt: skip
        self._home = home
        self._disk = home.disk
        self._config = config
        self._now_ms = now_ms
        self._clean = clean
        self._recovery_point = recovery_point
        self._wanted_start = log_start
        self._log = Loaded(home, log_start_offset=log_start, log_end_offset=log_start, recovery_point=log_start)

    def load(self) -> Loaded:
        log = self._log
        try:
            names = self._disk.listdir(self._home.path)
        except FileNotFoundError:
            return log
        names = self._sweep(names)
        first_rebuilt = self._open_segments(names)
        if not log.segments:
            return log
        log.clean = first_rebuilt == len(log.segments)
        epochs_known = self._read_epochs(names)
        if log.clean:
            log.recovery_point = log.segments[-1].end_offset()
            self._restore_producers(first_rebuilt, log.recovery_point)
        else:
            first = log.segments[first_rebuilt]
            sizes_found = [segment.size for segment in log.segments]
            log.recovery_point = self._recovery_point if self._resume(first) else first.base_offset
            self._restore_producers(first_rebuilt, log.recovery_point)
            self._rebuild(first_rebuilt, sizes_found)
        log.log_end_offset = log.segments[-1].end_offset()
        self._restart_beyond_end()
        log.log_start_offset = max(self._wanted_start, log.segments[0].base_offset)
        self._home.drop_snapshots_after(log.log_end_offset)
        if not epochs_known:
            self._recollect_epochs()
        log.epochs.truncate_from_end(log.log_end_offset)
        for segment in log.segments:
            segment.release()
        return log

    # ------------------------------------------------------------------------------------------------- finding files

    def _sweep(self, names: list[str]) -> list[str]:
        """Remove what an interrupted write, deletion or compaction left behind."""
        if any(name.endswith((files.CLEANED, files.SWAP)) for name in names):
            finish_swaps(self._disk, self._home.path)
            names = self._disk.listdir(self._home.path)
        stray = [name for name in names if name.endswith((files.TEMPORARY, files.DELETED))]
        for name in stray:
            self._disk.unlink(os.path.join(self._home.path, name))
        return [name for name in names if name not in stray] if stray else names

    def _open_segments(self, names: list[str]) -> int:
        """Open every segment; returns the number of the first that has to be rebuilt."""
        log = self._log
        by_suffix: dict[str, set[int]] = {suffix: set() for suffix in (*files.SEGMENT_SUFFIXES, files.SNAPSHOT)}
        for name in names:
            parsed = files.parse(name)
            if parsed is not None and parsed[1] in by_suffix:
                by_suffix[parsed[1]].add(parsed[0])
        self._home.snapshots = by_suffix[files.SNAPSHOT]
        bases = sorted(by_suffix[files.LOG])
        for suffix in (files.INDEX, files.TIME_INDEX, files.TXN_INDEX):
            for orphan in by_suffix[suffix].difference(bases):
                self._disk.unlink(os.path.join(self._home.path, files.name(orphan, suffix)))
        rebuild_from = len(bases) if self._clean else self._first_unsynced(bases)
        for number, base in enumerate(bases):
            segment = Segment(self._disk, self._home.path, base, created_ms=self._now_ms)
            log.segments.append(segment)
            with suppress(KafkaError):  # a first batch that is no batch: seen again, and dealt with, when rebuilding
                if segment.load():
                    continue
            rebuild_from = min(rebuild_from, number)
        return rebuild_from

    def _first_unsynced(self, bases: list[int]) -> int:
        """The number of the segment that was active at the recovery point."""
        number = max(bisect_right(bases, self._recovery_point) - 1, 0)
        if number and bases[number] == self._recovery_point and self._place_at_recovery_point() is not None:
            # It was noted at the end of a segment that was closed later. Unsynced batches may follow there.
            return number - 1
        return number

    def _place_at_recovery_point(self) -> snapshot.Place | None:
        """Where in a segment the recovery point lies, if a snapshot says so."""
        if self._recovery_point not in self._home.snapshots:
            return None
        path = self._home.snapshot_path(self._recovery_point)
        try:
            return snapshot.decode(self._disk.read_bytes(path), Producers(), self._now_ms)
        except Malformed as error:
            logger.warning("%s: %s", path, error)
            return None

    def _read_epochs(self, names: list[str]) -> bool:
        if files.LEADER_EPOCHS not in names:
            return False
        try:
            data = self._disk.read_bytes(os.path.join(self._home.path, files.LEADER_EPOCHS))
            self._log.epochs = LeaderEpochs.decode(data)
        except Malformed as error:
            logger.warning("%s: %s; collecting epochs from the batches", self._home.path, error)
            return False
        return True

    # ----------------------------------------------------------------------------------------------- producer state

    def _restore_producers(self, first_rebuilt: int, limit: int) -> None:
        """The producers as they were at `limit`: where rebuilding begins, or at the end of the log."""
        log = self._log
        # Later ones may be torn, or tell of batches that were lost. They are written again while rebuilding.
        self._home.drop_snapshots_after(limit)
        start = self._load_snapshot()
        first = bisect_right(log.segments, start, key=_base_offset) - 1
        for segment in log.segments[max(first, 0) : first_rebuilt]:
            for header, batch in segment.batches_from(start):
                if header.base_offset >= start:
                    self._note(header, batch)

    def _load_snapshot(self) -> int:
        """Load the newest sound snapshot; returns the offset up to which it holds."""
        log = self._log
        earliest = log.segments[0].base_offset
        for offset in sorted(self._home.snapshots, reverse=True):
            if offset < earliest:
                break
            path = self._home.snapshot_path(offset)
            try:
                snapshot.decode(self._disk.read_bytes(path), log.producers, self._now_ms)
            except Malformed as error:
                logger.warning("%s: %s; using an older one", path, error)
                self._home.drop_snapshots({offset})
                log.producers.clear()
            else:
                return offset
        return earliest

    def _note(self, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
        """Apply a batch of the log to the producers."""
        if header.producer_id < 0:
            return None
        producers = self._log.producers
        if not header.is_control:
            producers.add_data(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence,
                header.base_offset, header.last_offset, header.max_timestamp, header.attributes, self._now_ms,
            )  # fmt: skip
            return None
        # A control batch that compaction emptied says nothing any more.
        marker = decode_marker(batch) if header.record_count else None
        if marker is None:
            return None
        return producers.add_marker(
            header.producer_id, header.producer_epoch, marker.coordinator_epoch, header.base_offset,
            header.max_timestamp, self._now_ms, commit=marker.commit,
        )  # fmt: skip

    # --------------------------------------------------------------------------------------------------- rebuilding

    def _resume(self, segment: Segment) -> bool:
        """Continue from the recovery point if it is within `segment` and its snapshot says where."""
        offset = self._recovery_point
        place = self._place_at_recovery_point()
        if self._clean or offset <= segment.base_offset or place is None:
            return False
        try:
            return segment.cut_back(offset, place.position, place[1:])
        except KafkaError as error:
            logger.warning("%s: cannot go on from offset %d: %s", segment.path(files.LOG), offset, error)
            return False

    def _rebuild(self, first_rebuilt: int, sizes_found: list[int]) -> None:
        log, home = self._log, self._home
        # Names too may be in the page cache only. For `leader-epoch-checkpoint` and `partition.metadata` that is all:
        # their content was synced before they got their names.
        home.names_changed()
        home.dirty.paths.update(dict.fromkeys(map(home.snapshot_path, home.snapshots)))
        for number in range(first_rebuilt, len(log.segments)):
            segment = log.segments[number]
            if number and not self._continues(log.segments[number - 1], segment):
                self._cut_from(number)
                return
            if number:
                home.take_snapshot(log.producers, segment.base_offset)
            if not self._rebuild_segment(segment, sizes_found[number]):
                self._cut_from(number + 1)
                return
            if number + 1 < len(log.segments):  # the active one goes with every sync
                home.completed(segment)

    def _continues(self, before: Segment, segment: Segment) -> bool:
        """Whether a segment begins where the one before it ends. If not, what lay between was never synced."""
        end = before.end_offset()
        if end == segment.base_offset or (end < segment.base_offset and segment.base_offset <= self._recovery_point):
            return True
        if end > segment.base_offset and segment.base_offset <= self._recovery_point:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self._home.path}: segments {before.base_offset} and {segment.base_offset} overlap",
            )
        return False

    def _rebuild_segment(self, segment: Segment, size_found: int) -> bool:
        """Check every batch and rebuild the indexes; False if a part of the segment was cut off."""
        next_offset = self._log.recovery_point
        if next_offset <= segment.base_offset:
            next_offset = segment.base_offset
            segment.forget()
        for header, batch in segment.sound_batches(next_offset, size_found):
            segment.adopt(len(batch), header.last_offset, header.max_timestamp, self._config.index_interval_bytes)
            aborted = self._note(header, batch)
            if aborted is not None:
                segment.txn_index.add(aborted)
            self._log.epochs.assign(header.leader_epoch, header.base_offset)
        if segment is not self._log.segments[-1]:
            # The active one keeps its newest entries in memory, which spares creating two files for every partition.
            segment.complete()
        if segment.size == size_found:
            return True
        logger.warning(
            "%s: %d bytes after offset %d are invalid and are cut off",
            segment.path(files.LOG), size_found - segment.size, segment.end_offset(),
        )  # fmt: skip
        segment.file.truncate(segment.size)
        return False

    def _cut_from(self, number: int) -> None:
        """Everything after the first hole was never acknowledged."""
        log = self._log
        for segment in log.segments[number:]:
            logger.warning("%s: dropped, it is after the end of the valid log", segment.path(files.LOG))
            segment.unlink()
        if log.segments[number:]:
            self._disk.fsync_dir(self._home.path)
        del log.segments[number:]

    def _restart_beyond_end(self) -> None:
        """If the log start is after the log's end, deleted records were lost as well: begin at the log start."""
        log = self._log
        if self._wanted_start <= log.log_end_offset:
            return
        logger.warning("%s: ends at %d, before its start %d", self._home.path, log.log_end_offset, self._wanted_start)
        for segment in log.segments:
            segment.unlink()
        log.segments = [self._home.new_segment(self._wanted_start, self._now_ms)]
        log.log_end_offset = log.recovery_point = self._wanted_start
        log.producers.clear()
        log.epochs = LeaderEpochs()
        self._home.drop_snapshots_after(-1)

    def _recollect_epochs(self) -> None:
        epochs = LeaderEpochs()
        for segment in self._log.segments:
            for _, header in segment.headers(0, segment.size):
                epochs.assign(header.leader_epoch, header.base_offset)
        self._log.epochs = epochs
