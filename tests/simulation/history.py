"""One seed: its clients, its faults, its record."""

import gc
import hashlib
import logging
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fencepost.clock import ManualClock, pause
from fencepost.coordinator.txn.steps import Step
from tests.fakes.forgetful_disk import PowerLost
from tests.simulation.checks import Remains, violations
from tests.simulation.clients import GROUP, MEMBERS_GROUP, PARTITIONS, PLAIN_GROUP, TIMEOUT_MS, TOPIC, Client, Notes
from tests.simulation.machine import Loop, Machine
from tests.simulation.members import Member, Ownership
from tests.simulation.network import Faults, Network
from tests.simulation.reader import Reader
from tests.simulation.writers import Plain, Producer, create_topic

#: When the world heals. Later than that nothing goes wrong by itself.
HEAL_MS = 10_000
#: Far more than any client needs after that: who takes longer hangs.
PATIENCE_MS = 600_000


@dataclass
class History:
    seed: int
    lines: list[str]
    violations: list[str]
    stored: bytes  #: a digest of the disk at the end
    transactions: int  #: begun by producers

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode() + self.stored).hexdigest()


class World:
    def __init__(self, seed: int, at: Step | None = None) -> None:
        """`at` plans the one accident: the power goes at this step of ending a transaction, whose client dies too."""
        self._at = at
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.notes = Notes(self.clock)
        self.loop = Loop()
        self.machine = Machine(self.clock, self.rng, died=self._died)
        self.faults = Faults(self.rng)
        if at is not None:
            self.faults.heal()
            self.machine.dies_at = at
        self.network = Network(self.clock, self.machine, self.faults, self.rng)
        self.producers: list[Producer] = []

    def client(self, name: str) -> Client:
        return Client(name, self.network, self.clock, self.loop, self.rng, self.notes)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run the world until `work` is done."""
        task = self.loop.create_task(work)
        deadline_ms = self.clock.now_ms() + PATIENCE_MS
        while not task.done():
            moved = self.loop.run_ready()
            if self.machine.run_ready() or moved:
                continue
            if self.clock.now_ms() > deadline_ms or not self.clock.run_next():
                raise TimeoutError("nothing goes on")
        return task.result()

    # -- the story

    async def play(self) -> list[str]:
        self.machine.start()
        await create_topic(self.client("admin"), TOPIC, PARTITIONS)
        follower = Reader(self.client("follower"))
        following = self.loop.create_task(follower.follow())
        plain = Plain(self.client("w"))
        work = [self.loop.create_task(self._accidents()), self.loop.create_task(plain.run())]
        ownership = Ownership()
        for index in range(self.rng.choice((0, 0, 2, 3))):
            member = Member(self.client(f"m{index}"), ownership)
            work.append(self.loop.create_task(member.run()))
        for index in range(self.rng.randint(1, 2)):
            for incarnation in range(self.rng.randint(1, 2)):
                dies_when_ending = 0.3 if self._at is None else 1.0
                producer = Producer(self.client(f"p{index}"), incarnation, index, dies_when_ending)
                self.producers.append(producer)
                work.append(self.loop.create_task(producer.run()))
        for task in work:
            await task
        await pause(self.clock, 3 * TIMEOUT_MS)
        remains = await self._remains(Reader(self.client("final")))
        following.cancel()
        return violations(self.producers, plain, ownership, follower, remains)

    async def _remains(self, reader: Reader) -> Remains:
        await reader.read_all()
        offsets = [offset for offset, _ in await reader.committed(GROUP, 2)]
        ((plain_offset, _),) = await reader.committed(PLAIN_GROUP, 1)
        members = await reader.committed(MEMBERS_GROUP, PARTITIONS)
        generations = {partition: int(generation) for partition, (_, generation) in enumerate(members) if generation}
        for partition, seen in enumerate(reader.seen):
            self.notes.add(f"{TOPIC}-{partition}", " ".join(value.decode() for _, value in seen))
        self.notes.add("offsets", f"{offsets} {plain_offset} {members}")
        return Remains(reader, offsets, plain_offset, generations, await reader.topics())

    async def _accidents(self) -> None:
        """The machine's fate until the world heals."""
        end_ms = self.clock.now_ms() + HEAL_MS
        accidents: list[Callable[[], None]] = [
            self.machine.lose_power, self._power_loss_soon, self._power_loss_at_step, self._kill, self._restart,
        ]  # fmt: skip
        for _ in range(self.rng.choice((0, 1, 2, 3, 4)) if self._at is None else 0):
            # Most of what happens happens early, and again after each start.
            await pause(self.clock, self.rng.randint(0, self.rng.choice((100, 300, 2_000))))
            self.rng.choice(accidents)()
            await pause(self.clock, self.rng.randint(0, 1_000))
            self._up()
        await pause(self.clock, max(0, end_ms - self.clock.now_ms()))
        self.faults.heal()
        self.machine.disk.die_after(None)
        self.machine.dies_at = None
        self._up()
        self.notes.add("world", "heals")

    def _died(self) -> None:
        self.notes.add("machine", "loses power")
        self.clock.call_later(self.rng.randint(0, 1_000), self._up)

    def _up(self) -> None:
        while not self.machine.is_up:
            self.machine.start()
            self.notes.add("machine", f"starts for the {self.machine.lives}. time")

    def _power_loss_soon(self) -> None:
        """In the middle of what it does: before the n-th change of the disk from now on."""
        self.machine.disk.die_after(self.rng.randint(0, self.rng.choice((5, 40))))

    def _power_loss_at_step(self) -> None:
        self.machine.dies_at = self.rng.choice(tuple(Step))

    def _kill(self) -> None:
        self.notes.add("machine", "is killed")
        self.machine.kill()

    def _restart(self) -> None:
        self.notes.add("machine", "is stopped")
        self.machine.stop()


def play(seed: int, at: Step | None = None) -> History:
    """The history of a seed, from beginning to end."""
    world = World(seed, at)
    with _no_collector(), _complaints() as complaints:
        try:
            found = world.run(world.play())
        except Exception as error:
            found = [f"the history ended with {error!r}"]
        begun = sum(len(producer.written) for producer in world.producers)
        history = History(seed, world.notes.lines, found + complaints, world.machine.disk.digest(), begun)
        world.machine.close()
        world.loop.close()
        return history


@contextmanager
def _no_collector() -> Iterator[None]:
    """The collector would end coroutines of dead brokers at moments that no seed knows."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Complaints(logging.Handler):
    """What the broker logs as its own bug. When the power goes, everything it did fails: that is none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, PowerLost):
            self.found.append(f"{record.name}: {record.getMessage()}: {error!r}")


@contextmanager
def _complaints() -> Iterator[list[str]]:
    handler = _Complaints()
    logger = logging.getLogger("fencepost")
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
