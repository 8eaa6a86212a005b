"""Time, as something that can be replaced: the system's for a broker, a hand-driven one for tests and simulation."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Handle(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, as written into records."""

    def monotonic_ms(self) -> int:
        """Time that never jumps, for deadlines."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        """Run `callback` on the event loop after `delay_ms`."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)


class ManualClock:
    """Stands still until told to move; then runs what falls due, in order of time and of scheduling."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._order = itertools.count()
        self._due: list[tuple[float, int, _Timer]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        timer = _Timer(callback)
        heapq.heappush(self._due, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def advance(self, delta_ms: int) -> None:
        until_ms = self._now_ms + delta_ms
        while self._due and self._due[0][0] <= until_ms:
            at_ms, _, timer = heapq.heappop(self._due)
            self._now_ms = max(self._now_ms, int(at_ms))
            if timer.callback is not None:
                timer.callback()
        self._now_ms = until_ms


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None
