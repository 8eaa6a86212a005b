"""Decides which segments a log no longer keeps, by its start offset, age and size, and removes them.

Whole segments are removed, the oldest first, and only if the producer snapshot of the next one is synced: only it knows
the sequences and open transactions that began before. Each removal is durable before the next begins. Otherwise power
loss could bring an old segment back without the one after it. A segment's log is removed durably before its indexes and
snapshot. Otherwise aborted records could come back without an index that names them.
"""

import logging
from typing import TYPE_CHECKING

from fencepost.log import files
from fencepost.log.disk import Disk
from fencepost.log.segment import Segment

if TYPE_CHECKING:
    from fencepost.log.partition import PartitionLog

logger = logging.getLogger(__name__)


def enforce(log: "PartitionLog") -> int:
    """Remove what may go and return the number of segments. Raises OSError if a new active one cannot be made.

    An active segment that is no longer needed is closed first and goes with the next call.
    """
    wanted = count_unneeded(log)
    if wanted == len(log.segments.all) and log.segments.all[-1].size:
        log.roll()
    synced = min(log.recovery_point, log.high_watermark)
    count = min(wanted, sum(1 for end in log.segments.ends() if end <= synced))
    if count == 0:
        return 0
    removed = log.segments.all[:count]
    del log.segments.all[:count]
    for segment in removed:
        segment.release()
    first = log.segments.all[0].base_offset
    snapshots = {offset for offset in log.directory.snapshots if offset < first}
    log.directory.snapshots -= snapshots
    log.move_start(first)
    logger.info("%s-%d: %d old segments removed, it begins at %d", log.topic, log.partition, count, first)
    disk, directory = log.directory.disk, log.directory.path
    paths = [path for segment in removed for path in segment.index_paths()]
    paths += [log.directory.snapshot_path(offset) for offset in snapshots]
    log.worker.background(
        lambda: _remove(disk, directory, [segment.path(files.LOG) for segment in removed], paths), _report
    )
    return count


def count_unneeded(log: "PartitionLog") -> int:
    """How many of the oldest segments are before the log's start or beyond what the settings keep."""
    by_start = sum(1 for end in log.segments.ends() if end <= log.log_start_offset)
    if not log.config.deletes:
        return by_start
    return max(by_start, _count_expired(log), _count_oversize(log))


def _count_expired(log: "PartitionLog") -> int:
    if log.config.retention_ms < 0:
        return 0
    oldest_kept_ms = log.clock.now_ms() - log.config.retention_ms
    count = 0
    for segment in log.segments.all:
        if _last_written_ms(log.directory.disk, segment) >= oldest_kept_ms:
            break
        count += 1
    return count


def _last_written_ms(disk: Disk, segment: Segment) -> int:
    """The newest time of its records, or the file's time if the records have none."""
    if segment.max_timestamp >= 0:
        return segment.max_timestamp
    return disk.modified_ms(segment.path(files.LOG))


def _count_oversize(log: "PartitionLog") -> int:
    if log.config.retention_bytes < 0:
        return 0
    excess = log.size_bytes() - log.config.retention_bytes
    count = 0
    for segment in log.segments.all[:-1]:
        excess -= segment.size
        if excess < 0:
            break
        count += 1
    return count


def _remove(disk: Disk, directory: str, logs: list[str], others: list[str]) -> None:
    """Runs on a background thread. The log no longer uses these files."""
    for path in logs:
        disk.unlink(path)
        disk.fsync_dir(directory)
    for path in others:
        disk.unlink(path)


def _report(error: BaseException | None) -> None:
    # The topic may have been deleted meanwhile.
    if error is not None and not isinstance(error, FileNotFoundError):
        logger.warning("old segments could not be removed; this is tried again after the next start: %s", error)
