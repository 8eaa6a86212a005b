"""Regular work on a log: removes old segments, compacts duplicates, forgets idle producers.

The broker calls `maintain` for every log at `log.retention.check.interval.ms` and `log.cleaner.backoff.ms`. It never
blocks: what takes long goes to the worker.
"""

import logging
from typing import TYPE_CHECKING

from fencepost.log import cleaner, retention

if TYPE_CHECKING:
    from fencepost.log.partition import PartitionLog

logger = logging.getLogger(__name__)


def maintain(log: "PartitionLog", *, compact: bool = True) -> None:
    now_ms = log.clock.now_ms()
    log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
    if log.failed or not log.segments.all:
        return
    try:
        _roll_by_age(log, now_ms)
        log.settle()
        if log.cleaning is None:
            retention.enforce(log)
    except OSError as error:
        logger.warning("%s-%d: could not make room: %s", log.topic, log.partition, error)
    if compact and cleaner.is_due(log):
        cleaner.clean(log)
    elif log.cleaning is None:
        log.release_idle()


def _roll_by_age(log: "PartitionLog", now_ms: int) -> None:
    """Appends roll a segment by the time in their records; one whose records have none is rolled by the clock.

    So is one on a compacted topic that is old enough to be compacted but gets no more records to push it along.
    """
    active = log.segments.all[-1]
    if active.size == 0:
        return
    timed = active.first_timestamp >= 0
    since_ms = active.first_timestamp if timed else active.created_ms
    if (log.config.compacts or not timed) and now_ms - since_ms > log.config.max_segment_ms:
        log.roll()
