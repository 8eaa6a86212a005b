"""The command line as a user has it: in a process of its own, with its output kept."""

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
    """Wait until it has printed this, or has ended. A number that counts up may skip values."""
    wait_until(
        lambda: re.search(pattern, log.read_text()) or not running.is_running, f"it prints {pattern!r}", TIMEOUT_S
    )
