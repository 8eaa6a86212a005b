"""Owns a partition's log: all appends, reads up to what is durable, and the offsets that others wait for.

A batch is validated by its header, given its offset and written as it came. Invariants::

    log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset
    an append that is refused has changed nothing
    below the high watermark nothing can be lost to power failure (with flush.messages = 1)

The event loop thread owns all of this; only syncing and the cleaner's copying happen elsewhere.
"""

import asyncio
import logging
import operator
from collections.abc import Callable, Iterator
from typing import NoReturn

from crc32c import crc32c

from fencepost.clock import Clock, Handle
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log import checkpoint, lookup, reading, recovery, validation
from fencepost.log.cleaner import CleaningRun
from fencepost.log.config import FOREVER, LOG_APPEND_TIME, LogConfig
from fencepost.log.counts import LogCounts
from fencepost.log.disk import Disk
from fencepost.log.flush import Dirty, GroupCommit, Mark, Worker, fresh
from fencepost.log.origin import Origin
from fencepost.log.results import Appended, Fetched, ProducerState
from fencepost.log.segment import UndoFailed
from fencepost.log.segments import Segments
from fencepost.log.tail import Tail
from fencepost.wire import batch as batches
from fencepost.wire.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    unpack_header,
)
from fencepost.wire.frame import new_tuple
from fencepost.wire.records import encode_marker
from fencepost.wire.terms import Isolation

logger = logging.getLogger(__name__)

SEQUENCE_MASK = 2**31 - 1
#: How much of a segment recovery may have to go through before its indexes and producers are written down.
SETTLE_BYTES = 16 * 1024 * 1024
#: How often a full disk is logged. It refuses every append.
COMPLAINT_INTERVAL_MS = 10_000


