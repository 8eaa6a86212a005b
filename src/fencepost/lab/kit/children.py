"""Processes that scenarios kill and pause: a program of ours that says in JSON lines how far it is.

A child that comes to the point where it was told to stop says so and waits for a line on its standard input, so the
parent knows for certain where it is killed. Invariant: no child outlives its `Child`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from fencepost.errors import FencepostError
from fencepost.lab.kit.processes import continue_all, signal_all, stop_all, tree

TIMEOUT_S = 60.0


class ChildFailed(FencepostError):
    """A process did not do what the scenario needs it to do."""


class Child:
    """One process: `python -m module json`."""

    def __init__(
        self, name: str, module: str, plan: Mapping[str, Any], home: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.events: list[dict[str, Any]] = []
        self._errors = home / f"{name.replace(' ', '-')}.err"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, json.dumps(plan)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=home,
                env=_environment(environment or {}),
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"{name}-out", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    # -- waiting -----------------------------------------------------------------------------------------------------

    def wait_for(
        self, event: str, fits: Callable[[dict[str, Any]], bool] = lambda event: True, timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """Until it has said so; ChildFailed if it ends before."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            has_ended = not self.is_alive
            if has_ended:
                self._reader.join(5)
            found = next((e for e in list(self.events) if e["event"] == event and fits(e)), None)
            if found is not None:
                return found
            if has_ended or time.monotonic() > deadline_s:
                how = "ended" if has_ended else f"did not come to it within {timeout_s:.0f} s"
                raise ChildFailed(f"{self.name} {how} before {event!r}: {self.said()}")
            time.sleep(0.01)

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Its exit status; negative for a signal."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"{self.name} did not end within {timeout_s:.0f} s: {self.said()}") from None
        self._reader.join(5)
        return status

    def said(self) -> str:
        """The last of what it said, for people."""
        errors = self._errors.read_text(errors="replace") if self._errors.exists() else ""
        lines = [line for line in errors.splitlines() if not line.lstrip().startswith("at ")]  # of Java's stack
        status = self._process.poll()
        how = "" if status is None else f"exit status {status}; "
        return f"{how}{self.events[-5:]} {chr(10).join(lines)[-2000:]}".strip()

    # -- harm --------------------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Let it go on from where it stopped."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, ValueError):
                self._process.stdin.write("\n")
                self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL to it and to everything that it started."""
        signal_all(tree(self.pid) if self.is_alive else [], signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what is left of its session
        self._process.wait()

    def pause(self) -> None:
        """It and everything that it started stand still."""
        stop_all(tree(self.pid))

    def resume(self) -> None:
        continue_all(tree(self.pid))

    def close(self) -> None:
        self.kill()
        self._reader.join(5)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _read(self) -> None:
        stdout = self._process.stdout
        if stdout is None:
            return
        with contextlib.suppress(ValueError):
            for line in stdout:
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if isinstance(said, dict) and "event" in said:
                        self.events.append(said)


def say(event: str, **more: Any) -> None:
    """In a child: tell the parent."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def wait_here(point: str, **more: Any) -> None:
    """In a child: say that the point is reached, and wait to be killed or told to go on."""
    say("at", point=point, **more)
    sys.stdin.readline()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    here = str(Path(__file__).parents[3])
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, given] if given else [here]), **more}
