"""A disk that fails as real ones do, and forgets what was not synced."""

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
        for change in pending[:covered]:
            self.inode.reach_platter(change)
        del pending[:covered]
