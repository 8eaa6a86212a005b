"""The process that Spark forks its Python workers from (`spark.python.daemon.module`), with their modules preloaded.

Importing PyArrow, numba and our kernels takes a second, and every worker would do it again. Here it is done once,
before the first fork.

Invariant: only the main thread runs when a worker is forked. A lock that another thread holds at that moment would stay
locked in the child for ever. Libraries are told not to start threads. If one starts a thread anyway, this process
starts over as Spark's own daemon, which imports nothing.
"""

import contextlib
import gc
import importlib
import os
import sys
from pathlib import Path

from fencepost.allocator import keep_freed_memory
from fencepost.client import jit
from fencepost.errors import FencepostError

PLAIN_DAEMON = "pyspark.daemon"
#: There is a process for each core, so threads would not help.
NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
#: Each part of a batch takes and frees the same tens of megabytes (`fencepost.allocator`). Arrow keeps what is free for
#: so many milliseconds.
KEEPS_MEMORY = {"MIMALLOC_PURGE_DELAY": "5000"}
KEPT_BYTES, REUSED_BYTES = 128 << 20, 32 << 20
MODULES = (
    "numpy",
    "pyarrow.compute",
    "pandas",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "fencepost.client.cluster",
    "fencepost.client.transaction",
    "fencepost.client.reading",
    "fencepost.client.writing",
    "fencepost.client.encode",
    "fencepost.formats.json_encode",
    "fencepost.formats.serializers",
    "fencepost.formats.json_decode",
)


def preload() -> None:
    """Import everything. A module that is not installed fails later, in the worker that needs it."""
    for name, value in (NO_THREADS | KEEPS_MEMORY).items():
        os.environ.setdefault(name, value)
    keep_freed_memory(KEPT_BYTES, REUSED_BYTES)
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError, FencepostError):
        for name in jit.KERNELS:
            jit.load(name)


def thread_count() -> int:
    """Threads of this process, including those of C libraries; 1 if unknown."""
    try:
        return len([*Path("/proc/self/task").iterdir()])
    except OSError:
        return 1


def main() -> None:
    preload()
    if thread_count() > 1:
        os.execv(sys.executable, [sys.executable, "-m", PLAIN_DAEMON, *sys.argv[1:]])
    gc.collect()
    gc.freeze()  # otherwise the first collection in a child would touch, and so copy, every shared page
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