class PartitionLog:
    def __init__(
        self, topic: str, partition: int, topic_id: bytes, config: LogConfig, clock: Clock, worker: Worker,
        loaded: recovery.Loaded, on_progress: "Callable[[PartitionLog], None] | None", counts: LogCounts | None = None,
    ) -> None:  # fmt: skip
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = loaded.directory
        self.segments = Segments(loaded.segments)
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_end_offset
        self.last_stable_offset = loaded.log_end_offset
        #: Set from outside when leadership changes; batches are stamped with it.
        self.leader_epoch = max(loaded.epochs.latest, 0)
        #: Everything before this offset is synced with its indexes: where recovery begins after an unclean shutdown.
        self.recovery_point = loaded.recovery_point
        #: Called on the loop whenever the high watermark, the last stable offset or the log's start moved.
        self.on_progress = on_progress
        self.clock = clock
        self.worker = worker
        self._counts = counts or LogCounts()
        #: Up to where the log has been compacted, and the run that is under way.
        self.cleaned_offset = 0
        self.cleaning: CleaningRun | None = None
        self._now_ms = clock.now_ms
        self._by_id = self.producers.by_id
        self._tail = Tail(
            self.directory, topic_id, self.segments, self.producers, self.epochs, clock, config, loaded.log_end_offset,
            clean=loaded.clean,
        )  # fmt: skip
        #: Where the high watermark lies; stale while that is the log's end.
        self.high_mark = self._tail.mark()
        self._complained_ms = -COMPLAINT_INTERVAL_MS
        self._unsynced_messages = 0
        self._flush_timer: Handle | None = None
        self._refusal: KafkaError | None = None
        #: Where the log ended when what a clean shutdown leaves behind was last on disk.
        self._settled_end = loaded.log_end_offset if loaded.clean else -1
        self.config = config
        self._commit = GroupCommit(
            self.directory.disk, worker, clock, self._counts, self.directory.dirty, loaded.log_end_offset,
            collect=self._collect, synced=self._on_synced, failed=self._on_failed,
        )  # fmt: skip
        self._settle()

    @classmethod
    def open(
        cls, disk: Disk, directory: str, topic: str, partition: int, topic_id: bytes, config: LogConfig, clock: Clock,
        worker: Worker, *, clean_shutdown: bool, recovery_point: int = 0, log_start_offset: int = 0,
        cleaned_offset: int = 0, on_progress: "Callable[[PartitionLog], None] | None" = None,
        run: Callable[[Callable[[], None]], object] = operator.call, counts: LogCounts | None = None,
    ) -> "PartitionLog":  # fmt: skip
        """Open what `directory` holds, or a log that has never been written and gets a directory when it is.

        Recovery after an unclean shutdown happens here, in the caller's thread. It ends with a sync of what a killed
        process may have left in the page cache. `run` gets that sync and may make it on a thread: the caller then waits
        for it before anybody uses the log. The caller also syncs the directory's own name.

        Raises KafkaError if the directory belongs to another topic of the same name or is damaged in what had been
        synced, OSError if it cannot be read or synced.
        """
        checkpoint.check_topic_id(disk, directory, topic_id)
        loaded = recovery.load(
            disk, directory, config, clock.now_ms(),
            clean_shutdown=clean_shutdown, recovery_point=recovery_point, log_start_offset=log_start_offset,
        )  # fmt: skip
        log = cls(topic, partition, topic_id, config, clock, worker, loaded, on_progress, counts)
        log.cleaned_offset = cleaned_offset
        if loaded.segments and not loaded.clean and config.durable_acks:
            if log._tail.unsettled_bytes >= SETTLE_BYTES:
                log._tail.settle()
            sync = log._commit.hand_over()
            log.segments.release()
            run(sync)
        return log

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """Settings change while the log is in use; what the hot path needs of them is kept at hand."""
        self._config = config
        self.durable_acks = config.durable_acks
        self._append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._admission = validation.Admission(config)
        self._tail.configure(config)

    # ------------------------------------------------------------------------------------------------------ appending

    def append(self, batch: bytearray | memoryview, origin: Origin = Origin.CLIENT) -> Appended:
        """Append one batch, which has to be writable: its offset and leader epoch are written into it.

        Raises KafkaError with the code for the producer; then nothing has changed.
        """
        if self._refusal is not None:
            raise fresh(self._refusal)
        view = batch if isinstance(batch, memoryview) else memoryview(batch)
        size = len(view)
        if size < HEADER_BYTES:
            validation.check_frame(view)
        header = unpack_header(view)
        _, length, _, magic, crc, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, _ = header
        if magic != MAGIC or length + LOG_OVERHEAD != size:
            validation.check_frame(view)
        if crc32c(view[ATTRIBUTES_OFFSET:]) != crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch's CRC does not match")
        now_ms = self._now_ms()
        if origin is Origin.CLIENT:
            admitted = self._admission.admit(view, size, header, now_ms)
            if admitted is not view:  # recompressed
                view, size = admitted, admitted.nbytes
        last_sequence = (sequence + delta) & SEQUENCE_MASK if sequence >= 0 else sequence
        if producer_id >= 0:
            producer = self._by_id.get(producer_id)
            if (
                producer is None
                or epoch != producer.epoch
                or sequence != producer.next_sequence
                or (producer.txn_first_offset >= 0 and not attributes & TRANSACTIONAL_FLAG)
            ):
                kept = self.producers.check(producer_id, epoch, sequence, last_sequence, attributes, origin)
                if kept is not None:
                    self._counts.duplicates += 1
                    append_time = kept[4] if self._append_time else -1
                    return Appended(kept[2], kept[3], append_time, self.log_start_offset, duplicate=True)
        append_time = -1
        if self._append_time:
            append_time = max_timestamp = now_ms
            batches.stamp_append_time(view, now_ms)
        base_offset = self.log_end_offset
        last_offset = base_offset + delta
        try:
            self._tail.write(view, size, last_offset, max_timestamp, self.leader_epoch)
        except OSError as error:
            self._refuse_write(error)
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self.producers.add_data(
                producer_id, epoch, sequence, last_sequence, base_offset, last_offset, max_timestamp, attributes, now_ms
            )  # fmt: skip
        self._wrote(delta + 1, size)
        return new_tuple(Appended, (base_offset, last_offset, append_time, self.log_start_offset, False))

    def append_marker(
        self, producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, transaction_version: int
    ) -> int:
        """End a producer's transaction on this partition; returns the marker's offset.

        Repeating a marker is allowed: it ends nothing the second time. INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED refuse one that is older than what the log has seen.
        """
        if self._refusal is not None:
            raise fresh(self._refusal)
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        now_ms = self._now_ms()
        marker = encode_marker(
            commit=commit, coordinator_epoch=coordinator_epoch, producer_id=producer_id,
            producer_epoch=producer_epoch, timestamp=now_ms,
        )  # fmt: skip
        if self._append_time:
            batches.stamp_append_time(marker, now_ms)
        offset, size = self.log_end_offset, len(marker)
        try:
            self._tail.write(memoryview(marker), size, offset, now_ms, self.leader_epoch)
        except OSError as error:
            self._refuse_write(error)
        self.log_end_offset = offset + 1
        aborted = self.producers.add_marker(
            producer_id, producer_epoch, coordinator_epoch, offset, now_ms, now_ms, commit=commit
        )
        if aborted is not None:
            self.segments.add_aborted(aborted)
        self._wrote(1, size)
        return offset

    def _wrote(self, messages: int, size: int) -> None:
        counts = self._counts
        counts.batches += 1
        counts.records += messages
        counts.bytes += size
        if self.durable_acks:
            self._commit.request()
            return
        self.high_watermark = self.last_stable_offset = self.log_end_offset
        producers = self.producers
        if producers.open_transactions or producers.unsettled:
            self._settle()
        self._unsynced_messages += messages
        if self._unsynced_messages >= self._config.flush_messages or self._tail.has_rolled:
            self._unsynced_messages = 0
            self._tail.has_rolled = False
            self._commit.request()
        elif self._flush_timer is None and self._config.flush_ms != FOREVER:
            self._flush_timer = self.clock.call_later(self._config.flush_ms, self._flush_by_time)
        if self.on_progress is not None:
            self.on_progress(self)

    def _flush_by_time(self) -> None:
        self._flush_timer = None
        self._unsynced_messages = 0
        self._commit.request()

    def _refuse_write(self, error: OSError) -> NoReturn:
        """The disk did not take a write. Usable again once it does, unless its end cannot be put back in order."""
        self._counts.write_errors += 1
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._complained_ms >= COMPLAINT_INTERVAL_MS:
            self._complained_ms = now_ms
            logger.error("%s-%d: a write failed, appends are refused: %s", self.topic, self.partition, error)
        if isinstance(error, UndoFailed):
            self._on_failed(error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk did not take a write: {error}") from error

    def roll(self) -> None:
        """Begin a new segment at the log's end and have the old one synced. Raises OSError."""
        self._tail.roll()
        self._commit.request()

    # ------------------------------------------------------------------------------------------------------- progress

    def when_durable(self, offset: int) -> "asyncio.Future[None] | None":
        """None when `offset` counts as written; else a future, which raises KAFKA_STORAGE_ERROR if the sync fails."""
        if offset < self._commit.synced_offset or not self.durable_acks:
            return None
        return self._commit.when_synced(offset)

    def settle(self) -> None:
        """Spare recovery what has piled up in the active segment, if it is much. Raises OSError."""
        if self._tail.unsettled_bytes >= SETTLE_BYTES:
            self._tail.settle()
            self._commit.request()
        bases = {segment.base_offset for segment in self.segments.all}
        settled = sorted(at for at in self.directory.snapshots - bases if at <= self.recovery_point)
        # The one before the last as well: the recovery point that a checkpoint file has is always a little behind.
        self.directory.drop_snapshots(set(settled[:-2]))

    def _collect(self, dirty: Dirty) -> Mark:
        if self._tail.active is not None:
            dirty.add_file(self._tail.active.file)
        return self._tail.mark()

    def _on_synced(self, end: Mark) -> None:
        self._tail.has_synced = self._tail.has_synced or end.position > 0
        self.recovery_point = max(self.recovery_point, end.recovery_point)
        if end.offset > self.high_watermark:
            self.high_watermark = end.offset
            self.high_mark = end
            self._settle()
            if self.on_progress is not None:
                self.on_progress(self)

    def _on_failed(self, error: BaseException) -> None:
        """The page cache can no longer be trusted: what is synced is still served, nothing is taken any more."""
        logger.critical("%s-%d: the disk failed, the partition is read-only: %s", self.topic, self.partition, error)
        self._refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk failed: {error}")
        self._commit.stop(self._refusal)

    def _settle(self) -> None:
        producers = self.producers
        if not producers.open_transactions and not producers.unsettled:
            self.last_stable_offset = self.high_watermark
            return
        producers.settle(self.high_watermark)
        first_unstable = producers.first_unstable_offset()
        stable = self.high_watermark
        if first_unstable is not None and first_unstable < stable:
            stable = max(first_unstable, self.log_start_offset)
        self.last_stable_offset = stable

    # -------------------------------------------------------------------------------------------------------- reading

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, at_least_one_batch: bool) -> Fetched:
        """Whole batches from the one that holds `offset`, except that the last may be cut off at `max_bytes`.

        OFFSET_OUT_OF_RANGE outside of the log; nothing, and no error, from the readable end to the log's end.
        """
        with reading.errors_as_answers():
            return reading.read(self, offset, max_bytes, isolation, at_least_one_batch=at_least_one_batch)

    def replay(self, from_offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every whole batch from the one that holds `from_offset` to the log's end, for loading what it says.

        Batches that compaction emptied are left out: they say nothing.
        """
        for header, batch in self.segments.batches_from(max(from_offset, self.log_start_offset)):
            if header.record_count:
                yield header, batch

    # ------------------------------------------------------------------------------------------------------ questions

    def offset_for_timestamp(self, timestamp: int, isolation: Isolation) -> tuple[int, int, int] | None:
        """(offset, its timestamp, leader epoch) of the first readable record with at least this timestamp."""
        with reading.errors_as_answers():
            return lookup.offset_for_timestamp(self, timestamp, isolation)

    def max_timestamp_offset(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> tuple[int, int, int] | None:
        """(offset, its timestamp, leader epoch) of the first readable record with the greatest timestamp."""
        with reading.errors_as_answers():
            return lookup.max_timestamp(self, isolation)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest leader epoch up to `epoch`; (-1, -1) when there is none."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerState]:
        return self.producers.states()

    def size_bytes(self) -> int:
        return self.segments.size_bytes()

    @property
    def failed(self) -> bool:
        """Whether the log takes no appends any more."""
        return self._refusal is not None

    # ---------------------------------------------------------------------------------------------- changing the start

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start, to the high watermark for -1; returns where it is now. Files go with retention."""
        target = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {target} is beyond the high watermark {self.high_watermark}"
            )
        self.move_start(target)
        return self.log_start_offset

    def move_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset) and self.segments.all:
            self.directory.save_epochs(self.epochs)
        self._settle()
        if self.on_progress is not None:
            self.on_progress(self)

    # ------------------------------------------------------------------------------------------------------- the end

    def release_idle(self) -> None:
        """Give descriptors back that a quiet log does not need; they are opened again on use."""
        if self.cleaning is None and self._commit.synced_offset == self.log_end_offset:
            self.segments.release()

    def close(self) -> None:
        """Write down what a clean shutdown has to leave behind. Raises OSError: then the shutdown was not clean."""
        finish = self.prepare_close()
        if finish is not None:
            finish()

    def prepare_close(self) -> Callable[[], None] | None:
        """The quick part of `close`. Returns the slow one, for any thread: many logs can do theirs at once."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        try:
            if not self.segments.all or self._refusal is not None or self._settled_end == self.log_end_offset:
                return None
            self._tail.settle()
            sync = self._commit.hand_over()
        finally:
            self._stop_for_good(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker is shutting down"))

        def finish() -> None:
            sync()
            kept = {segment.base_offset for segment in self.segments.all} | {self.log_end_offset}
            self.directory.drop_snapshots(self.directory.snapshots - kept)

        return finish

    def delete(self) -> None:
        """Remove the partition. Its directory is renamed, durably, when this returns; its files are removed later."""
        self._stop_for_good(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted"))
        if self.directory.disk.exists(self.directory.path):
            checkpoint.discard_directory(self.directory.disk, self.directory.path, self.topic_id, self.worker)

    def _stop_for_good(self, reason: KafkaError) -> None:
        self.on_progress = None
        self._refusal = reason
        if self.cleaning is not None:
            self.cleaning.cancel()
        self._commit.stop(reason)
        self.segments.release()
