"""The coordinator on a disk that forgets what was not synced, cut off at every change."""

import asyncio
import random
from dataclasses import dataclass

import pytest

from fencepost.coordinator.txn.decide import Outcome, Producer
from fencepost.coordinator.txn.model import TransactionVersion
from fencepost.errors import KafkaError
from fencepost.wire.records import decode_batch
from fencepost.wire.terms import Isolation, TopicPartition
from tests.unit.coordinator.machine import settle, start
from tests.unit.coordinator.txn.rig import ABORT, COMMIT, ID, P0, P1, V1, V2, Rig


async def produce(rig: Rig, producer: Producer, where: TopicPartition, version: TransactionVersion) -> None:
    """Answered when the record is durable."""
    if version is V1:
        await rig.add(producer, where)
        rig.coordinator.verify_partitions(ID, *producer, [where])
    await rig.produce(producer, where)
    log = rig.machine.log(*where)
    durable = log.when_durable(log.log_end_offset - 1)
    if durable is not None:
        await durable


def committed(rig: Rig, where: TopicPartition) -> int:
    """How many records a read_committed reader gets."""
    log = rig.machine.log(*where)
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


async def one_transaction(rig: Rig, outcome: Outcome, version: TransactionVersion, answers: Answers) -> None:
    answers.producer = await rig.init()
    for where in (P0, P1):
        await produce(rig, answers.producer, where, version)
        answers.written += 1
    await rig.end(answers.producer, outcome, version)
    answers.ended = True


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
@pytest.mark.parametrize("version", [V1, V2], ids=["old protocol", "new protocol"])
def test_power_may_fail_at_any_change_of_the_disk(outcome, version):
    async def scenario(changes: int) -> bool:
        # Whatever was under way when the power went has nobody left to tell.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        rig, answers = Rig(), Answers()
        rig.machine.disk.die_after(changes)
        request = await start(one_transaction(rig, outcome, version, answers))
        survived = not rig.machine.disk.is_off
        assert request.done() or not survived
        request.cancel()
        rig.restart(power_loss=True, rng=random.Random(changes))
        await settle()

        seen = {committed(rig, where) for where in (P0, P1)}
        is_open = any(map(rig.has_open_transaction, (P0, P1)))
        if answers.ended:
            assert seen == {1 if outcome is COMMIT else 0}
            assert not is_open
        elif outcome is ABORT or answers.written < 2:
            assert seen == {0}
        elif not is_open:
            assert len(seen) == 1

        if answers.written == 2 and not answers.ended and answers.producer is not None:
            # Its client repeats EndTxn, or has it aborted when it cannot know what became of it.
            await asyncio.wait_for(rig.end(answers.producer, outcome, version), 5)
            assert {committed(rig, where) for where in (P0, P1)} == {1 if outcome is COMMIT else 0}
        new = await asyncio.wait_for(rig.init(), 5)
        assert answers.producer is None or new > answers.producer
        for log in rig.machine.topics.logs():
            assert not log.producers.open_transactions
            assert log.last_stable_offset == log.high_watermark
        rig.coordinator.stop()
        await settle()
        return survived

    for changes in range(1, 400):
        if asyncio.run(scenario(changes)):
            assert changes > 10
            return
    pytest.fail("the transaction never got through")


async def test_a_full_disk_refuses_and_the_transaction_goes_on_when_there_is_room(rig: Rig):
    producer = await rig.init()
    await produce(rig, producer, P0, V2)
    with rig.machine.full_disk(), pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        await rig.end(producer, COMMIT, V2)
    following = await rig.end(producer, COMMIT, V2)
    assert following.epoch == producer.epoch + 1
    assert committed(rig, P0) == 1
