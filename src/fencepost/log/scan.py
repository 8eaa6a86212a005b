"""Walks through a segment's batches after an unclean shutdown, up to the first invalid one."""

from collections.abc import Iterator

from fencepost.log.segment import COPY_BYTES, MAX_RELATIVE, Segment
from fencepost.wire import batch as batches
from fencepost.wire.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, read_header


def batches_from(segment: Segment, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a sound segment that begin at or after `offset`."""
    found = segment.find(offset)
    if found is not None:
        for _, header, batch in segment.batches(found[0], segment.size):
            if header.base_offset >= offset:
                yield header, batch


def sound_batches(
    segment: Segment, size: int, position: int, next_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches from `position` up to the first that is cut short, has a wrong CRC or is out of order."""
    pread = segment.file.pread
    data, data_start = memoryview(b""), position
    while position + HEADER_BYTES <= size:
        inside = position - data_start
        if inside + HEADER_BYTES > len(data):
            data, data_start, inside = memoryview(pread(COPY_BYTES, position)), position, 0
        header = read_header(data, inside)
        batch_size = header.batch_length + LOG_OVERHEAD
        if header.magic != MAGIC or batch_size < HEADER_BYTES or position + batch_size > size:
            return
        if inside + batch_size > len(data):
            data, data_start, inside = memoryview(pread(max(COPY_BYTES, batch_size), position)), position, 0
        batch = data[inside : inside + batch_size]
        in_order = next_offset <= header.base_offset <= header.last_offset <= segment.base_offset + MAX_RELATIVE
        if len(batch) < batch_size or not in_order or batches.checksum(batch) != header.crc:
            return
        yield header, batch
        position += batch_size
        next_offset = header.last_offset + 1
