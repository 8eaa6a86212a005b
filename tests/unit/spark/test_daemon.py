"""The process that Spark forks workers from."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    return ran.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_nothing_but_the_main_thread_runs_when_workers_are_forked():
    assert run("from fencepost.spark import daemon as d; d.preload(); print(d.thread_count())") == "1"


def test_a_worker_finds_everything_loaded_and_nothing_was_printed():
    code = "from fencepost.spark import daemon as d; d.preload(); import sys; print({*d.MODULES} - {*sys.modules})"
    assert run(code) == "set()"
