"""The command line as a user has it: in a process of its own, and everything that it says kept."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300.0


def environment() -> dict[str, str]:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "fencepost.cli.main", *map(str, words)]


def fencepost(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(), check=False
    )


@contextlib.contextmanager
def started(*words: object, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """In a session of its own, as a terminal would; what it says goes to the file `log`. Nothing outlives the block."""
    with log.open("ab") as out:
        running = subprocess.Popen(
            command(*words), stdout=out, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def await_said(running: "subprocess.Popen[bytes]", log: Path, pattern: str) -> None:
    """Until it has said something like that, or has ended. A figure that counts up may not be seen at every value."""
    wait_until(
        lambda: re.search(pattern, log.read_text()) or running.poll() is not None, f"{pattern!r} is said", TIMEOUT_S
    )
