"""How a transaction ends, and that it does: killed at every step, on disks that fail, on topics that vanish."""

import asyncio
import random
from dataclasses import dataclass

import pytest

from fencepost.coordinator.txn.decide import Outcome, Producer
from fencepost.coordinator.txn.model import TransactionVersion
from fencepost.coordinator.txn.states import TransactionState as S
from fencepost.coordinator.txn.steps import Step
from fencepost.errors import ErrorCode
from tests.unit.coordinator.machine import code_of, settle, slow, start
from tests.unit.coordinator.txn.rig import ABORT, COMMIT, OFFSETS, P0, P1, V1, V2, Rig

each_outcome = pytest.mark.parametrize("outcome", [COMMIT, ABORT])
each_version = pytest.mark.parametrize("version", [V1, V2], ids=["old protocol", "new protocol"])


def _past_tense(outcome: Outcome) -> str:
    return "committed" if outcome is COMMIT else "aborted"


@each_outcome
async def test_the_steps_come_in_their_order(rig: Rig, outcome):
    producer = await rig.begin(P0, P1)
    await rig.end(producer, outcome, V2)
    await settle()
    assert sorted(rig.steps) == list(Step)
    assert rig.steps[:7] == list(Step)[:7]


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "power lost"])
@each_version
@each_outcome
@pytest.mark.parametrize("step", list(Step))
async def test_a_transaction_is_whole_wherever_the_broker_is_killed(rig: Rig, step, outcome, version, power_loss):
    producer = await rig.init()
    partitions = (P0, P1, OFFSETS)
    for where in partitions:
        await rig.produce(producer, where)
    await settle()
    answered = await rig.killed_at(step, rig.end(producer, outcome, version), power_loss=power_loss)
    assert answered is (step is Step.COMPLETE_DURABLE)

    seen = {rig.outcomes(where)[b"v"] for where in partitions}
    decided = step >= Step.PREPARE_DURABLE or (step is Step.PREPARE_APPENDED and not power_loss)
    assert seen == ({_past_tense(outcome)} if decided else {"open"}), "every partition shows the same"

    following = await rig.end(producer, outcome, version)
    assert {rig.outcomes(where)[b"v"] for where in partitions} == {_past_tense(outcome)}
    assert following == Producer(producer.producer_id, producer.epoch + (version is V2))
    assert not any(rig.has_open_transaction(where) for where in partitions)
    assert rig.group_markers[-1][-1] is outcome.value


@pytest.mark.parametrize("step", [Step.PREPARE_DURABLE, Step.MARKERS_DURABLE, Step.COMPLETE_APPENDED])
async def test_a_kill_while_the_last_epoch_is_ended_loses_nothing(rig: Rig, step):
    """KAFKA-18660, KAFKA-20090: a repeated EndTxn of the old id is told the new one."""
    producer = await rig.init_at_the_last_epoch()
    await rig.produce(producer)
    await settle()
    await rig.killed_at(step, rig.end(producer, COMMIT, V2), power_loss=True)
    following = await rig.end(producer, COMMIT, V2)
    assert following.producer_id != producer.producer_id and following.epoch == 0
    assert rig.outcomes(P0) == {b"v": "committed"}
    await rig.produce(following)
    assert (await rig.end(following, COMMIT, V2)).epoch == 1


@dataclass
class Answers:
    """What the client was told before the power went."""

    producer: Producer | None = None
    written: int = 0
    ended: bool = False


async def _one_transaction(rig: Rig, outcome: Outcome, version: TransactionVersion, answers: Answers) -> None:
    answers.producer = await rig.init()
    for where in (P0, P1):
        await rig.write(answers.producer, where, version)
        log = rig.machine.log(*where)
        durable = log.when_durable(log.log_end_offset - 1)
        if durable is not None:
            await durable
        answers.written += 1
    await rig.end(answers.producer, outcome, version)
    answers.ended = True


async def _power_fails_after(changes: int, outcome: Outcome, version: TransactionVersion) -> bool:
    """Whether the transaction ended before that."""
    # Whatever was under way when the power went has nobody left to tell.
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    rig, answers = Rig(), Answers()
    rig.machine.disk.die_after(changes)
    request = await start(_one_transaction(rig, outcome, version, answers))
    survived = not rig.machine.disk.is_off
    assert request.done() or not survived
    request.cancel()
    rig.restart(power_loss=True, rng=random.Random(changes))
    await settle()

    def seen() -> set[str | None]:
        return {rig.outcomes(where).get(b"v") for where in (P0, P1)}

    is_open = any(map(rig.has_open_transaction, (P0, P1)))
    if answers.ended:
        assert seen() == {_past_tense(outcome)} and not is_open
    elif outcome is ABORT or answers.written < 2:
        assert "committed" not in seen()
    elif not is_open:
        assert len(seen()) == 1
    if answers.written == 2 and not answers.ended and answers.producer is not None:
        # Its client repeats EndTxn, or has it aborted when it cannot know what became of it.
        await asyncio.wait_for(rig.end(answers.producer, outcome, version), 5)
        assert seen() == {_past_tense(outcome)}
    new = await asyncio.wait_for(rig.init(), 5)
    assert answers.producer is None or new > answers.producer
    for log in rig.machine.topics.logs():
        assert not log.producers.open_transactions
        assert log.last_stable_offset == log.high_watermark
    rig.coordinator.stop()
    await settle()
    return survived


