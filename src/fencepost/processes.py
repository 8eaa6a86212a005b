"""Processes with all their descendants: finds them, sends them signals, makes them stand still."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from fencepost.errors import FencepostError

STOP_TIMEOUT_S = 30.0
POLL_S = 0.002
#: States of a thread that runs no more code: stopped, stopped by a tracer, ended.
STANDING_STILL = frozenset("TtZX")


class WillNotStop(FencepostError):
    """A process still runs long after SIGSTOP."""


def tree(pid: int) -> list[int]:
    """A process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def stop_all(pids: Iterable[int]) -> None:
    """Send SIGSTOP and wait until it has effect: one thread takes the signal, and the others run on until then."""
    told = list(pids)
    signal_all(told, signal.SIGSTOP)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    for pid in told:
        while not all(state in STANDING_STILL for state in _thread_states(pid)):
            if time.monotonic() > deadline_s:
                raise WillNotStop(f"process {pid} still runs {STOP_TIMEOUT_S:g} s after SIGSTOP")
            time.sleep(POLL_S)


def continue_all(pids: Iterable[int]) -> None:
    """SIGCONT, children first."""
    signal_all(reversed(list(pids)), signal.SIGCONT)


def _thread_states(pid: int) -> Iterator[str]:
    try:
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return
    for thread in threads:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield (thread / "stat").read_text().rpartition(")")[2].split()[0]
