"""Replaces segments by the one compacted from them. After a crash at any step, recovery finds the old or the new.

The steps, each durable before the next (the names are Kafka's)::

    .cleaned   being written: counts for nothing
    .swap      complete: it counts, and the segments that it replaces no longer do
    (none)     in place: the replaced segments are gone

A `.swap` segment covers the offsets from its base to the end of its last batch. The cleaner keeps that batch even if it
is empty, so the file itself says which segments it replaces.
"""

import os

from fencepost.log import files
from fencepost.log.disk import Disk
from fencepost.log.segment import Segment


def announce(disk: Disk, cleaned: Segment) -> None:
    """`cleaned` is complete and synced: from here on it counts."""
    # All names are durable before the first changes. A `.swap` index whose log is missing is then known to be one that
    # `put_in_place` was renaming, and not one whose log was lost.
    disk.fsync_dir(cleaned.directory)
    cleaned.rename(files.SWAP)
    disk.fsync_dir(cleaned.directory)


def put_in_place(disk: Disk, directory: str, replaced_bases: list[int]) -> None:
    """Remove the replaced segments, then give the new one the name of the first of them."""
    for base in replaced_bases:
        for kind in reversed(files.SEGMENT_SUFFIXES):
            disk.unlink(os.path.join(directory, files.name(base, kind)))
    # An old segment that came back beside the new one would overlap it.
    disk.fsync_dir(directory)
    for kind in files.SEGMENT_SUFFIXES:
        path = os.path.join(directory, files.name(replaced_bases[0], kind))
        if disk.exists(path + files.SWAP):
            disk.rename(path + files.SWAP, path)
    disk.fsync_dir(directory)


def finish_swaps(disk: Disk, directory: str) -> None:
    """When a log is opened: complete or undo what a crash interrupted."""
    named = [(name, parsed) for name in disk.listdir(directory) if (parsed := files.parse(name)) is not None]
    cleaned = [(name, base) for name, (base, suffix) in named if suffix.endswith(files.CLEANED)]
    swaps = [(name, base, suffix) for name, (base, suffix) in named if suffix.endswith(files.SWAP)]
    # Some of a segment's files are still `.cleaned`: the step to `.swap` was not completed, the old segments are whole.
    unfinished = {base for _, base in cleaned}
    for name in [name for name, _ in cleaned] + [name for name, base, _ in swaps if base in unfinished]:
        disk.unlink(os.path.join(directory, name))
    swaps = [swap for swap in swaps if swap[1] not in unfinished]
    for base in sorted(base for _, base, suffix in swaps if suffix == files.LOG + files.SWAP):
        segment = Segment(disk, directory, base, created_ms=0, suffix=files.SWAP)
        segment.load()
        end_offset = segment.end_offset()
        segment.release()
        for name, (offset, suffix) in named:
            if suffix in files.SEGMENT_SUFFIXES and base <= offset < end_offset:
                disk.unlink(os.path.join(directory, name))
    disk.fsync_dir(directory)
    for name, _, _ in swaps:
        disk.rename(os.path.join(directory, name), os.path.join(directory, name[: -len(files.SWAP)]))
    disk.fsync_dir(directory)