@each_outcome
@each_version
def test_power_may_fail_at_any_change_of_the_disk(outcome, version):
    for changes in range(1, 400):
        if asyncio.run(_power_fails_after(changes, outcome, version)):
            assert changes > 10
            return
    pytest.fail("the transaction never got through")


async def test_no_marker_is_written_before_the_outcome_is_durable(rig: Rig):
    producer = await rig.begin(P0)
    disk = slow(rig.state_log())
    ending = await start(rig.end(producer, COMMIT, V1))
    assert rig.state().state is S.PREPARE_COMMIT
    assert rig.markers(P0, producer) == []
    disk.release()
    await settle()
    assert rig.markers(P0, producer) == [(0, True)]
    await ending


async def test_a_transaction_is_not_over_before_every_marker_is_durable(rig: Rig):
    producer = await rig.begin(P0, P1)
    disk = slow(rig.machine.log(*P1))
    ending = await start(rig.end(producer, COMMIT, V1))
    assert rig.state().state is S.PREPARE_COMMIT
    assert not ending.done()
    disk.release()
    await ending
    assert rig.state().state is S.COMPLETE_COMMIT


async def test_the_answer_does_not_wait_for_the_last_record(rig: Rig):
    producer = await rig.begin(P0)
    disk = slow(rig.machine.log(*P0))
    ending = await start(rig.end(producer, COMMIT, V1))
    slow(rig.state_log())
    disk.release()
    await ending
    assert Step.COMPLETE_DURABLE not in rig.steps


async def test_a_partition_on_a_failing_disk_holds_up_its_own_transaction_alone(rig: Rig):
    producer = await rig.begin(P0, P1)
    with rig.machine.full_disk(rig.machine.log(*P1)):
        ending = await start(code_of(rig.end(producer, COMMIT, V1)))
        assert rig.markers(P0, producer) == [(0, True)]

        other = await rig.init(name="other")
        await rig.coordinator.add_partitions("other", other, [P0], V1)
        await rig.coordinator.end("other", other, COMMIT, V1)

        for _ in range(4):
            await rig.advance(1_600)
        assert await ending is ErrorCode.CONCURRENT_TRANSACTIONS
    await rig.advance(10_000)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert rig.markers(P1, producer) == [(0, True)]
    assert rig.markers(P0, producer) == [(0, True)], "written once"


@each_outcome
async def test_a_topic_that_was_deleted_meanwhile_is_left_out(rig: Rig, outcome):
    producer = await rig.begin(P0, P1)
    rig.machine.topics.delete_all([P1[0]])
    await rig.end(producer, outcome, V1)
    assert rig.markers(P0, producer) == [(0, outcome.value)]


async def test_a_partition_that_has_seen_a_newer_epoch_has_nothing_to_end(rig: Rig):
    """Kafka gave up the whole transaction here and left it in its prepare state for ever (KAFKA-19999)."""

    producer = await rig.begin(P0, P1)
    rig.machine.log(*P0).append_marker(producer.producer_id, 9, False, 0, 2)
    await rig.end(producer, COMMIT, V1)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert rig.markers(P1, producer) == [(0, True)]


async def test_a_failing_log_of_the_coordinator_delays_the_end_but_does_not_lose_it(rig: Rig):
    producer = await rig.begin(P0)
    disk = slow(rig.machine.log(*P0))
    ending = await start(rig.end(producer, COMMIT, V1))
    with rig.machine.full_disk():
        disk.release()
        await settle()
        assert rig.state().state is S.PREPARE_COMMIT
    rig.clock.advance(200)
    await ending
    assert rig.state().state is S.COMPLETE_COMMIT


async def test_a_client_that_hangs_up_does_not_stop_the_end(rig: Rig):
    producer = await rig.begin(P0)
    ending = asyncio.ensure_future(rig.end(producer, COMMIT, V1))
    await asyncio.sleep(0)
    ending.cancel()
    await settle()
    assert rig.state().state is S.COMPLETE_COMMIT


async def test_many_partitions_get_their_markers(rig: Rig):
    rig.machine.topics.create("wide", 250, {})
    producer = await rig.init()
    partitions = [("wide", number) for number in range(250)]
    await rig.add(producer, *partitions)
    await rig.end(producer, COMMIT, V1)
    assert all(rig.markers(where, producer) == [(0, True)] for where in partitions)


async def test_who_waits_when_the_broker_stops_is_sent_away(rig: Rig):
    producer = await rig.begin(P0)
    slow(rig.machine.log(*P0))
    requests = [
        asyncio.ensure_future(code_of(request))
        for request in (rig.end(producer, COMMIT, V1), rig.init(), rig.add(producer, P1))
    ]
    await settle()
    rig.coordinator.stop()
    assert set(await asyncio.gather(*requests)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert rig.state().state is S.PREPARE_COMMIT


async def test_a_mistake_of_ours_is_told_and_the_next_request_tries_again(rig: Rig, caplog):
    producer = await rig.begin(P0)

    def stumble(step: Step) -> None:
        if step is Step.MARKERS_DURABLE:
            rig.on_step = None
            raise RuntimeError("a bug")

    rig.on_step = stumble
    assert await code_of(rig.end(producer, COMMIT, V1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "a bug" in caplog.text
    assert await rig.end(producer, COMMIT, V1) == producer
    assert rig.state().state is S.COMPLETE_COMMIT
