"""Keeps memory that was freed, in processes that take and free the same buffers again and again.

By default glibc may give a freed buffer back to the system, depending on its size and on what lies beside it. The
system's zeroing of new pages then costs as much as the work that is done on them; in a virtual machine, which gives
pages back to its host, several times as much.
"""

import contextlib
import ctypes

#: Of glibc's `mallopt`.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory(kept_bytes: int, reused_bytes: int) -> None:
    """Keep up to `kept_bytes` of free memory, and reuse buffers of up to `reused_bytes`. With another libc: nothing."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, reused_bytes)
        mallopt(_M_TRIM_THRESHOLD, kept_bytes)
