"""Processes that stand still do so before anybody goes on."""

import subprocess
import sys
from pathlib import Path

from fencepost.processes import continue_all, stop_all, tree
from tests.conftest import wait_until

#: A thread that counts while the main one sleeps.
COUNTING = """
import pathlib, sys, threading, time
def count():
    number = 0
    while True:
        number += 1
        pathlib.Path(sys.argv[1]).write_text(str(number))
threading.Thread(target=count, daemon=True).start()
time.sleep(600)
"""


def test_nothing_of_a_stopped_process_runs_until_it_is_continued(tmp_path: Path):
    counted = tmp_path / "count"
    with subprocess.Popen([sys.executable, "-c", COUNTING, str(counted)]) as child:
        try:
            wait_until(counted.exists, "it counts")
            for _ in range(50):
                stop_all(tree(child.pid))
                stood_at = counted.read_text()
                assert counted.read_text() == stood_at
                continue_all(tree(child.pid))
                wait_until(lambda stood_at=stood_at: counted.read_text() not in ("", stood_at), "it goes on")
        finally:
            child.kill()
