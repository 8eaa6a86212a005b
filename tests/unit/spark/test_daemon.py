"""The process that Spark forks workers from."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")


CODE = """
import sys
from fencepost.spark import daemon
daemon.preload()
wanted = {*daemon.MODULES, *(f"fencepost.{name}" for name in daemon.jit.KERNELS)}
print(daemon.thread_count(), wanted - {*sys.modules})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_worker_finds_everything_loaded_nothing_was_printed_and_only_the_main_thread_runs():
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=100, check=True)
    assert ran.stdout.strip() == "1 set()"
