"""Finding offsets by time: the time index narrows the search down, the batches themselves decide."""

from typing import TYPE_CHECKING

from fencepost.log.origin import Isolation
from fencepost.log.segment import Segment
from fencepost.wire.batch import BatchHeader
from fencepost.wire.records import decode_batch

if TYPE_CHECKING:
    from fencepost.log.partition import PartitionLog


def offset_for_timestamp(log: "PartitionLog", timestamp: int, isolation: Isolation) -> tuple[int, int, int] | None:
    end_offset = log.last_stable_offset if isolation == Isolation.READ_COMMITTED else log.high_watermark
    for segment in log.segments.all:
        if segment.max_timestamp < timestamp:
            continue
        found = _first_at_or_after(segment, timestamp, log.log_start_offset)
        if found is not None:
            offset, at = found
            return (offset, at, log.epochs.at(offset)) if offset < end_offset else None
    return None


def max_timestamp(log: "PartitionLog", isolation: Isolation) -> tuple[int, int, int] | None:
    """The greatest timestamp that is readable, and the first record that has it."""
    greatest = max((segment.max_timestamp for segment in log.segments.all), default=-1)
    if greatest < 0:
        return None
    found = offset_for_timestamp(log, greatest, isolation)
    if found is not None:
        return found
    # The greatest of all is not readable yet, or lies before the log's start: look at what is in between.
    end_offset = log.last_stable_offset if isolation == Isolation.READ_COMMITTED else log.high_watermark
    best: tuple[int, int] | None = None
    for header, batch in log.replay(log.log_start_offset):
        if header.base_offset >= end_offset:
            break
        if best is None or header.max_timestamp > best[1]:
            for record in decode_batch(batch, header) if not header.is_control else ():
                if log.log_start_offset <= record.offset and (best is None or record.timestamp > best[1]):
                    best = record.offset, record.timestamp
    return (*best, log.epochs.at(best[0])) if best is not None else None


def _first_at_or_after(segment: Segment, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record from `start_offset` on that is at least as late."""
    from_offset = max(segment.time_index.offset_before(timestamp), start_offset)
    position = segment.index.position_before(from_offset)
    for at, header in segment.headers(position, segment.size):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            found = _first_in_batch(segment, at, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """Markers count as well: they have an offset and a time, and Kafka counts them."""
    batch = segment.file.pread(header.size, position)
    for record in decode_batch(batch, header):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.offset, record.timestamp
    return None
