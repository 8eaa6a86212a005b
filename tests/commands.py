"""The command line as a user has it: in a process of its own, and everything that it says kept."""

import re
import subprocess
import sys
from pathlib import Path

from fencepost.child import Child, environment
from tests.conftest import wait_until

TIMEOUT_S = 300.0


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "fencepost.cli.main", *map(str, words)]


def fencepost(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(), check=False
    )


def started(*words: object, log: Path) -> Child:
    """In a session of its own, as a terminal would; what it says goes to the file `log`. Nothing outlives a `with`."""
    return Child(log, logs_output=True).start(command(*words))


def await_said(running: Child, log: Path, pattern: str) -> None:
    """Until it has said something like that, or has ended. A figure that counts up may not be seen at every value."""
    wait_until(lambda: re.search(pattern, log.read_text()) or not running.is_running, f"{pattern!r} is said", TIMEOUT_S)
