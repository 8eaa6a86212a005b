"""The command line as a user has it: in a process of its own, and everything that it says kept."""

import os
import subprocess
import sys
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


def start(*words: object, log: Path) -> "subprocess.Popen[bytes]":
    """Start it, in a session of its own as a terminal would; what it says goes to the file `log`."""
    with log.open("ab") as out:
        return subprocess.Popen(
            command(*words), stdout=out, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )


def await_said(running: "subprocess.Popen[bytes]", log: Path, words: str) -> None:
    """Until it has said so, or has ended."""
    wait_until(lambda: words in log.read_text() or running.poll() is not None, f"{words!r} is said", TIMEOUT_S)
