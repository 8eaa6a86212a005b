"""A disk in memory that keeps apart what was synced and what was only written.

`lose_power` takes back whatever no sync has covered: appended bytes (all, some, or torn in the middle), truncations,
and every creation, renaming and removal in a directory that was not synced, each on its own. `die_after(n)` stops
everything at the n-th change, so that a test can crash between any two steps. A sync can take time (`began_after`). The
disk can be full (`capacity_bytes`: what fits is written, then ENOSPC) and broken (`fail_writes`, `fail_syncs`,
`fail_reads`: EIO).
"""

import errno
import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from fencepost.errors import DataDirectoryLocked

Buffer = bytes | bytearray | memoryview
Item = TypeVar("Item")


class PowerLost(Exception):
    """The machine is off: nothing can be done until `lose_power`."""


class Change(NamedTuple):
    """Data at a position; without data, a new size."""

    number: int
    position: int
    data: bytes | None


@dataclass(eq=False)
class Inode:
    """A file's content as programs see it, as the platter has it, and the changes between the two."""

    content: bytearray = field(default_factory=bytearray)
    stable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    modified_ms: int = 0

    def reach_platter(self, change: Change) -> None:
        if change.data is None:
            _truncate(self.stable, change.position)
        else:
            _write(self.stable, change.position, change.data)


@dataclass(eq=False)
class Directory:
    """Names as programs see them, as the platter has them, and the changes between the two."""

    names: "dict[str, Inode | Directory]" = field(default_factory=dict)
    stable: "dict[str, Inode | Directory]" = field(default_factory=dict)
    pending: "list[tuple[str, Inode | Directory | None, str | None]]" = field(default_factory=list)

    def change(self, name: str, node: "Inode | Directory | None", renamed_from: str | None = None) -> None:
        """`name` now stands for `node` (None: for nothing); in one step `renamed_from` stands for nothing."""
        change = (name, node, renamed_from)
        _apply(self.names, change)
        self.pending.append(change)


def _apply(names: "dict[str, Inode | Directory]", change: "tuple[str, Inode | Directory | None, str | None]") -> None:
    name, node, renamed_from = change
    if renamed_from is not None:
        names.pop(renamed_from, None)
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


