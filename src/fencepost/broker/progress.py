"""Who waits for which partition to move: long polls sleep here instead of asking again and again."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from fencepost.log.partition import PartitionLog


class Waiter(Protocol):
    def look_again(self) -> None: ...


class Progress:
    def __init__(self) -> None:
        self._waiters: dict[PartitionLog, set[Waiter]] = {}
        self._woken: set[Waiter] = set()

    def moved(self, log: PartitionLog) -> None:
        """A high watermark or LSO moved. Waiters look once per turn of the loop, however much was appended in it."""
        waiters = self._waiters.get(log)
        if not waiters:
            return
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._wake)
        self._woken |= waiters

    def watch(self, waiter: Waiter, logs: Iterable[PartitionLog]) -> None:
        for log in logs:
            self._waiters.setdefault(log, set()).add(waiter)

    def forget(self, waiter: Waiter, logs: Iterable[PartitionLog]) -> None:
        for log in logs:
            waiters = self._waiters.get(log)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[log]
        self._woken.discard(waiter)

    def _wake(self) -> None:
        woken, self._woken = self._woken, set()
        for waiter in woken:
            waiter.look_again()
