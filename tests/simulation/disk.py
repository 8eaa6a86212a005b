"""A disk whose syncs take time: what is written while one is under way is not covered by it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.fakes.forgetful_disk import Buffer, Change, ForgetfulDisk, ForgetfulFile, Inode

#: The changes since a piece of work was handed to the worker, by file.
Missed = dict[Inode, list[Change]]


class SlowDisk(ForgetfulDisk):
    def __init__(self, *directories: str) -> None:
        super().__init__(*directories)
        self._handed_over: dict[int, Missed] = {}
        self._missed: Missed = {}

    def hand_over(self) -> Missed:
        """Work that may sync goes to the worker now; `carry_out` is when it is done."""
        missed: Missed = {}
        self._handed_over[id(missed)] = missed
        return missed

    @contextmanager
    def carry_out(self, missed: Missed) -> Iterator[None]:
        del self._handed_over[id(missed)]
        self._missed = missed
        try:
            yield
        finally:
            self._missed = {}

    def unlock(self) -> None:
        """The process is gone, and with it what it had handed over."""
        super().unlock()
        self._handed_over.clear()

    def open(self, path: str, *, create: bool = False) -> "SlowFile":
        return SlowFile(self, super().open(path, create=create).inode, path)

    def changed(self, inode: Inode) -> None:
        for missed in self._handed_over.values():
            missed.setdefault(inode, []).append(inode.pending[-1])

    def missed(self, inode: Inode) -> list[Change]:
        return self._missed.get(inode, [])


class SlowFile(ForgetfulFile):
    _disk: SlowDisk

    def pwrite(self, data: Buffer, position: int) -> int:
        written = super().pwrite(data, position)
        self._disk.changed(self.inode)
        return written

    def truncate(self, size: int) -> None:
        changes = len(self.inode.pending)
        super().truncate(size)
        if len(self.inode.pending) > changes:
            self._disk.changed(self.inode)

    def fdatasync(self) -> None:
        missed = self._disk.missed(self.inode)
        self._usable()
        self._disk.syncing()
        left = []
        for change in self.inode.pending:
            if any(change is one for one in missed):
                left.append(change)
            else:
                self.inode.reach_platter(change)
        self.inode.pending[:] = left