class ForgetfulDisk:
    def __init__(self, *directories: str) -> None:
        self._root = Directory()
        self.capacity_bytes: int | None = None
        #: The same under these directories alone: nothing fits there any more.
        self.full_directories: set[str] = set()
        self.fail_writes = False
        self.fail_syncs = False
        self.fail_reads = False
        #: What files get as the time of their last change.
        self.now_ms: Callable[[], int] = lambda: 0
        self.syncs = 0
        self.changes = 0
        #: The numbers of changes that syncs do not cover.
        self.missed = range(0)
        self._changes_left: int | None = None
        self._off = False
        self._locked: set[str] = set()
        for directory in directories:
            self.mkdir(directory)
        self._sync_everything(self._root)

    # ------------------------------------------------------------------------------------------------------- accidents

    def die_after(self, changes: int | None) -> None:
        self._changes_left = changes

    def turn_off(self) -> None:
        self._off = True

    def turn_on(self) -> None:
        """After a crash of the machine that lost nothing."""
        self._off = False
        self.unlock()
        self._changes_left = None

    def lose_power(self, rng: random.Random | None = None) -> None:
        """Back to what was synced; with a random generator, plus any part of what was not. Then it is on again."""
        self.turn_on()
        self._forget(self._root, rng)

    def unlock(self) -> None:
        """The process that held locks is gone."""
        self._locked.clear()

    def _forget(self, directory: Directory, rng: random.Random | None) -> None:
        survivors = [] if rng is None else _some(directory.pending, rng)
        for change in survivors:
            _apply(directory.stable, change)
        directory.pending.clear()
        directory.names = dict(directory.stable)
        # In a fixed order, so that a seed replays; a file with two names (half a rename) is met once.
        for node in {id(node): node for node in directory.names.values()}.values():
            if isinstance(node, Directory):
                self._forget(node, rng)
            else:
                _forget_bytes(node, rng)

    def _sync_everything(self, directory: Directory) -> None:
        directory.stable = dict(directory.names)
        directory.pending.clear()
        for node in directory.names.values():
            if isinstance(node, Directory):
                self._sync_everything(node)
            else:
                node.stable = bytearray(node.content)
                node.pending.clear()

    def alive(self) -> None:
        if self._off:
            raise PowerLost

    def changing(self) -> None:
        """Called before every change."""
        self.alive()
        if self._changes_left is not None:
            if self._changes_left == 0:
                self._off = True
                raise PowerLost
            self._changes_left -= 1
        self.changes += 1

    @contextmanager
    def began_after(self, changes: int) -> Iterator[None]:
        """Syncs in this block began after that number of changes. They do not cover the changes made since."""
        self.missed = range(changes + 1, self.changes + 1)
        try:
            yield
        finally:
            self.missed = range(0)

    @property
    def is_off(self) -> bool:
        return self._off

    def digest(self) -> bytes:
        """The same for two disks that show the same files with the same content."""
        digest = hashlib.sha256()
        _digest(self._root, "", digest.update)
        return digest.digest()

    def used_bytes(self) -> int:
        return _size(self._root)

    # ------------------------------------------------------------------------------------------------- the Disk itself

    def lock(self, directory: str) -> "ForgetfulLock":
        self.alive()
        if directory in self._locked:
            raise DataDirectoryLocked(f"{directory} is in use by another broker")
        self._locked.add(directory)
        return ForgetfulLock(self._locked, directory)

    def open(self, path: str, *, create: bool = False) -> "ForgetfulFile":
        self.alive()
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.changing()
            if self.fail_writes:
                raise OSError(errno.EIO, "the disk is broken")
            node = Inode(modified_ms=self.now_ms())
            parent.change(name, node)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return ForgetfulFile(self, node, path)

    def listdir(self, path: str) -> list[str]:
        self.alive()
        return list(self._directory(path).names)

    def exists(self, path: str) -> bool:
        self.alive()
        if not _split(path):
            return True  # the root
        try:
            parent, name = self._parent(path)
        except FileNotFoundError:
            return False
        return name in parent.names

    def mkdir(self, path: str) -> None:
        node = self._root
        for name in _split(path):
            child = node.names.get(name)
            if child is None:
                self.changing()
                child = Directory()
                node.change(name, child)
            if not isinstance(child, Directory):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            node = child

    def rename(self, old: str, new: str) -> None:
        (old_parent, old_name), (new_parent, new_name) = self._parent(old), self._parent(new)
        if old_parent is not new_parent:
            raise NotImplementedError("files move within their directory only")
        node = old_parent.names.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self.changing()
        old_parent.change(new_name, node, renamed_from=old_name)

    def unlink(self, path: str) -> None:
        parent, name = self._parent(path)
        if name in parent.names:
            self.changing()
            parent.change(name, None)

    def rmtree(self, path: str) -> None:
        if self.exists(path):
            self.changing()
            parent, name = self._parent(path)
            parent.change(name, None)

    def fsync_dir(self, path: str) -> None:
        self.syncing()
        directory = self._directory(path)
        directory.stable = dict(directory.names)
        directory.pending.clear()

    def sync_file(self, path: str) -> None:
        try:
            self.open(path).fdatasync()
        except FileNotFoundError:
            return

    def read_bytes(self, path: str) -> bytes:
        return bytes(self.open(path).inode.content)

    def write_bytes(self, path: str, data: bytes) -> None:
        file = self.open(path, create=True)
        file.truncate(0)
        if file.pwrite(data, 0) != len(data):
            raise OSError(errno.ENOSPC, "no space left on device")

    def write_atomically(self, path: str, data: bytes) -> None:
        self.write_bytes(path + ".tmp", data)
        self.sync_file(path + ".tmp")
        self.rename(path + ".tmp", path)
        self.fsync_dir(os.path.dirname(path))

    def modified_ms(self, path: str) -> int:
        return self.open(path).inode.modified_ms

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        self.open(path).inode.modified_ms = time_ms

    def syncing(self) -> None:
        """Called before every sync."""
        self.changing()
        if self.fail_syncs:
            raise OSError(errno.EIO, "the disk is broken")
        self.syncs += 1

    def _parent(self, path: str) -> tuple[Directory, str]:
        self.alive()
        *directories, name = _split(path)
        return self._walk(directories, path), name

    def _directory(self, path: str) -> Directory:
        self.alive()
        return self._walk(_split(path), path)

    def _walk(self, names: list[str], path: str) -> Directory:
        node = self._root
        for name in names:
            child = node.names.get(name)
            if not isinstance(child, Directory):
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            node = child
        return node


