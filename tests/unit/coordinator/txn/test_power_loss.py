"""The coordinator on real partition logs and a disk that forgets what was not synced, cut off at every change."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fencepost.clock import ManualClock
from fencepost.coordinator.txn.coordinator import TransactionCoordinator
from fencepost.coordinator.txn.decide import Outcome, Producer
from fencepost.coordinator.txn.model import TransactionVersion
from fencepost.coordinator.txn.settings import TransactionSettings
from fencepost.errors import KafkaError
from fencepost.log.config import LogConfig
from fencepost.log.origin import Origin
from fencepost.log.partition import PartitionLog
from fencepost.wire.records import Record, decode_batch, encode_batch
from fencepost.wire.terms import Isolation
from tests.fakes.forgetful_disk import ForgetfulDisk, PowerLost
from tests.unit.coordinator.txn.rig import ABORT, COMMIT, ID, P0, P1, V1, V2, settle

DATA = "/data"


class LoopWorker:
    """Does the work on the event loop itself, a turn later."""

    def soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        def run() -> None:
            error: BaseException | None = None
            try:
                work()
            except (OSError, PowerLost) as raised:
                error = raised
            done(error)

        asyncio.get_running_loop().call_soon(run)

    background = submit

    def create_future(self) -> "asyncio.Future[None]":
        return asyncio.get_running_loop().create_future()


@dataclass
class Topic:
    partitions: int


class Machine:
    """A disk, the logs on it and a coordinator, which can lose power and come back."""

    def __init__(self) -> None:
        self.disk = ForgetfulDisk(DATA)
        self.clock = ManualClock()
        self.next_producer_id = 1
        self.start()

    def start(self) -> None:
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        for where in (P0, P1, *(("__transaction_state", number) for number in range(50))):
            if self.disk.exists(f"{DATA}/{where[0]}-{where[1]}"):
                self.log(*where)
        self.coordinator = TransactionCoordinator(
            topics=self, clock=self.clock, settings=TransactionSettings(), marker_appended=lambda *marker: None
        )
        self.coordinator.start()

    def lose_power(self, rng: random.Random) -> None:
        self.coordinator.stop()
        self.disk.lose_power(rng)

    # -- as a topic registry -----------------------------------------------------------------------------------------

    def get(self, name: str) -> Topic:
        return Topic(50)

    ensure_internal = get

    def log(self, topic: str, partition: int) -> PartitionLog:
        if (topic, partition) not in self.logs:
            self.logs[topic, partition] = PartitionLog.open(
                self.disk, f"{DATA}/{topic}-{partition}", topic, partition, topic.encode()[-16:].rjust(16),
                LogConfig(), self.clock, LoopWorker(), clean_shutdown=False,
            )  # fmt: skip
        return self.logs[topic, partition]

    def reserve_producer_ids(self, count: int) -> range:
        first, self.next_producer_id = self.next_producer_id, self.next_producer_id + count
        return range(first, first + count)

    # -- as clients see it -------------------------------------------------------------------------------------------

    async def write(self, producer: Producer, where: tuple[str, int], version: TransactionVersion) -> None:
        if version is V2:
            registered = self.coordinator.add_partitions_from_produce(ID, *producer, [where])
            if registered is not None:
                await registered
        else:
            await self.coordinator.add_partitions(ID, producer, [where], version)
            self.coordinator.verify_partitions(ID, *producer, [where])
        batch = encode_batch(
            [Record(b"k", b"v", self.clock.now_ms())],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )
        log = self.log(*where)
        durable = log.when_durable(log.append(batch, Origin.CLIENT).last_offset)
        if durable is not None:
            await durable

    def committed(self, where: tuple[str, int]) -> int:
        """How many records a read_committed reader gets."""
        log = self.log(*where)
        fetched = log.read(log.log_start_offset, 1 << 20, Isolation.READ_COMMITTED, at_least_one_batch=True)
        aborted = {transaction.producer_id: transaction.first_offset for transaction in fetched.aborted or []}
        count, position = 0, 0
        for header, batch in log.replay(0):
            position += header.size
            if position > len(fetched.records) or header.is_control:
                continue
            if aborted.get(header.producer_id, header.base_offset + 1) > header.base_offset:
                count += len(list(decode_batch(batch, header)))
        return count


@dataclass
class Answers:
    """What the client was told before the power went."""

    producer: Producer | None = None
    written: int = 0
    ended: bool = False


async def one_transaction(machine: Machine, outcome: Outcome, version: TransactionVersion, answers: Answers) -> None:
    answers.producer = await machine.coordinator.init_producer_id(ID, 60_000)
    for where in (P0, P1):
        await machine.write(answers.producer, where, version)
        answers.written += 1
    await machine.coordinator.end(ID, answers.producer, outcome, version)
    answers.ended = True
    await settle()


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
@pytest.mark.parametrize("version", [V1, V2], ids=["old protocol", "new protocol"])
def test_power_may_fail_at_any_change_of_the_disk(outcome, version):
    async def scenario(changes: int) -> bool:
        # Whatever was under way when the power went has nobody left to tell.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        machine, answers = Machine(), Answers()
        machine.disk.die_after(changes)
        request = asyncio.ensure_future(one_transaction(machine, outcome, version, answers))
        await settle(60)
        survived = request.done() and not request.cancelled() and request.exception() is None
        request.cancel()
        machine.lose_power(random.Random(changes))
        await settle()
        machine.start()
        await settle(60)

        seen = {machine.committed(where) for where in (P0, P1)}
        is_open = any(log.producers.open_transactions for log in machine.logs.values())
        if answers.ended:
            assert seen == {1 if outcome is COMMIT else 0}
            assert not is_open
        elif outcome is ABORT or answers.written < 2:
            assert seen == {0}
        elif not is_open:
            assert len(seen) == 1

        if answers.written == 2 and not answers.ended and answers.producer is not None:
            # Its client repeats EndTxn, or has it aborted when it cannot know what became of it.
            await asyncio.wait_for(machine.coordinator.end(ID, answers.producer, outcome, version), 5)
            assert {machine.committed(where) for where in (P0, P1)} == {1 if outcome is COMMIT else 0}
        new = await asyncio.wait_for(machine.coordinator.init_producer_id(ID, 60_000), 5)
        assert answers.producer is None or new > answers.producer
        for log in machine.logs.values():
            assert not log.producers.open_transactions
            assert log.last_stable_offset == log.high_watermark
        machine.coordinator.stop()
        await settle()
        return survived

    for changes in range(1, 400):
        if asyncio.run(scenario(changes)):
            assert changes > 10
            return
    pytest.fail("the transaction never got through")


def test_a_full_disk_refuses_and_the_transaction_goes_on_when_there_is_room():
    async def scenario() -> None:
        machine = Machine()
        producer = await machine.coordinator.init_producer_id(ID, 60_000)
        await machine.write(producer, P0, V2)
        machine.disk.capacity_bytes = machine.disk.used_bytes()
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await machine.coordinator.end(ID, producer, COMMIT, V2)
        machine.disk.capacity_bytes = None
        following = await machine.coordinator.end(ID, producer, COMMIT, V2)
        assert following.epoch == producer.epoch + 1
        assert machine.committed(P0) == 1
        machine.coordinator.stop()

    asyncio.run(scenario())
