"""Child processes: what they say, how they end, and what they leave behind. `test_embedded` has forks and owners."""

import signal
import sys
from collections import deque
from pathlib import Path

import pytest

from fencepost.child import Child, ChildFailed
from tests.conftest import wait_until

TIMEOUT_S = 30


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_lines_of_the_output_are_handed_on_and_errors_go_to_the_log(tmp_path: Path):
    lines: list[str] = []
    with Child(tmp_path / "log", on_line=lines.append) as child:
        child.start(python("import sys; print('one'); print('two'); print('oh', file=sys.stderr); sys.exit(3)"))
        assert child.wait(TIMEOUT_S) == 3
    assert lines == ["one\n", "two\n"]
    assert (tmp_path / "log").read_text() == child.said() == "oh\n"


def test_a_log_that_is_there_is_continued(tmp_path: Path):
    for _ in range(2):
        with Child(tmp_path / "log", logs_output=True) as child:
            child.start(python("print('again')")).wait(TIMEOUT_S)
    assert (tmp_path / "log").read_text() == "again\n" * 2


def test_what_is_sent_arrives_and_variables_are_set(tmp_path: Path):
    with Child(deque()) as child:
        child.start(
            python("import os; print(input(), os.environ['GREETED'], os.getcwd())"), {"GREETED": "you"}, tmp_path
        )
        child.send("hello\n")
        assert child.first_line(TIMEOUT_S) == f"hello you {tmp_path}\n"


def test_one_that_does_not_end_in_time_is_told_of_with_its_last_words():
    with Child(deque(), "the sleeper") as child:
        child.start(python("import sys, time; print('zzz', file=sys.stderr, flush=True); print(); time.sleep(600)"))
        child.first_line(TIMEOUT_S)
        with pytest.raises(ChildFailed, match=r"the sleeper did not end within 0 s: (zzz)?"):
            child.wait(0.01)
        assert child.is_running
    assert child.status == -signal.SIGKILL


def test_nothing_that_it_started_outlives_the_block(tmp_path: Path):
    code = """
import subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""
    with Child(tmp_path / "log") as child:
        grandchild = int(child.start(python(code)).first_line(TIMEOUT_S) or "")
        wait_until(lambda: cmdline(grandchild) != b"", "it runs")  # empty for a moment during exec
    wait_until(lambda: cmdline(grandchild) == b"", "it is gone")


def cmdline(pid: int) -> bytes:
    """Empty for a process that has ended, but not been waited for."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_one_that_asks_for_time_to_end_gets_it_and_no_more(tmp_path: Path):
    code = "import signal, time; signal.signal(signal.SIGTERM, {}); print(flush=True); time.sleep(600)"
    for handler, status in (("lambda *_: exit(5)", 5), ("signal.SIG_IGN", -signal.SIGKILL)):
        with Child(tmp_path / "log") as child:
            child.start(python(code.format(handler))).first_line(TIMEOUT_S)
            child.terminate(10 if status == 5 else 0.1)
            assert child.status == status
