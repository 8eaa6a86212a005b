"""Starts, kills, pauses and replaces the processes of the clients, and restarts those that end by themselves.

The newest incarnation of a name counts. An older one that still runs is a zombie: it was paused when it was replaced,
and must be fenced when it wakes up. It is not restarted.
"""

import json
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from fencepost.child import Child, ChildFailed
from fencepost.lab.chaos.clients.base import START_AGAIN
from fencepost.lab.chaos.plan import ClientSpec

STOP_TIMEOUT_S = 25.0
#: A client that ends as soon as it starts is not started in a tight loop.
RESTART_PAUSE_S = 0.3


class ClientProcess(Child):
    """One incarnation of a client."""

    def __init__(self, spec: ClientSpec) -> None:
        name = f"{spec.name}.{spec.incarnation}"
        super().__init__(Path(spec.history) / f"{name}.err", name, logs_output=True)
        self.started_s = time.monotonic()
        self.start([sys.executable, "-P", "-m", "fencepost.lab.chaos.clients.main"])
        self.send(json.dumps(asdict(spec)) + "\n")


class Crew:
    def __init__(self, specs: list[ClientSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._children: dict[str, ClientProcess] = {}
        self._zombies: list[ClientProcess] = []
        self._down: set[str] = set()  #: killed, and not restarted before the fault is over
        self.starts = 0
        self.crashes: list[str] = []  #: unexpected ends, with the output

    @property
    def names(self) -> list[str]:
        return list(self._specs)

    def start(self, *names: str) -> None:
        """One more incarnation of each."""
        for name in names:
            self._down.discard(name)
            spec = self._specs[name]
            self._children[name] = ClientProcess(spec)
            self._specs[name] = replace(spec, incarnation=spec.incarnation + 1)
            self.starts += 1

    def kill(self, *names: str) -> None:
        self._down.update(names)
        for child in self._running(names):
            child.kill()

    def pause(self, *names: str) -> None:
        for child in self._running(names):
            child.pause()

    def resume(self, *names: str) -> None:
        for child in self._running(names):
            child.resume()

    def replace_paused(self, *names: str) -> None:
        """Start successors of clients that are paused. These become zombies."""
        self._zombies += [self._children.pop(name) for name in names if name in self._children]
        self.start(*names)

    def wake_zombies(self) -> None:
        for zombie in self._zombies:
            zombie.resume()

    def tend(self) -> None:
        """Restart clients that have ended."""
        for name, child in list(self._children.items()):
            if not child.is_running and name not in self._down and time.monotonic() - child.started_s > RESTART_PAUSE_S:
                self._look_at(child)
                self.start(name)
        for zombie in [each for each in self._zombies if not each.is_running]:
            self._look_at(zombie)
            self._zombies.remove(zombie)

    def silent(self, last_ns: Mapping[str, int], longer_than_s: float) -> list[str]:
        """Clients that run and have made no progress for longer than this."""
        now_ns = time.monotonic_ns()
        return [
            name
            for name, child in self._children.items()
            if name not in self._down
            and now_ns - max(last_ns.get(name, 0), int(child.started_s * 1e9)) > longer_than_s * 1e9
        ]

    def stop_all(self) -> list[str]:
        """Let every client finish its work. Returns those that had to be killed."""
        for child in [*self._children.values(), *self._zombies]:
            child.resume()
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        killed = []
        for child in [*self._children.values(), *self._zombies]:
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
                self._look_at(child)
            except ChildFailed:
                killed.append(child.name)
        self.kill_all()
        return killed

    def kill_all(self) -> None:
        for child in [*self._children.values(), *self._zombies]:
            child.kill()
        self._children.clear()
        self._zombies.clear()

    def _running(self, names: Iterable[str]) -> list[ClientProcess]:
        return [self._children[name] for name in names if name in self._children]

    def _look_at(self, child: ClientProcess) -> None:
        child.kill()
        if child.status not in (0, START_AGAIN, -signal.SIGKILL, -signal.SIGTERM):
            self.crashes.append(f"{child.name} ended with {child.status}:\n{child.said()}")
