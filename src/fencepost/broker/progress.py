"""Long polls wait here until a partition that they read moves."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from fencepost.log.partition import PartitionLog


class Waiter(Protocol):
    def look_again(self, moved: Iterable[PartitionLog]) -> None:
        """These moved since it last looked, among those that it watches."""


class Progress:
    def __init__(self) -> None:
        # Dicts, not sets: waiters are woken in the order of their arrival.
        self._waiters: dict[PartitionLog, dict[Waiter, None]] = {}
        self._woken: dict[Waiter, dict[PartitionLog, None]] = {}

    def moved(self, log: PartitionLog) -> None:
        """A high watermark or LSO moved. Waiters look at most once per turn of the loop."""
        waiters = self._waiters.get(log)
        if not waiters:
            return
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._wake)
        woken = self._woken
        for waiter in waiters:
            woken.setdefault(waiter, {})[log] = None

    def watch(self, waiter: Waiter, logs: Iterable[PartitionLog]) -> None:
        for log in logs:
            self._waiters.setdefault(log, {})[waiter] = None

    def forget(self, waiter: Waiter, logs: Iterable[PartitionLog]) -> None:
        for log in logs:
            waiters = self._waiters.get(log)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self._waiters[log]
        self._woken.pop(waiter, None)

    def _wake(self) -> None:
        woken, self._woken = self._woken, {}
        for waiter, moved in woken.items():
            waiter.look_again(moved)
