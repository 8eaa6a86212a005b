"""Memory for the page cache that the machine really has.

A virtual machine gets its memory when it is first used, and gives back what is free. A page that was given back costs
its next user ten times as much as one that was not: writing a gigabyte to files took 0.2 CPU seconds or 2.3. Who pays
that in a race is chance. So some memory is kept in use before a run, and set free as the page cache grows.
"""

import contextlib
import mmap
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

#: How much is free beyond what the page cache has taken.
AHEAD_BYTES = 256 << 20
POLL_S = 0.05


@contextlib.contextmanager
def ready(size: int) -> Iterator[None]:
    """The page cache finds up to `size` bytes of memory that the machine has."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        yield
        return
    kept = mmap.mmap(-1, size)
    np.frombuffer(kept, np.uint8)[:: mmap.PAGESIZE] = 1
    done = threading.Event()
    giving = threading.Thread(target=_give, args=(kept, size, done), daemon=True)
    giving.start()
    try:
        yield
    finally:
        done.set()
        giving.join()
        kept.close()


def _give(kept: mmap.mmap, size: int, done: threading.Event) -> None:
    before, given = _cached_bytes(), 0
    while not done.wait(POLL_S) and given < size:
        wanted = min(size, max(0, _cached_bytes() - before) + AHEAD_BYTES) // mmap.PAGESIZE * mmap.PAGESIZE
        if wanted > given:
            kept.madvise(mmap.MADV_DONTNEED, given, wanted - given)
            given = wanted


def _cached_bytes() -> int:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["Cached"].split()[0]) * 1024
