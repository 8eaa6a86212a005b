"""Stored bytes on their way to a reader, not yet read from the file.

A slice holds its file open: the segment may be deleted by retention while a slow reader is still being served.
"""

from fencepost.log.disk import File


class FileSlice:
    __slots__ = ("_file", "_position", "_size")

    def __init__(self, file: File, position: int, size: int) -> None:
        file.retain()
        self._file = file
        self._position = position
        self._size = size

    def __del__(self) -> None:
        self._file.release()

    def __len__(self) -> int:
        return self._size

    def read(self, start: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `start` (within the slice); empty only when the file is shorter than it was."""
        return self._file.pread(min(max_bytes, self._size - start), self._position + start)

    def __bytes__(self) -> bytes:
        return self.read(0, self._size)
