"""Index files: fixed-size entries in ascending order, most of them on disk, the newest few still in memory.

Layouts (big-endian), as Kafka's, without a header::

    .index      relativeOffset int32, position int32      last offset of a batch → where the batch begins
    .timeindex  timestamp int64, relativeOffset int32     greatest timestamp so far → the batch that has it

An index can always be rebuilt from the log, so a write that fails (a full disk) is not an error: the entries stay in
memory and are written with the next ones. Invariant: entries ascend strictly in their first field.
"""

import struct
from contextlib import suppress

from fencepost.log.disk import Disk, File, write_fully

#: Entries kept back in memory before they are written in one piece.
TAIL_ENTRIES = 512
#: Below this many entries a search reads them all at once instead of one by one.
BLOCK_ENTRIES = 512
_OFFSET_LAYOUT = struct.Struct(">ii")
_PACK_OFFSET = _OFFSET_LAYOUT.pack


class IndexFile:
    """Entries of one `struct` format. `floor` searches by a field that ascends."""

    def __init__(self, disk: Disk, path: str, layout: struct.Struct, *, tail_entries: int = TAIL_ENTRIES) -> None:
        self._disk = disk
        self.path = path
        self._layout = layout
        self._file: File | None = None
        self._on_disk = 0
        self._tail = bytearray()
        self._tail_limit = tail_entries * layout.size
        #: Whether the file may be longer than it should be.
        self._outdated = False
        self.count = 0

    def load(self) -> bool:
        """Take what the file holds; False when it is missing or not a whole number of entries."""
        try:
            size = self._opened().size()
        except FileNotFoundError:
            return False
        self._on_disk = self.count = size // self._layout.size
        self._tail.clear()
        self._outdated = False
        return size % self._layout.size == 0

    def append(self, *entry: int) -> None:
        self._tail += self._layout.pack(*entry)
        self.count += 1
        if len(self._tail) >= self._tail_limit:
            self._spill_if_possible()

    def _spill_if_possible(self) -> None:
        with suppress(OSError):
            self.spill()

    def spill(self) -> None:
        """Write what is still in memory. On failure nothing is forgotten."""
        file = self._opened(create=True)
        if self._tail:
            # A copy: a traceback that still refers to the buffer would keep it from being cleared.
            write_fully(file, bytes(self._tail), self._on_disk * self._layout.size)
            self._on_disk = self.count
            self._tail.clear()
        if self._outdated:
            size = self._on_disk * self._layout.size
            if file.size() > size:
                file.truncate(size)
            self._outdated = False

    def entry(self, number: int) -> tuple[int, ...]:
        size = self._layout.size
        if number >= self._on_disk:
            return self._layout.unpack_from(self._tail, (number - self._on_disk) * size)
        return self._layout.unpack(self._opened().pread(size, number * size))

    def entries(self, start: int, stop: int) -> list[tuple[int, ...]]:
        stop = min(stop, self.count)
        if start >= stop:
            return []
        data = self._bytes(start, stop)
        return list(self._layout.iter_unpack(data))

    def last(self) -> tuple[int, ...] | None:
        return self.entry(self.count - 1) if self.count else None

    def floor(self, key: int, field: int = 0) -> int:
        """The number of the last entry whose `field` is at most `key`, -1 when there is none."""
        low, high = 0, self.count
        if self._tail and low < self._on_disk < high:
            if self._layout.unpack_from(self._tail)[field] <= key:
                low = self._on_disk
            else:
                high = self._on_disk
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= key:
                low = middle
            else:
                high = middle
        data, first, size = self._bytes(low, high), low, self._layout.size
        unpack = self._layout.unpack_from
        while low < high:
            middle = (low + high) // 2
            if unpack(data, (middle - first) * size)[field] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def truncate(self, count: int) -> None:
        """Forget every entry from number `count` on."""
        if count >= self.count:
            return
        size = self._layout.size
        if count < self._on_disk:
            self._opened(create=True).truncate(count * size)
            self._on_disk = count
            self._tail.clear()
        else:
            del self._tail[(count - self._on_disk) * size :]
        self.count = count

    def reset(self) -> None:
        """Forget everything. The file is made, or cut to length, when the index is written next.

        Recovery usually writes the same entries again. Truncating first would wait for the file system's journal.
        """
        self._outdated = True
        self._on_disk = self.count = 0
        self._tail.clear()

    def release(self) -> None:
        """Close the file; it is opened again when needed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def moved(self, path: str) -> None:
        self.release()
        self.path = path

    def size_bytes(self) -> int:
        return self.count * self._layout.size

    def _bytes(self, start: int, stop: int) -> bytes:
        size = self._layout.size
        data = b""
        if start < self._on_disk:
            data = self._opened().pread((min(stop, self._on_disk) - start) * size, start * size)
        if stop > self._on_disk:
            data += self._tail[max(start - self._on_disk, 0) * size : (stop - self._on_disk) * size]
        return data

    def _opened(self, *, create: bool = False) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=create)
        return self._file


class OffsetIndex(IndexFile):
    """Where to begin looking for an offset."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, _OFFSET_LAYOUT)
        self._base_offset = base_offset

    def add(self, last_offset: int, position: int) -> None:
        # `append`, without its detours: this happens with most batches.
        self._tail += _PACK_OFFSET(last_offset - self._base_offset, position)
        self.count += 1
        if len(self._tail) >= self._tail_limit:
            self._spill_if_possible()

    def position_before(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`, where a batch begins."""
        number = self.floor(offset - self._base_offset) if self.count else -1
        return self.entry(number)[1] if number >= 0 else 0

    def offset_at(self, position: int) -> int | None:
        """The offset of the first entry at or after `position`, None if there is none."""
        number = self.floor(position - 1, field=1) + 1 if self.count else 0
        return self._base_offset + self.entry(number)[0] if number < self.count else None


class TimeIndex(IndexFile):
    """Where to begin looking for a timestamp."""

    LAYOUT = struct.Struct(">qi")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, self.LAYOUT)
        self._base_offset = base_offset
        self._last_timestamp: int | None = None

    def add(self, timestamp: int, offset: int) -> None:
        """An entry is the greatest timestamp up to an offset, so one that is not greater is left out."""
        if self._last_timestamp is None:
            self._last_timestamp = self.greatest()[0]
        if timestamp > self._last_timestamp:
            self._last_timestamp = timestamp
            self.append(timestamp, offset - self._base_offset)

    def greatest(self) -> tuple[int, int]:
        """The last entry as (timestamp, offset); (-1, base offset) when there is none."""
        entry = self.last()
        return (entry[0], self._base_offset + entry[1]) if entry else (-1, self._base_offset)

    def greatest_before(self, offset: int) -> tuple[int, int]:
        """The last entry that covers only records before `offset`, in the form of `greatest`."""
        number = self.floor(offset - self._base_offset - 1, 1) if self.count else -1
        entry = self.entry(number) if number >= 0 else (-1, 0)
        return entry[0], self._base_offset + entry[1]

    def offset_before(self, timestamp: int) -> int:
        """No record before this offset has a timestamp of `timestamp` or more."""
        number = self.floor(timestamp - 1) if self.count else -1
        return self._base_offset + self.entry(number)[1] if number >= 0 else self._base_offset

    def truncate(self, count: int) -> None:
        super().truncate(count)
        self._last_timestamp = None

    def reset(self) -> None:
        super().reset()
        self._last_timestamp = None
