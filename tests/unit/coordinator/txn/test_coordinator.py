"""What clients see: requests in, answers out, records in the logs."""

import asyncio

import pytest

from fencepost.coordinator.txn.coordinator import PATIENCE_MS
from fencepost.coordinator.txn.decide import Producer
from fencepost.coordinator.txn.states import TransactionState as S
from fencepost.errors import ErrorCode, KafkaError
from tests.unit.coordinator.machine import code_of, settle, slow, start, write
from tests.unit.coordinator.txn.rig import ABORT, COMMIT, ID, OFFSETS, P0, P1, V1, V2, Rig

# -- the two protocols


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_the_old_protocol_from_beginning_to_end(rig: Rig, outcome):
    producer = await rig.init()
    for _ in range(3):
        await rig.add(producer, P0, P1)
        for where in (P0, P1):
            write(rig.machine.log(*where), *producer)
        assert await rig.end(producer, outcome, V1) == producer
        assert await rig.end(producer, outcome, V1) == producer, "a repeated EndTxn is answered alike"
    for where in (P0, P1):
        assert rig.markers(where, producer) == [(producer.epoch, outcome.value)] * 3
        assert not rig.has_open_transaction(where)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_the_new_protocol_from_beginning_to_end(rig: Rig, outcome):
    producer = first = await rig.init()
    for _ in range(3):
        await rig.produce(producer, P0)
        await rig.produce(producer, P1)
        following = await rig.end(producer, outcome, V2)
        assert following == Producer(producer.producer_id, producer.epoch + 1)
        assert await rig.end(producer, outcome, V2) == following, "a repeated EndTxn is answered alike"
        producer = following
    expected = [(first.epoch + n, outcome.value) for n in (1, 2, 3)]
    assert rig.markers(P0, producer) == expected


async def test_offsets_in_a_transaction_are_shown_to_the_group_coordinator(rig: Rig):
    producer = await rig.begin(P0, OFFSETS)
    await rig.end(producer, COMMIT, V1)
    assert rig.group_markers == [(*OFFSETS, producer.producer_id, producer.epoch, True)]


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_used_up_epochs_lead_on_to_a_new_producer_id(rig: Rig, outcome):
    producer = await rig.init_at_the_last_epoch()
    await rig.produce(producer)
    following = await rig.end(producer, outcome, V2)
    assert following.producer_id != producer.producer_id and following.epoch == 0
    assert await rig.end(producer, outcome, V2) == following
    assert await code_of(rig.produce(producer)) is not ErrorCode.NONE
    await rig.produce(following)
    assert (await rig.end(following, COMMIT, V2)).epoch == 1
    assert rig.markers(P0, producer) == [(32767, outcome is COMMIT)]


async def test_a_successor_of_the_last_epoch_gets_a_new_producer_id(rig: Rig):
    producer = await rig.init_at_the_last_epoch()
    await rig.produce(producer)
    following = await rig.init()
    assert following.producer_id != producer.producer_id
    assert following.epoch <= 1, "ending the open transaction may have cost one"
    assert rig.outcomes(P0) == {b"v": "aborted"}
    assert await code_of(rig.produce(producer)) is not ErrorCode.NONE


async def test_a_timeout_at_the_last_epoch_aborts_and_fences(rig: Rig):
    """KAFKA-19367: fencing must not run past the greatest epoch."""
    producer = await rig.init_at_the_last_epoch(timeout_ms=1000)
    await rig.produce(producer)
    rig.clock.advance(20_000)
    await settle()
    assert rig.outcomes(P0) == {b"v": "aborted"}
    assert await code_of(rig.end(producer, COMMIT, V2)) is not ErrorCode.NONE
    following = await rig.init()
    await rig.produce(following, value=b"new")
    await rig.end(following, COMMIT, V2)
    assert rig.outcomes(P0) == {b"v": "aborted", b"new": "committed"}


# -- InitProducerId


async def test_idempotent_producers_get_ids_without_a_trace(rig: Rig):
    first = await rig.coordinator.init_producer_id(None, 0)
    second = await rig.coordinator.init_producer_id(None, 0)
    assert first.epoch == second.epoch == 0
    assert first.producer_id != second.producer_id
    assert rig.table() == {}


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        (ID, 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_000, ErrorCode.NONE),
    ],
)
async def test_ids_and_timeouts_have_limits(rig: Rig, name, timeout_ms, code):
    assert await code_of(rig.init(timeout_ms=timeout_ms, name=name)) is code


