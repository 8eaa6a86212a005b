"""Stored bytes for a reader, read from the file as they are sent.

A slice holds its file open: the segment may be deleted by retention while a slow reader is still being served.
"""

import os
import socket
from typing import Any

from fencepost.log.disk import File, SystemFile

SEND_BYTES = 1024 * 1024


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

    def send_to(self, out: Any, start: int) -> int:
        """Send from `start` on as much as `out` takes, at most `SEND_BYTES`; BlockingIOError when it is full.

        A file of the system goes to a socket without passing through this process. For others no more is read than they
        have room for.
        """
        count = min(SEND_BYTES, self._size - start)
        if isinstance(out, socket.socket):
            if isinstance(self._file, SystemFile):
                return os.sendfile(out.fileno(), self._file.fileno(), self._position + start, count)
            return out.send(self.read(start, count))
        sent: int = out.send(self.read(start, min(count, out.room())))
        return sent

    def __bytes__(self) -> bytes:
        return self.read(0, self._size)
