"""Compiling all kernels before somebody needs them, a process per core.

    python -m fencepost.client.compiling

It takes some ten seconds of two cores, once per machine. Without it every kernel is compiled at its first use, one
after the other (`jit`).
"""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import time

from fencepost.client import jit

CACHE_VARIABLE = "NUMBA_CACHE_DIR"


def in_background() -> None:
    """Begin to compile what is not compiled yet. Who needs it early waits (`jit.load`)."""
    if CACHE_VARIABLE not in os.environ and not is_done():
        nothing = subprocess.DEVNULL
        subprocess.Popen([sys.executable, "-m", __name__], stdin=nothing, stdout=nothing, stderr=nothing)


def is_done() -> bool:
    """Whether an earlier process has compiled everything, by the files beside our modules."""
    return all(_is_done(name) for name in jit.KERNELS)


def _is_done(name: str) -> bool:
    source = jit.PACKAGE / f"{name.replace('.', '/')}.py"
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    found = jit.cache_of(name).glob(f"{source.stem}.*.py{version}.nbi")
    return any(path.stat().st_mtime >= source.stat().st_mtime for path in found)


def main() -> None:
    started_s = time.monotonic()
    cores = min(os.cpu_count() or 1, len(jit.KERNELS))
    with concurrent.futures.ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        for done, _ in enumerate(pool.map(_compile, jit.KERNELS), 1):
            _say(f"\rcompiling kernels: {done} of {len(jit.KERNELS)} modules")
    _say(f", {time.monotonic() - started_s:.0f} s\n")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _compile(name: str) -> None:
    jit.load(name)  # a module cannot be sent back


if __name__ == "__main__":
    main()
