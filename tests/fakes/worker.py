"""A worker without threads: what was submitted waits until the test lets it run, in the order it came."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast


def error_of(work: Callable[[], None]) -> BaseException | None:
    """What the work raises, if anything."""
    try:
        work()
    except Exception as raised:
        return raised
    return None


class _StandIn:
    """What a future asks of the loop that it belongs to."""

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., None], *args: Any, context: Any = None) -> None:
        callback(*args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody asked for; the test would have asked if it cared."""


class ManualWorker:
    def __init__(self) -> None:
        self._loop = cast(asyncio.AbstractEventLoop, _StandIn())
        self._soon: deque[Callable[[], None]] = deque()
        self._submitted: deque[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = deque()

    def soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self._submitted.append((work, done))

    background = submit

    def create_future(self) -> "asyncio.Future[None]":
        return asyncio.Future(loop=self._loop)

    @property
    def waiting(self) -> int:
        return len(self._submitted)

    def turn(self) -> None:
        """Let the loop go round once: what was put off runs, what was submitted does not."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def work(self) -> None:
        """Run the oldest submitted work and tell the loop of it."""
        work, done = self._submitted.popleft()
        done(error_of(work))

    def run(self) -> None:
        """Until nothing is left to do."""
        while self._soon or self._submitted:
            self.turn()
            if self._submitted:
                self.work()


class LoopWorker:
    """A worker without threads that belongs to the running loop: work is done a turn later, or when it is released."""

    def __init__(self, *, holds: bool = False) -> None:
        self.holds = holds  #: the disk takes its time: nothing becomes durable until `release`
        self.is_dead = False  #: the process was killed
        self._held: deque[Callable[[], None]] = deque()

    def soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        def run() -> None:
            if not self.is_dead:
                done(error_of(work))

        if self.holds:
            self._held.append(run)
        else:
            self.soon(run)

    background = submit

    def create_future(self) -> "asyncio.Future[None]":
        return asyncio.get_running_loop().create_future()

    def release(self) -> None:
        """Do what was held so far. What is submitted later is held again."""
        while self._held:
            self._held.popleft()()
