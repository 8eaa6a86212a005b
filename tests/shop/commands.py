"""The command line as a user has it: in a process of its own, and everything that it says kept."""

import os
import subprocess
import sys
import time
from pathlib import Path

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


def start(*words: object, log: Path) -> "subprocess.Popen[bytes]":
    """Start it, in a session of its own as a terminal would; what it says goes to the file `log`."""
    with log.open("ab") as out:
        return subprocess.Popen(
            command(*words), stdout=out, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )


def await_said(running: "subprocess.Popen[bytes]", log: Path, words: str) -> None:
    """Until it has said so, or has ended."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while words not in log.read_text() and running.poll() is None:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{words!r} was not said: {log.read_text()}")
        time.sleep(0.02)
