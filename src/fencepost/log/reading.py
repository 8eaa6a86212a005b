"""Reading from a log: which bytes of which segment answer a fetch, and which aborted transactions it has to know of.

Invariant: nothing at or beyond the high watermark (read_committed: the last stable offset) is ever returned.
"""

import logging
from typing import TYPE_CHECKING

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.results import Fetched
from fencepost.log.segment import Segment
from fencepost.log.slices import FileSlice
from fencepost.log.txn_index import AbortedTransaction
from fencepost.wire.terms import Isolation

if TYPE_CHECKING:
    from fencepost.log.partition import PartitionLog

logger = logging.getLogger(__name__)

#: Up to this size a read returns the bytes themselves.
INLINE_BYTES = 32 * 1024


class errors_as_answers:  # noqa: N801 - used like a function, and quicker than one
    """A disk that cannot be read is an answer to the reader, not a reason to stop."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            logger.error("a log cannot be read: %s", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk cannot be read: {error}") from error


def readable_end(log: "PartitionLog", isolation: Isolation) -> int:
    """The offset before which such a reader may see everything."""
    return log.last_stable_offset if isolation == Isolation.READ_COMMITTED else log.high_watermark


def read(
    log: "PartitionLog", offset: int, max_bytes: int, isolation: Isolation, *, at_least_one_batch: bool
) -> Fetched:
    """Whole batches from the one that holds `offset`, except that the last may be cut off at `max_bytes`."""
    committed = isolation == Isolation.READ_COMMITTED
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside {log.log_start_offset} to {log.log_end_offset}",
        )
    end_offset = readable_end(log, isolation)
    records: bytes | FileSlice = b""
    aborted: list[AbortedTransaction] | None = [] if committed else None
    found = log.segments.locate(offset, end_offset) if offset < end_offset else None
    if found is not None:
        segment, position = found
        stop = _stop(log, segment, end_offset)
        size = _size(segment, position, stop, max_bytes, at_least_one_batch=at_least_one_batch)
        if size > 0:
            file = segment.file
            records = FileSlice(file, position, size) if size > INLINE_BYTES else file.pread(size, position)
            if position + size == stop:
                log.segments.remember(end_offset, segment, stop)
            if committed and log.segments.last_aborted_offset >= offset:
                aborted = _aborted(log, offset, segment, position + size, end_offset)
    return Fetched(records, log.high_watermark, log.last_stable_offset, log.log_start_offset, aborted)


def _size(segment: Segment, position: int, stop: int, max_bytes: int, *, at_least_one_batch: bool) -> int:
    size = stop - position
    if size <= max_bytes:
        return size
    first_size = segment.header_at(position).size
    if first_size <= max_bytes:
        return max_bytes
    # Less than one batch is of no use to anybody (KIP-74).
    return first_size if at_least_one_batch else 0


def _stop(log: "PartitionLog", segment: Segment, end_offset: int) -> int:
    """The position in `segment` before which all offsets below `end_offset` lie."""
    if end_offset == log.log_end_offset:
        return segment.size
    end = log.high_mark
    if end_offset == end.offset:
        if segment.base_offset != end.segment_base:
            return segment.size if segment.base_offset < end.segment_base else 0
        return min(end.position, segment.size)
    found = segment.find(end_offset)
    return found[0] if found is not None else segment.size


def _aborted(
    log: "PartitionLog", offset: int, segment: Segment, position: int, end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions with data between `offset` and `position`; a few beyond it do no harm."""
    bound = segment.index.offset_at(position)
    return log.segments.aborted(offset, end_offset if bound is None else min(bound, end_offset))
