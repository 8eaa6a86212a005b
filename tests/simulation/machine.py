"""A machine that runs one broker: it can be switched off, killed or restarted at any instant.

Each start of the broker is a `Life` with an event loop of its own. Ending a life drops that loop with all that it
still had to do, as the end of a process does. The disk outlives it; what the disk keeps is decided by how it ended.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.broker.node import Node
from fencepost.broker.settings import Settings
from fencepost.clock import Handle, ManualClock
from fencepost.coordinator.txn.steps import Step, StepHook
from tests.fakes.forgetful_disk import ForgetfulDisk
from tests.fakes.worker import error_of

DATA = "/data"
#: How long a sync takes, at most: most take a moment, some are slow.
SYNC_MS = (0, 1, 2, 5, 20, 100)

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


#: Small segments are rolled all the time; the coordinators' topics are then compacted under their feet.
ROLLING = {"internal.segment.bytes": "400"}
COMPACTING = {**ROLLING, "log.cleaner.backoff.ms": "300", "log.cleaner.min.cleanable.ratio": "0.01"}
VARIATIONS: tuple[dict[str, str], ...] = ({}, ROLLING, COMPACTING)


class Loop(asyncio.AbstractEventLoop):
    """Callbacks in the order in which they came. Time is not its business: nobody may ask it for a timer."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        #: Nothing runs any more once this says so, not even what is due.
        self.is_dead: Callable[[], bool] = lambda: False
        self._tasks: list[asyncio.Task[Any]] = []

    def run_ready(self) -> bool:
        """Run until nothing is left to do; whether anything was."""
        if not self._ready:
            return False
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while self._ready and not self.is_dead():
                self._ready.popleft()._run()
        finally:
            asyncio._set_running_loop(outer)
        return True

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, work: Coroutine[Any, Any, Any], **_: Any) -> "asyncio.Task[Any]":  # type: ignore[override]
        task = asyncio.Task(work, loop=self)
        self._tasks.append(task)
        return task

    def close(self) -> None:
        """Clear away what will never go on. Only to be called when the history is over: it runs some of its code."""
        for task in self._tasks:
            if not task.done():
                with suppress(RuntimeError):
                    task.get_coro().close()  # type: ignore[union-attr]

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks of dead brokers are destroyed while they are pending."""


class LifeClock:
    """The world's clock as one life sees it: what falls due after its end does not happen."""

    def __init__(self, clock: ManualClock, loop: Loop) -> None:
        self._clock = clock
        self._loop = loop
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms
        self.monotonic_ns = clock.monotonic_ns
        self.block_ms = clock.block_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        timer = _Timer(callback, self._loop)
        timer.handle = self._clock.call_later(delay_ms, timer.due)
        return timer


class _Timer:
    def __init__(self, callback: Callable[[], None], loop: Loop) -> None:
        self._callback: Callable[[], None] | None = callback
        self._loop = loop
        self.handle: Handle

    def due(self) -> None:
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        if self._callback is not None:
            self._callback()

    def cancel(self) -> None:
        self._callback = None
        self.handle.cancel()


class DelayedWorker:
    """Runs slow work later instead of elsewhere. So the loop goes on meanwhile, and a power loss comes before it."""

    def __init__(self, clock: LifeClock, loop: Loop, disk: ForgetfulDisk, rng: random.Random) -> None:
        self._clock = clock
        self._loop = loop
        self._disk = disk
        self._rng = rng

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        changes = self._disk.changes

        def run() -> None:
            with self._disk.began_after(changes):
                error = error_of(work)
            # In a turn of its own: the power may have been lost during the work.
            self._loop.call_soon(done, error)

        self._clock.call_later(self._rng.randint(0, self._rng.choice(SYNC_MS)), run)

    background = submit

    def create_future(self) -> "asyncio.Future[None]":
        return self._loop.create_future()


class Life:
    """One run of the broker, from its start to its end."""

    def __init__(
        self,
        clock: ManualClock,
        disk: ForgetfulDisk,
        rng: random.Random,
        settings: Mapping[str, str],
        step: StepHook,
    ) -> None:
        self.loop = Loop()
        self.clock = LifeClock(clock, self.loop)
        self.has_ended = False
        self.loop.is_dead = lambda: self.has_ended or disk.is_off
        self.node = Node(
            Path(DATA),
            Settings.parse(settings),
            clock=self.clock,
            disk=disk,
            worker=DelayedWorker(self.clock, self.loop, disk, rng),
            rng=rng,
            step=step,
        )


class Machine:
    def __init__(self, clock: ManualClock, rng: random.Random, died: Callable[[], None]) -> None:
        """`died` is called when the power has gone."""
        self._clock = clock
        self._rng = rng
        self._died = died
        self._settings = {**SETTINGS, **rng.choice(VARIATIONS)}
        self.disk = ForgetfulDisk("/")
        self.disk.now_ms = clock.now_ms
        self.life: Life | None = None
        self.lives = 0
        #: The power goes when a transaction that is being ended gets there.
        self.dies_at: Step | None = None
        #: Dead lives are kept until the end of the history, because clearing them away runs some of their code.
        self._graves: list[Life] = []

    @property
    def is_up(self) -> bool:
        return self.life is not None and not self.disk.is_off

    def start(self) -> None:
        life = self.life = Life(self._clock, self.disk, self._rng, self._settings, self._step)
        self.lives += 1
        opened = life.loop.create_task(_open(life.node))
        life.loop.run_ready()
        if self.disk.is_off:
            self.lose_power()
        else:
            opened.result()

    def stop(self) -> None:
        """A clean shutdown. It takes no time, because nothing waits for the worker then."""
        life = self.life
        if life is None:
            return
        stopped = life.loop.create_task(life.node.stop())
        life.loop.run_ready()
        if not self.disk.is_off:
            if not stopped.done():
                raise AssertionError("the broker does not stop")
            stopped.result()
            self._end()

    def kill(self) -> None:
        """The process ends; the operating system still has what was written."""
        self._end()
        self.disk.unlock()

    def lose_power(self) -> None:
        self._end()
        self.dies_at = None
        self.disk.lose_power(self._rng)
        self._died()

    def run_ready(self) -> bool:
        if self.life is None:
            return False
        ran = self.life.loop.run_ready()
        if self.disk.is_off:
            self.lose_power()
        return ran

    def close(self) -> None:
        self._end()
        for life in self._graves:
            life.loop.close()

    def _step(self, step: Step) -> None:
        if step is self.dies_at:
            self.disk.turn_off()

    def _end(self) -> None:
        if self.life is not None:
            self.life.has_ended = True
            self._graves.append(self.life)
            self.life = None


async def _open(node: Node) -> None:
    node.open()