class ForgetfulLock:
    """Held until released, or until the power is lost."""

    def __init__(self, locked: set[str], directory: str) -> None:
        self._locked = locked
        self._directory = directory

    def release(self) -> None:
        self._locked.discard(self._directory)


class ForgetfulFile:
    def __init__(self, disk: ForgetfulDisk, inode: Inode, path: str) -> None:
        self._disk = disk
        self._directory = os.path.dirname(path)
        self.inode = inode
        self._retained = 0
        self._open = True
        self._closing = False

    def pwrite(self, data: Buffer, position: int) -> int:
        self._usable()
        self._disk.changing()
        if self._disk.fail_writes:
            raise OSError(errno.EIO, "the disk is broken")
        room = len(data)
        if self._disk.capacity_bytes is not None:
            growth_allowed = max(0, self._disk.capacity_bytes - self._disk.used_bytes())
            room = max(0, len(self.inode.content) + growth_allowed - position)
        if self._directory in self._disk.full_directories:
            room = 0
        if not room and len(data):
            raise OSError(errno.ENOSPC, "no space left on device")
        taken = bytes(data[:room])
        _write(self.inode.content, position, taken)
        self.inode.pending.append(Change(self._disk.changes, position, taken))
        self.inode.modified_ms = self._disk.now_ms()
        return len(taken)

    def pread(self, count: int, position: int) -> bytes:
        self._usable()
        self._disk.alive()
        if self._disk.fail_reads:
            raise OSError(errno.EIO, "the disk is broken")
        return bytes(self.inode.content[position : position + count])

    def size(self) -> int:
        self._usable()
        return len(self.inode.content)

    def truncate(self, size: int) -> None:
        self._usable()
        self._disk.changing()
        if self._disk.fail_writes:
            raise OSError(errno.EIO, "the disk is broken")
        if size != len(self.inode.content):
            _truncate(self.inode.content, size)
            self.inode.pending.append(Change(self._disk.changes, size, None))

    def fdatasync(self) -> None:
        self._usable()
        self._disk.syncing()
        left = []
        for change in self.inode.pending:
            if change.number in self._disk.missed:
                left.append(change)
            else:
                self.inode.reach_platter(change)
        self.inode.pending[:] = left

    def retain(self) -> None:
        self._retained += 1

    def release(self) -> None:
        self._retained -= 1
        if self._closing and not self._retained:
            self.close()

    def close(self) -> None:
        if self._retained:
            self._closing = True
        else:
            self._open = False

    def _usable(self) -> None:
        if not self._open:
            raise OSError(errno.EBADF, "the file is closed")


def _split(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _size(node: Inode | Directory) -> int:
    if isinstance(node, Directory):
        return sum(_size(child) for child in node.names.values())
    return len(node.content)


def _digest(directory: Directory, path: str, update: Callable[[bytes], None]) -> None:
    for name, node in sorted(directory.names.items(), key=lambda item: item[0]):
        update(f"{path}/{name}\n".encode())
        if isinstance(node, Directory):
            _digest(node, f"{path}/{name}", update)
        else:
            update(len(node.content).to_bytes(8, "big") + node.content)


def _write(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content += bytes(position - len(content))
    content[position : position + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content += bytes(size - len(content))


def _some(items: list[Item], rng: random.Random) -> list[Item]:
    """Any of them: none, all, a first part as a journal keeps it, or an arbitrary choice."""
    match rng.randrange(4):
        case 0:
            return []
        case 1:
            return list(items)
        case 2:
            return items[: rng.randint(0, len(items))]
        case _:
            return [item for item in items if rng.random() < 0.5]


def _forget_bytes(inode: Inode, rng: random.Random | None) -> None:
    if rng is not None:
        for change in _some(inode.pending, rng):
            inode.reach_platter(change if change.data is None else change._replace(data=_torn(change.data, rng)))
    inode.pending.clear()
    inode.content = bytearray(inode.stable)


def _torn(data: bytes, rng: random.Random) -> bytes:
    """A write may reach the platter in part: its beginning, or with a sector in the middle that never arrived."""
    match rng.randrange(6):
        case 0:
            return data[: rng.randint(0, len(data))]
        case 1:
            start, stop = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
            return data[:start] + bytes(stop - start) + data[stop:]
        case _:
            return data
