"""Owns a partition's directory: which files are in it beside the segments, and which changes are not synced yet.

Nothing here waits for the disk. What changes is noted as dirty and goes with the next round of the group commit, so a
file written here is either one that a crash may lose (because the log can make it again) or carries a CRC.
"""

import os

from fencepost.log import checkpoint, files, snapshot
from fencepost.log.disk import Disk
from fencepost.log.epochs import LeaderEpochs
from fencepost.log.flush import Dirty
from fencepost.log.producers import Producers
from fencepost.log.segment import Segment
from fencepost.log.snapshot import Place


class PartitionDirectory:
    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        #: Offsets for which there is a snapshot of the producers.
        self.snapshots: set[int] = set()
        self.dirty = Dirty()

    def create(self, topic_id: bytes) -> None:
        self.disk.mkdir(self.path)
        self.dirty.replacements[os.path.join(self.path, files.PARTITION_METADATA)] = checkpoint.encode_topic_id(
            topic_id
        )
        self.names_changed()
        self.dirty.directories[os.path.dirname(self.path)] = None

    def new_segment(self, base_offset: int, created_ms: int) -> Segment:
        segment = Segment(self.disk, self.path, base_offset, created_ms=created_ms)
        segment.create()
        self.names_changed()
        return segment

    def completed(self, segment: Segment) -> None:
        """A segment gets no more batches: once this is synced, recovery need not look at it again."""
        self.dirty.add_file(segment.file)
        self.dirty.paths.update(dict.fromkeys(segment.index_paths()))

    def take_snapshot(self, producers: Producers, offset: int, place: Place | None = None) -> None:
        """Write the producers as of `offset`. An existing snapshot is not touched: recovery may depend on it."""
        if offset in self.snapshots:
            return
        path = self.snapshot_path(offset)
        self.disk.write_bytes(path, snapshot.encode(producers, place))
        self.snapshots.add(offset)
        self.dirty.paths[path] = None
        self.names_changed()

    def drop_snapshots(self, offsets: set[int]) -> None:
        for offset in offsets & self.snapshots:
            self.disk.unlink(self.snapshot_path(offset))
        self.snapshots -= offsets

    def drop_snapshots_after(self, end_offset: int) -> None:
        self.drop_snapshots({offset for offset in self.snapshots if offset > end_offset})

    def snapshot_path(self, offset: int) -> str:
        return os.path.join(self.path, files.name(offset, files.SNAPSHOT))

    def save_epochs(self, epochs: LeaderEpochs) -> None:
        self.dirty.replacements[os.path.join(self.path, files.LEADER_EPOCHS)] = epochs.encode()
        self.names_changed()

    def sync_names(self) -> None:
        """Sync the names at once, in the caller's thread."""
        self.disk.fsync_dir(self.path)
        self.disk.fsync_dir(os.path.dirname(self.path))

    def names_changed(self) -> None:
        self.dirty.directories[self.path] = None
