"""The disk, as something that can be replaced: the only place of the log that talks to the operating system.

`File` is one open file, `Disk` everything that has to do with names. Both raise plain `OSError`s: what a failing or
full disk means is decided by the log, not here. Invariant: a file that a background thread is syncing is not closed
under it (`retain` and `release` are called on the event loop thread, around the thread's work).
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from fencepost.errors import DataDirectoryLocked

Buffer = bytes | bytearray | memoryview

#: The mode of every file: records, and what is kept of passwords, are not for other users of the machine.
OWNERS_ONLY = 0o600
LOCK = ".lock"

#: Where there is no fdatasync (macOS), fsync does a little more.
_fdatasync = getattr(os, "fdatasync", os.fsync)


class File(Protocol):
    """An open file with positions given by the caller; there is no cursor."""

    @property
    def pwrite(self) -> Callable[[Buffer, int], int]:
        """Write at a position; returns how many bytes were taken, which may be fewer when the disk is full."""

    @property
    def pread(self) -> Callable[[int, int], bytes]:
        """Up to `count` bytes from `position`; fewer only at the end of the file."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def fdatasync(self) -> None:
        """Return when everything written is on stable storage. Called from background threads as well."""

    def retain(self) -> None:
        """Keep the file open until `release`, even when `close` is called in between."""

    def release(self) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def lock(self, directory: str) -> Lock:
        """Keep other brokers out of a directory. Raises DataDirectoryLocked."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError when it is not there and `create` is not set."""

    def listdir(self, path: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def mkdir(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Replaces `new` where it exists."""

    def unlink(self, path: str) -> None:
        """Removing what is not there is no error."""

    def rmtree(self, path: str) -> None: ...

    def fsync_dir(self, path: str) -> None:
        """Return when creations, renames and removals in this directory are on stable storage."""

    def sync_file(self, path: str) -> None:
        """`fdatasync` by name; a file that is gone needs no syncing."""

    def read_bytes(self, path: str) -> bytes: ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file's content. Neither atomic nor synced."""

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace a file durably. After a crash it has its old content or its new one."""

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, time_ms: int) -> None: ...


def make_directory(disk: Disk, path: str) -> None:
    """Make a directory and its parents where they are missing, durably: power loss takes none of them back."""
    if not disk.exists(path):
        parent = os.path.dirname(os.path.abspath(path))
        make_directory(disk, parent)
        disk.mkdir(path)
        disk.fsync_dir(parent)


def write_fully(file: File, data: Buffer, position: int) -> None:
    """Write all of `data`; an OSError may leave a part of it behind."""
    written = file.pwrite(data, position)
    if written == len(data):
        return
    view = memoryview(data)
    while written < len(view):
        taken = file.pwrite(view[written:], position + written)
        if taken == 0:
            raise OSError("the disk takes no more bytes")
        written += taken


class SystemFile:
    """`pwrite` and `pread` are C functions bound to the descriptor: no Python frame lies on the hot path."""

    __slots__ = ("_closing", "_fd", "_retained", "pread", "pwrite")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._retained = 0
        self._closing = False
        self.pwrite: Callable[[Buffer, int], int] = partial(os.pwrite, fd)
        self.pread: Callable[[int, int], bytes] = partial(os.pread, fd)

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fdatasync(self) -> None:
        _fdatasync(self._fd)

    def retain(self) -> None:
        self._retained += 1

    def release(self) -> None:
        self._retained -= 1
        if self._closing and self._retained == 0:
            self.close()

    def close(self) -> None:
        if self._retained:
            self._closing = True
        elif self._fd >= 0:
            fd, self._fd = self._fd, -1
            # A second use of a closed file must fail, not reach the file that got this descriptor number next.
            self.pwrite = partial(os.pwrite, -1)
            self.pread = partial(os.pread, -1)
            os.close(fd)


class SystemDisk:
    """The operating system's file system."""

    def lock(self, directory: str) -> "DirectoryLock":
        return DirectoryLock(directory)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        return SystemFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), OWNERS_ONLY))

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def rmtree(self, path: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def fsync_dir(self, path: str) -> None:
        with _descriptor(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)

    def sync_file(self, path: str) -> None:
        with suppress(FileNotFoundError), _descriptor(path, os.O_RDWR) as fd:
            _fdatasync(fd)

    # Not `open`, which takes five times as long: starting and stopping do this for every partition.

    def read_bytes(self, path: str) -> bytes:
        with _descriptor(path, os.O_RDONLY) as fd:
            return os.pread(fd, os.fstat(fd).st_size, 0)

    def write_bytes(self, path: str, data: bytes) -> None:
        with _descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            written = os.pwrite(fd, data, 0)
            while written < len(data):
                written += os.pwrite(fd, data[written:], written)

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        self.write_bytes(temporary, data)
        self.sync_file(temporary)
        os.replace(temporary, path)
        self.fsync_dir(os.path.dirname(path))

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


class DirectoryLock:
    """`.lock` in the directory, held with flock: a killed broker leaves nothing to clean up.

    The process id in it is only there for the message.
    """

    def __init__(self, directory: str) -> None:
        self._fd = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNERS_ONLY)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._fd, 20).decode("ascii", "replace").strip()
            os.close(self._fd)
            by = f" (process {owner})" if owner.isdecimal() else ""
            raise DataDirectoryLocked(f"{directory} is in use by another broker{by}; stop that one first") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def _descriptor(path: str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC, OWNERS_ONLY)
    try:
        yield fd
    finally:
        os.close(fd)
