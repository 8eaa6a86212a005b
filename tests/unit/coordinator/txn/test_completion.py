"""How a transaction ends, and that it does: killed at every step, on disks that fail, on topics that vanish."""

import asyncio

import pytest

from fencepost.coordinator.txn.states import TransactionState as S
from fencepost.coordinator.txn.steps import Step
from fencepost.errors import ErrorCode, KafkaError
from tests.fakes.forgetful_disk import PowerLost
from tests.unit.coordinator.machine import code_of, settle, slow, start
from tests.unit.coordinator.txn.rig import ABORT, COMMIT, ID, OFFSETS, P0, P1, V1, V2, Rig


class Killed(Exception):
    """Nothing that the coordinator could catch and go on from."""


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_the_steps_come_in_their_order(rig: Rig, outcome):
    producer = await rig.init()
    await rig.produce(producer, P0)
    await rig.produce(producer, P1)
    await rig.end(producer, outcome, V2)
    await settle()
    assert sorted(rig.steps) == list(Step)
    assert rig.steps[:7] == list(Step)[:7]


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("version", [V1, V2], ids=["old protocol", "new protocol"])
@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
@pytest.mark.parametrize("step", list(Step))
async def test_a_transaction_is_whole_wherever_the_broker_is_killed(rig: Rig, step, outcome, version, power_loss):
    producer = await rig.init()
    for where in (P0, P1, OFFSETS):
        await rig.produce(producer, where)
    await settle()

    def kill(reached: Step) -> None:
        if reached is step:
            rig.on_step = None
            rig.coordinator.stop()
            rig.machine.kill()
            raise Killed

    rig.on_step = kill
    answered = await _is_answered(rig.end(producer, outcome, version))
    assert answered is (step is Step.COMPLETE_DURABLE)
    await settle()
    rig.restart(power_loss=power_loss)
    live = rig.table()
    await settle()

    partitions = (P0, P1, OFFSETS)
    seen = {rig.outcomes(where)[b"v"] for where in partitions}
    assert len(seen) == 1, "every partition shows the same"
    decided = step >= Step.PREPARE_DURABLE or (step is Step.PREPARE_APPENDED and not power_loss)
    assert seen == ({_past_tense(outcome)} if decided else {"open"})
    assert live[ID].producer_id == producer.producer_id

    following = await rig.end(producer, outcome, version)
    assert {rig.outcomes(where)[b"v"] for where in partitions} == {_past_tense(outcome)}
    assert following.epoch == producer.epoch + (version is V2)
    assert not any(rig.has_open_transaction(where) for where in partitions)
    assert rig.group_markers[-1][-1] is outcome.value


def _past_tense(outcome) -> str:
    return "committed" if outcome is COMMIT else "aborted"


async def _is_answered(request) -> bool:
    try:
        await request
    except (Killed, PowerLost, KafkaError):
        return False
    return True


async def test_no_marker_is_written_before_the_outcome_is_durable(rig: Rig):
    producer = await rig.init()
    await rig.add(producer, P0)
    disk = slow(rig.state_log())
    ending = await start(rig.end(producer, COMMIT, V1))
    assert rig.state().state is S.PREPARE_COMMIT
    assert rig.markers(P0, producer) == []
    disk.release()
    await settle()
    assert rig.markers(P0, producer) == [(0, True)]
    await ending


async def test_a_transaction_is_not_over_before_every_marker_is_durable(rig: Rig):
    producer = await rig.init()
    await rig.add(producer, P0, P1)
    disk = slow(rig.machine.log(*P1))
    ending = await start(rig.end(producer, COMMIT, V1))
    assert rig.state().state is S.PREPARE_COMMIT
    assert not ending.done()
    disk.release()
    await ending
    assert rig.state().state is S.COMPLETE_COMMIT


async def test_the_answer_does_not_wait_for_the_last_record(rig: Rig):
    producer = await rig.init()
    await rig.add(producer, P0)
    disk = slow(rig.machine.log(*P0))
    ending = await start(rig.end(producer, COMMIT, V1))
    slow(rig.state_log())
    disk.release()
    await ending
    assert Step.COMPLETE_DURABLE not in rig.steps


async def test_a_partition_on_a_failing_disk_holds_up_its_own_transaction_alone(rig: Rig):
    producer = await rig.init()
    await rig.add(producer, P0, P1)
    with rig.machine.full_disk(rig.machine.log(*P1)):
        ending = await start(code_of(rig.end(producer, COMMIT, V1)))
        assert rig.markers(P0, producer) == [(0, True)]

        other = await rig.init(name="other")
        await rig.coordinator.add_partitions("other", other, [P0], V1)
        await rig.coordinator.end("other", other, COMMIT, V1)

        for _ in range(4):
            rig.clock.advance(1_600)
            await settle()
        assert await ending is ErrorCode.CONCURRENT_TRANSACTIONS
    rig.clock.advance(10_000)
    await settle()
    assert rig.state().state is S.COMPLETE_COMMIT
    assert rig.markers(P1, producer) == [(0, True)]
    assert rig.markers(P0, producer) == [(0, True)], "written once"


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_a_topic_that_was_deleted_meanwhile_is_left_out(rig: Rig, outcome):
    producer = await rig.init()
    await rig.add(producer, P0, P1)
    rig.machine.topics.delete(P1[0])
    await rig.end(producer, outcome, V1)
    assert rig.markers(P0, producer) == [(0, outcome.value)]


async def test_a_partition_that_has_seen_a_newer_epoch_has_nothing_to_end(rig: Rig):
    """Kafka gave up the whole transaction here and left it in its prepare state for ever (KAFKA-19999)."""

    producer = await rig.init()
    await rig.add(producer, P0, P1)
    rig.machine.log(*P0).append_marker(producer.producer_id, 9, False, 0, 2)
    await rig.end(producer, COMMIT, V1)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert rig.markers(P1, producer) == [(0, True)]


async def test_a_failing_log_of_the_coordinator_delays_the_end_but_does_not_lose_it(rig: Rig):
    producer = await rig.init()
    await rig.add(producer, P0)
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
    producer = await rig.init()
    await rig.add(producer, P0)
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
    producer = await rig.init()
    await rig.add(producer, P0)
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
    producer = await rig.init()
    await rig.add(producer, P0)

    def stumble(step: Step) -> None:
        if step is Step.MARKERS_DURABLE:
            rig.on_step = None
            raise RuntimeError("a bug")

    rig.on_step = stumble
    assert await code_of(rig.end(producer, COMMIT, V1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "a bug" in caplog.text
    assert await rig.end(producer, COMMIT, V1) == producer
    assert rig.state().state is S.COMPLETE_COMMIT
