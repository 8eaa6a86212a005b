"""Time, as something that can be replaced: the system's for a broker, a hand-driven one for tests and simulation.

Everything in the broker that waits, pauses or repeats does so here, over a `Clock`. A test enforces it.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

logger = logging.getLogger(__name__)


class Handle(Protocol):
    def cancel(self) -> object: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, as written into records."""

    def monotonic_ms(self) -> int:
        """Time that never jumps, for deadlines."""

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, for durations."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        """Run `callback` on the event loop after `delay_ms`."""

    def block_ms(self, delay_ms: int) -> None:
        """Stop the calling thread for that long. Never called on the event loop."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)  # not a method around it: it is called for every request

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    def block_ms(self, delay_ms: int) -> None:
        time.sleep(delay_ms / 1000)


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

    def monotonic_ns(self) -> int:
        return self._now_ms * 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        timer = _Timer(callback)
        heapq.heappush(self._due, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def block_ms(self, delay_ms: int) -> None:
        """Where time is moved by hand, nothing runs beside the event loop: there is nobody to give way to."""

    def run_next(self) -> bool:
        """Move to what falls due next and run it. False when nothing is left."""
        while self._due:
            at_ms, _, timer = heapq.heappop(self._due)
            if timer.callback is not None:
                self._now_ms = max(self._now_ms, int(at_ms))
                timer.callback()
                return True
        return False

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


class Periodic:
    """Runs a job on an interval until stopped: a function, or a coroutine that gives way to others in between.

    A job that fails is run again at its next turn.
    """

    def __init__(
        self, clock: Clock, interval_ms: Callable[[], int], job: Callable[[], Coroutine[Any, Any, None] | None]
    ) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._job = job
        self._next: Handle | None = None

    def start(self) -> None:
        self._next = self._clock.call_later(self._interval_ms(), self._turn)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def _turn(self) -> None:
        try:
            work = self._job()
        except Exception:
            logger.exception("%s failed", self._job.__qualname__)
            work = None
        if work is None:
            self.start()
        else:
            self._next = asyncio.get_running_loop().create_task(self._finish(work))

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("%s failed", self._job.__qualname__)
        self.start()


async def within(clock: Clock, delay_ms: float, future: "asyncio.Future[Any]") -> bool:
    """Whether `future` was done before the delay ran out. Its outcome, good or bad, is left for the caller to read."""
    if future.done():
        return True
    expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    handle = clock.call_later(delay_ms, lambda: None if expired.done() else expired.set_result(None))
    try:
        await asyncio.wait({future, expired}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        handle.cancel()
        expired.cancel()
    return future.done()


async def pause(clock: Clock, delay_ms: float) -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await within(clock, delay_ms, never)


async def give_way() -> None:
    """Let everybody else on the event loop have a turn. No time passes."""
    await asyncio.sleep(0)
