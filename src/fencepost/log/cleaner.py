"""Compacts a log while it is in use: decides what is due, copies on a background thread, swaps on the event loop.

One run goes through the log's closed segments, group by group, and twice. The first pass removes what is superseded.
The second merges neighbours that are small enough now, so that a log does not keep one file per segment it ever had::

    loop    choose the dirty stretch and the groups, note producers and aborted transactions
    thread  map the newest offset of every key; write the group's new segment (`.cleaned`), sync it, name it `.swap`
    loop    put it in the place of the old segments
    thread  remove the old files, give the new ones their names (see `swap`)
    loop    the next group, the second pass, or the end of the run

The thread works on files of its own and on values that do not change. Invariant: only segments that are closed, synced
and below the last stable offset are touched, so every transaction in them is decided.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.clock import Clock
from fencepost.errors import FencepostError
from fencepost.log import files, swap
from fencepost.log.compaction import BatchFilter, LastRecord, TransactionTracker, raw_records
from fencepost.log.config import FOREVER, LogConfig
from fencepost.log.offset_map import OffsetMap
from fencepost.log.segment import MAX_RELATIVE, Segment
from fencepost.wire.batch import read_header

if TYPE_CHECKING:
    from fencepost.log.partition import PartitionLog

logger = logging.getLogger(__name__)

#: The thread works this long, then leaves the interpreter to the event loop for as long again.
WORK_MS = 2


class Cancelled(FencepostError):
    """The log is being closed or deleted."""


class Pace:
    """Keeps a background thread from starving the event loop, and ends it when the run is cancelled."""

    def __init__(self, clock: Clock) -> None:
        self.cancelled = threading.Event()
        self._clock = clock
        self._since_ms = clock.monotonic_ms()

    def breathe(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled
        if self._clock.monotonic_ms() - self._since_ms >= WORK_MS:
            self._clock.block_ms(WORK_MS)
            self._since_ms = self._clock.monotonic_ms()


def first_uncleanable(log: "PartitionLog", now_ms: int) -> int:
    """The offset up to which the log may be compacted."""
    if not log.segments.all:
        return log.log_start_offset
    limit = min(log.last_stable_offset, log.recovery_point, log.segments.all[-1].base_offset)
    if log.config.min_compaction_lag_ms > 0:
        for segment in log.segments.all:
            if segment.max_timestamp > now_ms - log.config.min_compaction_lag_ms:
                return min(limit, segment.base_offset)
    return limit


def is_due(log: "PartitionLog") -> bool:
    """Whether enough of the log is dirty, or some of it has been for too long."""
    if not log.config.compacts or log.cleaning is not None or log.failed:
        return False
    now_ms = log.clock.now_ms()
    limit = first_uncleanable(log, now_ms)
    clean_bytes = dirty_bytes = 0
    overdue = False
    for segment, end in zip(log.segments.all, log.segments.ends(), strict=False):
        if end > limit:
            break
        if end <= log.cleaned_offset:
            clean_bytes += segment.size
        else:
            dirty_bytes += segment.size
            lag_ms = log.config.max_compaction_lag_ms
            overdue = overdue or (lag_ms != FOREVER and 0 <= segment.first_timestamp < now_ms - lag_ms)
    if dirty_bytes == 0:
        return False
    return overdue or dirty_bytes / (clean_bytes + dirty_bytes) > log.config.min_cleanable_dirty_ratio


class CleaningRun:
    """One run, from the choice of segments to the last swap. `finished` is called on the loop with any error."""

    def __init__(self, log: "PartitionLog", finished: Callable[[BaseException | None], None] | None = None) -> None:
        self._log = log
        self._finished = finished
        self._pace = Pace(log.clock)
        now_ms = log.clock.now_ms()
        cleanable = self._closed_up_to(first_uncleanable(log, now_ms))
        self._ranges = {segment.base_offset: end for segment, end in cleanable.items()}
        self._end_offset = max(cleanable.values(), default=0)
        self._dirty_from = max(log.cleaned_offset, min(self._ranges, default=0))
        self._groups = group_by_size(cleanable, log.config)
        self._merging = False
        self._aborted = log.segments.aborted(0, self._end_offset)
        self._map = OffsetMap(log.config.log_cleaner_dedupe_buffer_size)
        last_records = {
            producer_id: LastRecord(producer.last_offset, producer.epoch)
            for producer_id, producer in log.producers.by_id.items()
        }
        self._filter = BatchFilter(self._map, last_records, now_ms, log.config.delete_retention_ms)
        self._filter.transactions.expect(self._aborted)
        self._disk = log.directory.disk
        self._directory = log.directory.path
        self._config = log.config

    def has_work(self) -> bool:
        return self._end_offset > self._dirty_from

    def start(self) -> None:
        self._log.cleaning = self
        self._log.worker.background(self._build_map, self._next_group)

    def cancel(self) -> None:
        self._pace.cancelled.set()

    # ------------------------------------------------------------------------------------------------ on the event loop

    def _closed_up_to(self, limit: int) -> dict[Segment, int]:
        """The segments that end at or before `limit`, the active one excepted, and where each ends."""
        segments = self._log.segments
        return {segment: end for segment, end in zip(segments.all, segments.ends(), strict=False) if end <= limit}

    def _next_group(self, error: BaseException | None) -> None:
        if error is not None:
            self._finish(error)
        elif self._groups and self._groups[0][0].base_offset <= self._map.latest_offset:
            group = self._groups.pop(0)
            bases = [segment.base_offset for segment in group]
            self._log.worker.background(lambda: self._copy(bases), lambda error: self._swap_in(group, error))
        elif not self._merging:
            self._merging = True
            cleaned = self._closed_up_to(min(self._map.latest_offset + 1, self._end_offset))
            self._ranges = {segment.base_offset: end for segment, end in cleaned.items()}
            self._groups = [group for group in group_by_size(cleaned, self._config) if len(group) > 1]
            self._next_group(None)
        else:
            self._finish(None)

    def _swap_in(self, group: list[Segment], error: BaseException | None) -> None:
        log = self._log
        if error is not None or self._pace.cancelled.is_set():
            self._finish(error)
            return
        segments = log.segments.all
        first = segments.index(group[0])
        replacement = Segment(self._disk, self._directory, group[0].base_offset, created_ms=0, suffix=files.SWAP)
        try:
            # Opens every file, so that none of them is looked for by name while the names change.
            replacement.load()
            replacement.file.size()
        except (OSError, FencepostError) as failure:
            self._finish(failure)
            return
        segments[first : first + len(group)] = [replacement]
        for segment in group:
            segment.release()
        end_offset = self._ranges[group[-1].base_offset]
        # Snapshots within the replaced range name positions and segments that are gone.
        inside = {offset for offset in log.directory.snapshots if group[0].base_offset < offset < end_offset}
        log.directory.drop_snapshots(inside)
        bases = [segment.base_offset for segment in group]
        disk, directory = self._disk, self._directory

        def named(error: BaseException | None) -> None:
            if error is None:
                replacement.renamed("")
            self._next_group(error)

        log.worker.background(lambda: swap.put_in_place(disk, directory, bases), named)

    def _finish(self, error: BaseException | None) -> None:
        log = self._log
        log.cleaning = None
        if error is None:
            log.cleaned_offset = max(log.cleaned_offset, min(self._map.latest_offset + 1, self._end_offset))
            logger.info("%s-%d: compacted up to offset %d", log.topic, log.partition, log.cleaned_offset)
        elif not isinstance(error, Cancelled):
            logger.warning("%s-%d: compaction failed: %s", log.topic, log.partition, error)
        if self._finished is not None:
            self._finished(error)

    # ------------------------------------------------------------------------------------------------------ on a thread

    def _build_map(self) -> None:
        transactions = TransactionTracker()
        transactions.expect([aborted for aborted in self._aborted if aborted.last_offset >= self._dirty_from])
        for base_offset, end_offset in self._ranges.items():
            if end_offset > self._dirty_from and not self._map_segment(base_offset, transactions):
                return
        self._map.latest_offset = self._end_offset - 1

    def _map_segment(self, base_offset: int, transactions: TransactionTracker) -> bool:
        """Take a segment's keys into the map; False when it is full."""
        segment = self._open(base_offset)
        try:
            for header, batch in segment.batches():
                self._pace.breathe()
                if header.last_offset < self._dirty_from:
                    continue
                if header.is_control:
                    transactions.is_spent(header, batch)
                elif not transactions.is_aborted(header) and header.record_count:
                    for record in raw_records(header, batch):
                        offset = header.base_offset + record.offset_delta
                        if record.key is not None and not self._map.put(record.key, offset):
                            return False
                self._map.latest_offset = header.last_offset
        finally:
            segment.release()
        return True

    def _copy(self, bases: list[int]) -> None:
        """Write what is left of some segments into one, as far as a complete and synced `.swap`."""
        target = Segment(self._disk, self._directory, bases[0], created_ms=0, suffix=files.CLEANED)
        try:
            target.create()
            for base_offset in bases:
                self._copy_segment(base_offset, target, group_end=self._ranges[bases[-1]])
            target.complete()
            for path in [target.path(files.LOG), *target.index_paths()]:
                self._disk.sync_file(path)
            # Retention goes by the file's time if the records have none.
            newest = Segment(self._disk, self._directory, bases[-1], created_ms=0).path(files.LOG)
            self._disk.set_modified_ms(target.path(files.LOG), self._disk.modified_ms(newest))
            swap.announce(self._disk, target)
        except BaseException:
            with suppress(OSError):
                target.unlink()
            raise
        finally:
            target.release()

    def _copy_segment(self, base_offset: int, target: Segment, group_end: int) -> None:
        source = self._open(base_offset)
        still_aborted = self._filter.transactions.still_aborted
        decide = self._filter.merge if self._merging else self._filter.apply
        try:
            if self._merging:
                source.txn_index.collect(0, FOREVER, still_aborted)
            for header, batch in source.batches():
                self._pace.breathe()
                left = decide(header, batch, is_last=header.last_offset + 1 == group_end)
                for aborted in still_aborted:
                    target.txn_index.add(aborted)
                still_aborted.clear()
                if left is not None:
                    max_timestamp = read_header(left).max_timestamp
                    target.append(left, len(left), header.last_offset, max_timestamp, self._config.index_interval_bytes)
        finally:
            source.release()

    def _open(self, base_offset: int) -> Segment:
        segment = Segment(self._disk, self._directory, base_offset, created_ms=0)
        segment.load()
        return segment


def group_by_size(segments: dict[Segment, int], config: LogConfig) -> list[list[Segment]]:
    """Neighbours in groups that each fit into one segment. `segments` maps each to its end offset."""
    groups: list[list[Segment]] = []
    log_bytes = index_bytes = 0
    for segment, end_offset in segments.items():
        log_bytes += segment.size
        index_bytes += max(segment.index.size_bytes(), segment.time_index.size_bytes())
        fits = (
            bool(groups)
            and log_bytes <= config.segment_bytes
            and index_bytes <= config.segment_index_bytes
            and end_offset - groups[-1][0].base_offset <= MAX_RELATIVE
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            log_bytes = segment.size
            index_bytes = max(segment.index.size_bytes(), segment.time_index.size_bytes())
    return groups


def clean(log: "PartitionLog", finished: Callable[[BaseException | None], None] | None = None) -> bool:
    """Start a run when there is something to clean; `finished` is called when it is over."""
    run = CleaningRun(log, finished)
    if not run.has_work():
        return False
    run.start()
    return True
