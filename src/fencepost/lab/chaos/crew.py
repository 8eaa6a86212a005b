"""The processes of the clients: started, killed, paused, replaced; whoever ends on its own is started again.

A name has one incarnation that counts, the newest. An older one that is still there is a zombie: paused when it was
replaced, and to be fenced when it wakes up. It is not started again.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fencepost.lab.chaos.clients.base import START_AGAIN
from fencepost.lab.chaos.plan import ClientSpec

STOP_TIMEOUT_S = 25.0
#: A client that ends as soon as it starts is not started in a tight loop.
RESTART_PAUSE_S = 0.3


@dataclass(slots=True)
class Child:
    spec: ClientSpec
    process: "subprocess.Popen[bytes]"
    errors: Path
    started_s: float

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> None:
        """SIGKILL, unless it has ended, and nothing left of it here."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


class Crew:
    def __init__(self, specs: list[ClientSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._children: dict[str, Child] = {}
        self._zombies: list[Child] = []
        self._down: set[str] = set()  #: killed, and not to be started before the fault is over
        self.starts = 0
        self.crashes: list[str] = []  #: who ended in a way that it should not, and what it said

    @property
    def names(self) -> list[str]:
        return list(self._specs)

    def start_all(self) -> None:
        for name in self._specs:
            self.start(name)

    def start(self, name: str) -> None:
        """One more incarnation."""
        self._down.discard(name)
        spec = self._specs[name]
        self._children[name] = launch(spec)
        self._specs[name] = replace(spec, incarnation=spec.incarnation + 1)
        self.starts += 1

    def kill(self, name: str) -> None:
        child = self._children.get(name)
        self._down.add(name)
        if child is not None:
            child.end()

    def pause(self, name: str) -> None:
        if name in self._children:
            self._children[name].signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        if name in self._children:
            self._children[name].signal(signal.SIGCONT)

    def replace_paused(self, name: str) -> None:
        """A successor for one that is paused, which becomes a zombie."""
        if name in self._children:
            self._zombies.append(self._children.pop(name))
        self.start(name)

    def wake_zombies(self) -> None:
        for zombie in self._zombies:
            zombie.signal(signal.SIGCONT)

    def tend(self) -> None:
        """Start again whoever ended."""
        for name, child in list(self._children.items()):
            if child.has_ended and name not in self._down and time.monotonic() - child.started_s > RESTART_PAUSE_S:
                self._look_at(child)
                self.start(name)
        for zombie in [each for each in self._zombies if each.has_ended]:
            self._look_at(zombie)
            self._zombies.remove(zombie)

    def silent(self, last_ns: Mapping[str, int], longer_than_s: float) -> list[str]:
        """Those that are up and have got nothing done for so long."""
        now_ns = time.monotonic_ns()
        return [
            name
            for name, child in self._children.items()
            if name not in self._down
            and now_ns - max(last_ns.get(name, 0), int(child.started_s * 1e9)) > longer_than_s * 1e9
        ]

    def stop_all(self) -> list[str]:
        """Let everybody finish what it is at; gives those that had to be killed."""
        for child in [*self._children.values(), *self._zombies]:
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        killed = []
        for child in [*self._children.values(), *self._zombies]:
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
                self._look_at(child)
            except subprocess.TimeoutExpired:
                killed.append(f"{child.spec.name}.{child.spec.incarnation}")
        self.kill_all()
        return killed

    def kill_all(self) -> None:
        for child in [*self._children.values(), *self._zombies]:
            child.end()
        self._children.clear()
        self._zombies.clear()

    def _look_at(self, child: Child) -> None:
        child.end()
        code = child.process.returncode
        if code not in (0, START_AGAIN, -signal.SIGKILL, -signal.SIGTERM):
            said = child.errors.read_text(errors="replace")[-3000:]
            self.crashes.append(f"{child.spec.name}.{child.spec.incarnation} ended with {code}:\n{said}")


def launch(spec: ClientSpec) -> Child:
    here = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    errors = Path(spec.history) / f"{spec.name}.{spec.incarnation}.err"
    with errors.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fencepost.lab.chaos.clients.main", json.dumps(spec.as_dict())],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
    return Child(spec, process, errors, time.monotonic())
