"""One segment: a `.log` file of record batches with its three indexes, all named after the segment's base offset.

Layout of `.log`: record batches (see `wire.batch`) one after the other, nothing between them. Invariants: offsets
ascend; `size` counts whole batches only, so that a write that failed half-way leaves nothing that is ever read;
positions and offsets relative to the base fit in 31 bits.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log import files
from fencepost.log.disk import Buffer, Disk, File, write_fully
from fencepost.log.index import OffsetIndex, TimeIndex
from fencepost.log.txn_index import TxnIndex
from fencepost.wire.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, checksum, read_header

#: What a batch's offset and position may be beyond the segment's base and beginning.
MAX_RELATIVE = 2**31 - 1
#: How much is read at once when looking for a batch near an index entry, and when walking through many.
LOOKUP_BYTES = 4096
WALK_BYTES = 64 * 1024
COPY_BYTES = 1024 * 1024


class UndoFailed(OSError):
    """A write failed and what it left could not be removed: the file's end is unknown."""


class Segment:
    __slots__ = (
        "_disk", "_file", "base_offset", "created_ms", "directory", "first_timestamp", "index", "max_timestamp",
        "max_timestamp_offset", "size", "suffix", "time_index", "txn_index", "unindexed_bytes",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str, base_offset: int, *, created_ms: int, suffix: str = "") -> None:
        self._disk = disk
        self._file: File | None = None
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.created_ms = created_ms
        self.size = 0
        self.index = OffsetIndex(disk, self.path(files.INDEX), base_offset)
        self.time_index = TimeIndex(disk, self.path(files.TIME_INDEX), base_offset)
        self.txn_index = TxnIndex(disk, self.path(files.TXN_INDEX))
        self.unindexed_bytes = 0
        #: Of the first batch, from which the age of the segment is counted; -1 when it has none.
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset

    # ------------------------------------------------------------------------------------------------------- files

    def path(self, kind: str) -> str:
        return os.path.join(self.directory, files.name(self.base_offset, kind) + self.suffix)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path(files.LOG))
        return self._file

    def create(self) -> None:
        """Create an empty `.log` with empty indexes. On failure no file is left."""
        try:
            self._file = self._disk.open(self.path(files.LOG), create=True)
            self._file.truncate(0)
            self.index.reset()
            self.time_index.reset()
            self.txn_index.reset()
        except OSError:
            self.release()
            self._disk.unlink(self.path(files.LOG))
            raise

    def load(self) -> bool:
        """Learn what the files tell without reading the log; False if an index has to be rebuilt."""
        self.size = self.file.size()
        # All three are looked at, so that each knows its length.
        sound = all([self.index.load(), self.time_index.load(), self.txn_index.load()])
        if sound:
            self.max_timestamp, self.max_timestamp_offset = self.time_index.greatest()
        if self.size >= HEADER_BYTES:
            self.first_timestamp = self.header_at(0).max_timestamp
        return sound

    def release(self) -> None:
        """Close the files; they are opened again when needed."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.index.release()
        self.time_index.release()
        self.txn_index.release()

    def complete(self) -> None:
        """Write out what the indexes hold in memory, for a segment that gets no more batches. Raises OSError."""
        self.time_index.add(self.max_timestamp, self.max_timestamp_offset)
        self.index.spill()
        self.time_index.spill()
        self.txn_index.spill()

    def index_paths(self) -> list[str]:
        """All of them: that an index was emptied has to be synced as well. A `.txnindex` need not exist."""
        return [self.index.path, self.time_index.path, self.txn_index.path]

    def rename(self, suffix: str) -> None:
        """Give the files another suffix, the log last."""
        old = {kind: self.path(kind) for kind in files.SEGMENT_SUFFIXES}
        self.renamed(suffix)
        for kind in files.SEGMENT_SUFFIXES:
            if kind != files.TXN_INDEX or self._disk.exists(old[kind]):
                self._disk.rename(old[kind], self.path(kind))

    def renamed(self, suffix: str) -> None:
        """The files have got another suffix."""
        self.suffix = suffix
        self.index.moved(self.path(files.INDEX))
        self.time_index.moved(self.path(files.TIME_INDEX))
        self.txn_index.moved(self.path(files.TXN_INDEX))

    def unlink(self) -> None:
        self.release()
        for kind in reversed(files.SEGMENT_SUFFIXES):
            self._disk.unlink(self.path(kind))

    # ------------------------------------------------------------------------------------------------------ writing

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> int:
        """Write one batch; returns its position. An OSError leaves the segment as it was, but for `UndoFailed`."""
        position = self.size
        file = self._file or self.file
        try:
            if file.pwrite(batch, position) != size:
                write_fully(file, batch, position)
        except OSError as error:
            try:
                file.truncate(position)
            except OSError as second:
                raise UndoFailed(*second.args) from error
            raise
        self.adopt(size, last_offset, max_timestamp, index_interval)
        return position

    def adopt(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Take note of a batch at the end of the known part of the file."""
        position = self.size
        self.size = position + size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed_bytes > index_interval:
            self.index.add(last_offset, position)
            self.time_index.add(self.max_timestamp, self.max_timestamp_offset)
            self.unindexed_bytes = size
        else:
            self.unindexed_bytes += size
            if position == 0:
                self.first_timestamp = max_timestamp

    # --------------------------------------------------------------------------------------------------- recovering

    def forget(self) -> None:
        """Go back to an empty segment in memory and in the indexes; the batches are about to be adopted again."""
        self.index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self.size = self.unindexed_bytes = 0
        self.first_timestamp = self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset

    def cut_back(self, offset: int, position: int, entries: tuple[int, int, int]) -> bool:
        """Go back to when the log ended at `offset` and `position`, and the indexes had this number of `entries`.

        False, or KafkaError, when the files cannot have been so.
        """
        indexes = (self.index, self.time_index, self.txn_index)
        if position > self.size or any(index.count < count for index, count in zip(indexes, entries, strict=True)):
            return False
        for index, count in zip(indexes, entries, strict=True):
            index.truncate(count)
        entry = self.index.last()
        end = -1
        for _, header in self.headers(entry[1] if entry else 0, position, LOOKUP_BYTES):
            end = header.last_offset + 1
        if end != offset:
            return False
        self.size, self.unindexed_bytes = position, 0
        self.max_timestamp, self.max_timestamp_offset = self.time_index.greatest()
        return True

    def sound_batches(self, next_offset: int, file_size: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches after the known part of the file, up to the first that is cut short, corrupt or out of order."""
        with suppress(KafkaError):
            for header, batch in self.batches(self.size, file_size):
                in_order = next_offset <= header.base_offset <= header.last_offset <= self.base_offset + MAX_RELATIVE
                if not in_order or checksum(batch) != header.crc:
                    return
                yield header, batch
                next_offset = header.last_offset + 1

    # ------------------------------------------------------------------------------------------------------ reading

    def header_at(self, position: int) -> BatchHeader:
        data = self.file.pread(HEADER_BYTES, position)
        if len(data) < HEADER_BYTES:
            raise self._corrupt(position)
        return self._checked(read_header(data), position)

    def headers(self, start: int, stop: int, chunk_bytes: int = WALK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every batch from `start`, where one begins, up to `stop`."""
        position, data, data_start = start, b"", start
        pread = self.file.pread
        while position < stop:
            inside = position - data_start
            if inside + HEADER_BYTES > len(data):
                data, data_start, inside = pread(chunk_bytes, position), position, 0
                if len(data) < HEADER_BYTES:
                    raise self._corrupt(position)
            header = self._checked(read_header(data, inside), position)
            following = position + header.size
            if following > self.size:
                raise self._corrupt(position)
            yield position, header
            position = following

    def headers_from(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every batch that ends at or after `offset`."""
        start = self.index.position_before(offset)
        for position, header in self.headers(start, self.size, LOOKUP_BYTES):
            if header.base_offset + header.last_offset_delta >= offset:
                yield position, header

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch that ends at or after `offset`, with its position."""
        return next(self.headers_from(offset), None)

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[BatchHeader, memoryview]]:
        """(header, bytes) of every whole batch from `start` up to `stop`, or to the end of the segment."""
        stop = self.size if stop is None else stop
        position, data, data_start = start, memoryview(b""), start
        pread = self.file.pread
        while position < stop:
            inside = position - data_start
            if inside + HEADER_BYTES > len(data):
                data, data_start, inside = memoryview(pread(min(COPY_BYTES, stop - position), position)), position, 0
                if len(data) < HEADER_BYTES:
                    raise self._corrupt(position)
            header = self._checked(read_header(data, inside), position)
            size = header.size
            if position + size > stop:
                raise self._corrupt(position)
            if inside + size > len(data):
                wanted = max(size, min(COPY_BYTES, stop - position))
                data, data_start, inside = memoryview(pread(wanted, position)), position, 0
                if len(data) < size:
                    raise self._corrupt(position)
            yield header, data[inside : inside + size]
            position += size

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """(header, bytes) of every batch that ends at or after `offset`."""
        found = self.find(offset)
        if found is not None:
            yield from self.batches(found[0])

    def end_offset(self) -> int:
        """The offset after the last batch, found from the last index entry."""
        entry = self.index.last()
        end = self.base_offset
        for _, header in self.headers(entry[1] if entry else 0, self.size):
            end = header.last_offset + 1
        return end

    def _checked(self, header: BatchHeader, position: int) -> BatchHeader:
        if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LOG_OVERHEAD:
            raise self._corrupt(position)
        return header

    def _corrupt(self, position: int) -> KafkaError:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch at byte {position} of {self.path(files.LOG)}")