async def test_a_successor_aborts_what_was_open_and_fences_its_predecessor(rig: Rig):
    old = await rig.init()
    await rig.produce(old)
    new = await rig.init()
    assert new == Producer(old.producer_id, old.epoch + 2), "one epoch to fence, one for the new owner"
    assert rig.outcomes(P0) == {b"v": "aborted"}
    assert await code_of(rig.add(old)) is ErrorCode.PRODUCER_FENCED
    assert await code_of(rig.produce(old)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await code_of(rig.end(old, COMMIT, V1)) is ErrorCode.PRODUCER_FENCED
    assert await code_of(rig.end(old, COMMIT, V2)) is ErrorCode.PRODUCER_FENCED
    assert await code_of(rig.init(old)) is ErrorCode.PRODUCER_FENCED
    await rig.produce(new, value=b"new")
    await rig.end(new, COMMIT, V2)
    assert rig.outcomes(P0) == {b"v": "aborted", b"new": "committed"}


async def test_a_repeated_init_is_recognised_after_a_restart(rig: Rig):
    producer = await rig.init()
    following = await rig.init(producer)
    rig.restart(power_loss=True)
    assert await rig.init(producer) == following


# -- waiting


async def test_no_answer_leaves_before_its_record_is_durable(rig: Rig):
    rig.machine.worker.holds = True
    init = await start(rig.init())
    assert not init.done()
    rig.machine.worker.release()
    producer = await init
    first = await start(rig.add(producer, P0))
    second = await start(rig.add(producer, P0))
    assert not first.done()
    assert not second.done(), "it rests on a record that may still be lost"
    rig.machine.worker.release()
    await first
    await second


async def test_a_registered_partition_needs_no_waiting_once_it_is_durable(rig: Rig):
    producer = await rig.init()
    rig.machine.worker.holds = True

    def register():
        return rig.coordinator.add_partitions_from_produce(ID, *producer, [P0])

    first = await start(register())
    second = await start(register())
    assert not first.done() and not second.done()
    rig.machine.worker.release()
    await asyncio.gather(first, second)
    assert register() is None
    assert rig.state_log().log_end_offset == 2


async def test_a_transaction_that_timed_out_while_its_registration_was_on_the_way_takes_no_records(rig: Rig):
    producer = await rig.init(timeout_ms=1000)
    rig.machine.worker.holds = True
    writing = await start(rig.produce(producer))
    rig.clock.advance(20_000)
    rig.machine.worker.release()
    for _ in range(5):
        await settle()
        rig.machine.worker.release()
    assert await code_of(writing) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rig.outcomes(P0) == {}


async def test_requests_wait_for_a_transaction_that_is_being_ended_but_not_for_ever(rig: Rig):
    producer = await rig.begin(P0)
    disk = slow(rig.machine.log(*P0))
    requests = [
        asyncio.ensure_future(code_of(request))
        for request in (
            rig.end(producer, COMMIT, V1),
            rig.end(producer, COMMIT, V1),
            rig.add(producer, P1),
            rig.init(),
            rig.produce(producer, P1),
        )
    ]
    await settle()
    assert not any(request.done() for request in requests)
    rig.clock.advance(PATIENCE_MS)
    assert set(await asyncio.gather(*requests)) == {ErrorCode.CONCURRENT_TRANSACTIONS}

    waiting = [asyncio.ensure_future(rig.end(producer, COMMIT, V1)), asyncio.ensure_future(rig.init())]
    await settle()
    disk.release()
    committed, new = await asyncio.gather(*waiting)
    assert (committed, new.epoch) == (producer, producer.epoch + 1)


async def test_two_successors_at_once_get_different_epochs(rig: Rig):
    old = await rig.init()
    await rig.produce(old)
    owners = await asyncio.gather(*(rig.init() for _ in range(5)))
    assert len(set(owners)) == 5
    assert await rig.end(max(owners), ABORT, V2)


# -- the produce path


async def test_records_are_taken_only_for_partitions_that_were_registered(rig: Rig):
    def verify(producer: Producer, *partitions) -> ErrorCode:
        try:
            rig.coordinator.verify_partitions(ID, *producer, partitions)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    assert verify(Producer(1, 0), P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = await rig.init()
    assert verify(producer, P0) is ErrorCode.INVALID_TXN_STATE
    await rig.add(producer, P0)
    assert verify(producer, P0) is ErrorCode.NONE
    assert verify(producer, P0, P1) is ErrorCode.INVALID_TXN_STATE
    assert verify(Producer(producer.producer_id, 5), P0) is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
        rig.coordinator.verify_partitions(ID, *producer, [P1], missing=ErrorCode.TRANSACTION_ABORTABLE)
    disk = slow(rig.machine.log(*P0))
    ending = await start(rig.end(producer, COMMIT, V1))
    assert verify(producer, P0) is ErrorCode.NOT_ENOUGH_REPLICAS, "which producers retry"
    disk.release()
    await ending
    assert verify(producer, P0) is ErrorCode.INVALID_TXN_STATE, "a late Produce opens no transaction"
    rig.settings.transaction_partition_verification_enable = False
    assert verify(producer, P0) is ErrorCode.NONE


async def test_a_failing_log_of_the_coordinator_is_something_that_clients_retry(rig: Rig):
    producer = await rig.init()
    with rig.machine.full_disk():
        assert await code_of(rig.init()) is ErrorCode.NOT_COORDINATOR
        assert await code_of(rig.add(producer)) is ErrorCode.NOT_COORDINATOR
        assert await code_of(rig.produce(producer)) is ErrorCode.NOT_ENOUGH_REPLICAS
    await rig.produce(producer)
    with rig.machine.full_disk():
        assert await code_of(rig.end(producer, COMMIT, V2)) is ErrorCode.NOT_COORDINATOR
    await rig.end(producer, COMMIT, V2)
    assert rig.outcomes(P0) == {b"v": "committed"}


# -- unasked


async def test_a_timeout_aborts_and_fences_until_the_producer_aborts_too(rig: Rig):
    producer = await rig.init(timeout_ms=15_000)
    await rig.produce(producer)
    await rig.advance(10_000)
    assert rig.state().state is S.ONGOING
    await rig.advance(10_000)
    assert (rig.state().state, rig.state().producer_epoch) == (S.COMPLETE_ABORT, producer.epoch + 1)
    assert rig.outcomes(P0) == {b"v": "aborted"}
    assert await code_of(rig.end(producer, COMMIT, V1)) is ErrorCode.PRODUCER_FENCED
    assert await code_of(rig.end(producer, COMMIT, V2)) is ErrorCode.PRODUCER_FENCED
    assert await code_of(rig.produce(producer)) is ErrorCode.INVALID_PRODUCER_EPOCH
    following = await rig.end(producer, ABORT, V2)
    assert following.epoch == producer.epoch + 1
    await rig.produce(following)
    await rig.end(following, COMMIT, V2)


async def test_a_timeout_is_tried_again_when_the_log_fails(rig: Rig):
    producer = await rig.init(timeout_ms=1000)
    await rig.add(producer)
    with rig.machine.full_disk():
        await rig.advance(20_000)
        assert rig.state().state is S.ONGOING
    await rig.advance(10_000)
    assert rig.state().state is S.COMPLETE_ABORT


async def test_silent_ids_are_forgotten_and_others_not(rig: Rig):
    producers = {name: await rig.init(name=name, timeout_ms=900_000) for name in (ID, "silent", "a", "b")}
    rig.settings.transactional_id_expiration_ms = 3_600_000
    rig.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms = 10**12
    rig.clock.advance(1_000_000)
    await rig.add(producers[ID])
    await rig.advance(6_300_000)
    assert set(rig.table()) == {ID}, "whose transaction was open until a moment ago"
    rig.restart(power_loss=True)
    assert set(rig.table()) == {ID}
    assert (await rig.init(name="silent")).producer_id != producers["silent"].producer_id


# -- for admins


async def test_transactions_are_listed_by_state_producer_and_duration(rig: Rig):
    producers = {name: await rig.init(name=name) for name in ("shop", "shop-2", "till")}
    await rig.add(producers["shop"])
    rig.clock.advance(5_000)

    def names(**conditions) -> set[str]:
        return {transaction.transactional_id for transaction in rig.coordinator.list(**conditions)}

    assert names() == {"shop", "shop-2", "till"}
    assert names(states=["Ongoing"]) == {"shop"}
    assert names(states=["Empty", "Nonsense"]) == {"shop-2", "till"}
    assert names(states=["Nonsense"]) == set()
    assert names(producer_ids=[producers["till"].producer_id]) == {"till"}
    assert names(states=["Ongoing"], longer_than_ms=4_000) == {"shop"}
    assert names(states=["Ongoing"], longer_than_ms=5_000) == set()
