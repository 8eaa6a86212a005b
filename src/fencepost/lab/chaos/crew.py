"""The processes of the clients: started, killed, paused, replaced; one that ends on its own is started again.

A name has one incarnation that counts, the newest. An older one that is still there is a zombie: paused when it was
replaced, and to be fenced when it wakes up. It is not started again.
"""

import json
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
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
        self.start([sys.executable, "-P", "-m", "fencepost.lab.chaos.clients.main", json.dumps(spec.as_dict())])


class Crew:
    def __init__(self, specs: list[ClientSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._children: dict[str, ClientProcess] = {}
        self._zombies: list[ClientProcess] = []
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
        self._children[name] = ClientProcess(spec)
        self._specs[name] = replace(spec, incarnation=spec.incarnation + 1)
        self.starts += 1

    def kill(self, name: str) -> None:
        child = self._children.get(name)
        self._down.add(name)
        if child is not None:
            child.kill()

    def pause(self, name: str) -> None:
        if name in self._children:
            self._children[name].pause()

    def resume(self, name: str) -> None:
        if name in self._children:
            self._children[name].resume()

    def replace_paused(self, name: str) -> None:
        """A successor for one that is paused, which becomes a zombie."""
        if name in self._children:
            self._zombies.append(self._children.pop(name))
        self.start(name)

    def wake_zombies(self) -> None:
        for zombie in self._zombies:
            zombie.resume()

    def tend(self) -> None:
        """Start those again that ended."""
        for name, child in list(self._children.items()):
            if not child.is_running and name not in self._down and time.monotonic() - child.started_s > RESTART_PAUSE_S:
                self._look_at(child)
                self.start(name)
        for zombie in [each for each in self._zombies if not each.is_running]:
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

    def _look_at(self, child: ClientProcess) -> None:
        child.kill()
        if child.status not in (0, START_AGAIN, -signal.SIGKILL, -signal.SIGTERM):
            self.crashes.append(f"{child.name} ended with {child.status}:\n{child.said()}")
