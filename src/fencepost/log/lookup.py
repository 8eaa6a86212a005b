"""Finds offsets by time: the time index narrows the search, the batches decide."""

from typing import TYPE_CHECKING

from fencepost.log.reading import readable_end
from fencepost.log.segment import Segment
from fencepost.wire.batch import BatchHeader
from fencepost.wire.records import decode_batch
from fencepost.wire.terms import Isolation

#: Headers that one lookup may read before it gives up: about a tenth of a second.
WALK_BATCHES_MAX = 20_000

if TYPE_CHECKING:
    from fencepost.log.partition import PartitionLog


def offset_for_timestamp(log: "PartitionLog", timestamp: int, isolation: Isolation) -> tuple[int, int, int] | None:
    end_offset = readable_end(log, isolation)
    for segment in log.segments.all:
        if segment.max_timestamp < timestamp:
            continue
        found = _first_at_or_after(segment, timestamp, log.log_start_offset)
        if found is not None:
            offset, at = found
            return (offset, at, log.epochs.at(offset)) if offset < end_offset else None
    return None


def max_timestamp(log: "PartitionLog", isolation: Isolation) -> tuple[int, int, int] | None:
    """The greatest timestamp that is readable, and the first record that has it.

    None if finding it would mean a walk through a large part of a segment. That happens only if the segment's greatest
    timestamp was deleted or is not readable yet, and its times are in no order.
    """
    end_offset = readable_end(log, isolation)
    greatest = -1
    for segment in log.segments.all:
        if segment.base_offset >= end_offset:
            break
        found = _greatest(segment, log.log_start_offset, end_offset)
        if found is None:
            return None
        greatest = max(greatest, found)
    return offset_for_timestamp(log, greatest, isolation) if greatest >= 0 else None


def _greatest(segment: Segment, start_offset: int, end_offset: int) -> int | None:
    """The greatest timestamp from `start_offset` to before `end_offset`, -1 when there is none."""
    if segment.max_timestamp < 0:
        return -1
    at = segment.find(segment.max_timestamp_offset)
    if at is not None:
        header = at[1]
        if header.max_timestamp == segment.max_timestamp and start_offset <= header.base_offset < end_offset:
            return segment.max_timestamp
    greatest, from_offset = segment.time_index.greatest_before(end_offset)
    if start_offset > segment.base_offset:
        greatest, from_offset = -1, start_offset
    walk = segment.headers(segment.index.position_before(from_offset), segment.size)
    for number, (position, header) in enumerate(walk):
        if header.base_offset >= end_offset:
            break
        if number >= WALK_BATCHES_MAX:
            return None
        if header.last_offset >= from_offset and header.max_timestamp > greatest:
            greatest = max(greatest, _greatest_in_batch(segment, position, header, start_offset))
    return greatest


def _greatest_in_batch(segment: Segment, position: int, header: BatchHeader, start_offset: int) -> int:
    if header.base_offset >= start_offset:
        return header.max_timestamp
    records = decode_batch(segment.file.pread(header.size, position), header)
    return max((record.timestamp for record in records if record.offset >= start_offset), default=-1)


def _first_at_or_after(segment: Segment, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record from `start_offset` on with at least this timestamp."""
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
