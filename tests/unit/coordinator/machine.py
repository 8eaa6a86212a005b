"""What a coordinator runs on in these tests: the broker's own topics and logs on a disk that forgets, and time that is
moved by hand. The machine can be killed, lose power and start again.
"""

import asyncio
import random
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from fencepost.broker.settings import Settings
from fencepost.broker.topics import TopicRegistry
from fencepost.clock import ManualClock
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log import cleaner
from fencepost.log.origin import Origin
from fencepost.log.partition import PartitionLog
from fencepost.wire.records import Record, encode_batch
from tests.fakes.forgetful_disk import ForgetfulDisk
from tests.fakes.worker import LoopWorker

T = TypeVar("T")

DATA = "/data"
STATE_PARTITIONS = 5
SETTINGS = {
    "log.cleaner.min.cleanable.ratio": "0",
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
}


class Machine:
    def __init__(self) -> None:
        self.disk = ForgetfulDisk(DATA)
        self.clock = ManualClock()
        self.open()

    def open(self) -> None:
        self.worker = LoopWorker()
        settings = Settings.parse(SETTINGS)
        self.topics = TopicRegistry(Path(DATA), settings, self.clock, self.disk, worker=self.worker)
        self.topics.open()

    def kill(self) -> None:
        """Nothing after this instant reaches the disk."""
        self.disk.turn_off()
        self.worker.is_dead = True

    def restart(self, *, power_loss: bool = False, rng: random.Random | None = None) -> None:
        """Without a clean shutdown. Only a power failure takes what was written and not synced; given a random
        generator, it takes any part of that."""
        self.kill()
        self.topics._checkpoints.stop()
        self.disk.turn_on()
        if power_loss:
            self.disk.lose_power(rng)
        self.open()

    def log(self, topic: str, partition: int) -> PartitionLog:
        log = self.topics.log(topic, partition)
        assert log is not None
        return log

    @contextmanager
    def full_disk(self, log: PartitionLog | None = None) -> Iterator[None]:
        """Nothing can be written, to this log or to any."""
        if log is None:
            self.disk.capacity_bytes = self.disk.used_bytes()
        else:
            self.disk.full_directories.add(log.directory.path)
        yield
        self.disk.capacity_bytes = None
        self.disk.full_directories.clear()


def slow(log: PartitionLog) -> LoopWorker:
    """From now on nothing in this log becomes durable until the worker is told to `release` it."""
    worker = log._commit._worker = LoopWorker(holds=True)
    return worker


async def compact(log: PartitionLog) -> None:
    """Leave of every key its last record, as the cleaner does in time."""
    if log.log_end_offset:
        log.roll()
        await settle()
        outcome: list[BaseException | None] = []
        if cleaner.clean(log, outcome.append):
            await settle()
            assert outcome == [None]


def write(log: PartitionLog, producer_id: int, epoch: int, value: bytes = b"v") -> int:
    """A record of a transaction, from a client. Sequences are not the subject here."""
    batch = encode_batch(
        [Record(b"k", value, 0)], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    return log.append(batch, Origin.COORDINATOR).base_offset


async def settle(turns: int = 100) -> None:
    """Let everything happen that can without time passing."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def start(awaitable: Awaitable[T]) -> "asyncio.Future[T]":
    """Begin something and let it get as far as it can."""
    task = asyncio.ensure_future(awaitable)
    await settle()
    return task


async def code_of(request: Awaitable[object]) -> ErrorCode:
    """The code with which a request is refused, or NONE."""
    try:
        await request
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
