"""The process that Spark forks its Python workers from (`spark.python.daemon.module`), with what they need loaded.

A worker that imports PyArrow, numba and our kernels by itself takes a second to come to its first row, and every worker
does so again. Here it is done once, before the first fork.

Invariant: nothing but the main thread runs when a worker is forked, since a lock that another thread holds at that
moment stays locked in the child for ever. Libraries that would start threads are told not to. Should one do it all the
same, this process starts over as Spark's own daemon, which imports nothing.
"""

import gc
import importlib
import os
import sys
from pathlib import Path

PLAIN_DAEMON = "pyspark.daemon"
#: Nobody needs them in a process that has other processes beside it for each core.
NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
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
    "fencepost.client.encode_kernels",
    "fencepost.client.decode_kernels",
)


def preload() -> None:
    """Import everything. What is not installed is left to the worker that asks for it, and to its error message."""
    for name, value in NO_THREADS.items():
        os.environ.setdefault(name, value)
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            pass


def thread_count() -> int:
    """Threads of this process, those of C libraries included; 1 where it cannot be learned."""
    try:
        return len([*Path("/proc/self/task").iterdir()])
    except OSError:
        return 1


def main() -> None:
    preload()
    if thread_count() > 1:
        os.execv(sys.executable, [sys.executable, "-m", PLAIN_DAEMON, *sys.argv[1:]])
    gc.collect()
    gc.freeze()  # or the first collection in a child would touch, and so copy, every page that it shares
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
