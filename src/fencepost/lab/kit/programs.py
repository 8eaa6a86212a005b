"""Programs of ours that are killed and paused. They report their progress in JSON lines.

A program that reaches the point where it must stop says so and waits for a line on its standard input. So the parent
knows exactly where it is killed. Its plan is the first line of its standard input: a plan may hold a password, and
everybody on the machine can read a command line. Invariant: no program outlives its `Program`.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fencepost.child import Child, ChildFailed

TIMEOUT_S = 60.0


class Program(Child):
    """One process: `python -m module`, which calls `read_plan`."""

    def __init__(
        self, name: str, module: str, plan: Any, home: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        """`plan` is a dataclass."""
        super().__init__(home / f"{name.replace(' ', '-')}.err", name, on_line=self._keep)
        self.events: list[dict[str, Any]] = []
        self.start([sys.executable, "-P", "-m", module], variables, home)
        self.send(json.dumps(asdict(plan)) + "\n")

    def wait_for(
        self, event: str, fits: Callable[[dict[str, Any]], bool] = lambda event: True, timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """Wait until it reports this event. Raises ChildFailed if it ends before."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            has_ended = not self.is_running
            if has_ended:
                self.await_last_words()
            found = next((e for e in list(self.events) if e["event"] == event and fits(e)), None)
            if found is not None:
                return found
            if has_ended or time.monotonic() > deadline_s:
                how = "ended" if has_ended else f"took longer than {timeout_s:.0f} s"
                raise ChildFailed(f"{self.name} {how} before {event!r}: {self.said()}")
            time.sleep(0.01)

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        return super().wait(timeout_s)

    def said(self) -> str:
        """The last of its output, for people."""
        lines = [line for line in super().said().splitlines() if not line.lstrip().startswith("at ")]  # of Java's stack
        how = "" if self.status is None else f"exit status {self.status}; "
        return f"{how}{self.events[-5:]} {chr(10).join(lines)[-2000:]}".strip()

    def go_on(self) -> None:
        """Let it go on from where it stopped."""
        self.send("\n")

    def _keep(self, line: str) -> None:
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and "event" in said:
                self.events.append(said)


def read_plan() -> dict[str, Any]:
    """In a program: the fields of its plan."""
    found: dict[str, Any] = json.loads(sys.stdin.readline())
    return found


def say(event: str, **more: Any) -> None:
    """In a program: tell the parent."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def wait_here(point: str, **more: Any) -> None:
    """In a program: say that the point is reached, and wait to be killed or told to go on."""
    say("at", point=point, **more)
    sys.stdin.readline()
