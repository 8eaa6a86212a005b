"""Disks that fail as real ones do, on top of the one that forgets."""

from tests.fakes.forgetful_disk import ForgetfulDisk, ForgetfulFile


class UnreliableDisk(ForgetfulDisk):
    """Loses pages when a sync fails, as Linux does.

    After a failed fsync the kernel calls the pages clean: programs still read them, but no later sync writes them.
    """

    def open(self, path: str, *, create: bool = False) -> "UnreliableFile":
        return UnreliableFile(self, super().open(path, create=create).inode, path)


class UnreliableFile(ForgetfulFile):
    def fdatasync(self) -> None:
        self._usable()
        pending = self.inode.pending
        try:
            self._disk.syncing()
        except OSError:
            pending.clear()
            raise
        covered = len(pending)
        for position, data in pending[:covered]:
            content = self.inode.stable
            size = position if data is None else max(len(content), position + len(data))
            del content[size:]
            content.extend(bytes(size - len(content)))
            if data is not None:
                content[position : position + len(data)] = data
        del pending[:covered]
