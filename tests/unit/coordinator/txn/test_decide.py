"""The rules, state by state. Where Kafka has a table or a known mistake, it is named."""

from dataclasses import replace

import pytest

from fencepost.coordinator.txn import decide
from fencepost.coordinator.txn.decide import Decision, Outcome, Producer, Then
from fencepost.coordinator.txn.model import Transaction, TransactionVersion
from fencepost.coordinator.txn.states import TransactionState as S
from fencepost.errors import ErrorCode, KafkaError

PID, EPOCH, SPARE, NOW = 7, 5, 99, 1_000_000
OWNER = Producer(PID, EPOCH)
P = ("t", 0)
V1, V2 = TransactionVersion.V0, TransactionVersion.V2
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT

OPEN = Transaction("shop", PID, EPOCH, 60_000, S.ONGOING, 10, frozenset({P}), 10, previous_producer_id=PID)


def in_state(state: S, **changes: object) -> Transaction:
    partitions = frozenset({P}) if state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT) else frozenset()
    return replace(OPEN, state=state, partitions=partitions, **changes)


def init(current: Transaction | None, expected: Producer | None = None) -> Decision:
    return decide.init_producer_id(current, "shop", 30_000, expected, server_version=V2, spare_id=SPARE, now_ms=NOW)


def end(current: Transaction | None, producer: Producer, outcome: Outcome, version: TransactionVersion) -> Decision:
    return decide.end(current, producer, outcome, version, spare_id=SPARE, now_ms=NOW)


def written(decision: Decision) -> Transaction:
    assert decision.write is not None
    return decision.write


def refusal(function, *args) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        function(*args)
    return caught.value.code


# -- InitProducerId


@pytest.mark.parametrize("expected", [None, OWNER])
def test_a_new_id_gets_a_fresh_producer_id_whatever_producer_it_expects(expected):
    """As in Kafka."""
    decision = init(None, expected)
    assert decision.takes_spare_id
    assert decision.write == Transaction("shop", SPARE, 0, 30_000, S.EMPTY, NOW)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_next_owner_gets_the_next_epoch(state):
    decision = init(in_state(state, last_producer_epoch=4))
    write = written(decision)
    assert decision.then is Then.REPLY and not decision.takes_spare_id
    assert (write.producer_id, write.producer_epoch, write.last_producer_epoch) == (PID, EPOCH + 1, -1)
    assert (write.state, write.timeout_ms, write.start_ms, write.partitions) == (S.EMPTY, 30_000, -1, frozenset())


def test_an_open_transaction_is_aborted_first_and_its_producer_fenced_once():
    """One epoch up and not two (KAFKA-19367)."""
    decision = init(OPEN)
    assert decision.then is Then.DECIDE_AGAIN
    write = written(decision)
    assert (write.state, write.producer_epoch, write.last_producer_epoch) == (S.PREPARE_ABORT, EPOCH + 1, EPOCH)
    assert write.partitions == {P}


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_transaction_that_is_being_ended_is_waited_for(state):
    assert init(in_state(state)) == Decision(Then.DECIDE_AGAIN)


def test_a_producer_goes_on_after_an_error_under_the_next_epoch_and_may_repeat_itself():
    first = written(init(in_state(S.COMPLETE_ABORT), OWNER))
    repeated = written(init(first, OWNER))
    for write in (first, repeated):
        assert (write.producer_id, write.producer_epoch, write.last_producer_epoch) == (PID, EPOCH + 1, EPOCH)


def test_a_producer_that_was_replaced_is_fenced():
    replaced = written(init(in_state(S.EMPTY)))
    assert refusal(init, replaced, OWNER) is ErrorCode.PRODUCER_FENCED
    assert refusal(init, in_state(S.EMPTY), Producer(PID + 1, EPOCH)) is ErrorCode.PRODUCER_FENCED
    assert refusal(init, in_state(S.EMPTY), Producer(PID, EPOCH + 1)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("epoch", [EPOCH - 2, EPOCH - 1])
def test_a_zombie_cannot_have_its_successors_transaction_aborted(epoch):
    """Kafka looks at the producer id alone here."""
    current = in_state(S.ONGOING, last_producer_epoch=EPOCH - 1)
    assert refusal(init, current, Producer(PID, epoch)) is ErrorCode.PRODUCER_FENCED


def test_an_owner_whose_transaction_is_open_has_it_aborted_and_goes_on():
    rested = decide.complete(written(init(OPEN, OWNER)), NOW)
    write = written(init(rested, OWNER))
    assert (write.state, write.producer_epoch) == (S.EMPTY, EPOCH + 1)


@pytest.mark.parametrize(("expected", "last"), [(None, -1), (Producer(PID, 32766), 32766)])
def test_used_up_epochs_bring_a_new_producer_id(expected, last):
    decision = init(in_state(S.EMPTY, producer_epoch=32766), expected)
    write = written(decision)
    assert decision.takes_spare_id
    assert (write.producer_id, write.producer_epoch) == (SPARE, 0)
    assert (write.previous_producer_id, write.last_producer_epoch) == (PID, last)


def test_a_repeated_init_across_the_change_of_producer_id_is_recognised():
    used_up = Producer(PID, 32766)
    rotated = written(init(in_state(S.EMPTY, producer_epoch=32766), used_up))
    for _ in range(3):
        rotated = written(init(rotated, used_up))
        assert (rotated.producer_id, rotated.producer_epoch) == (SPARE, 0)


@pytest.mark.parametrize("epoch", [32766, 32767], ids=["last", "too high, from a broken log"])
def test_fencing_at_the_last_epoch_names_a_successor(epoch):
    """Kafka left the transaction open (KAFKA-19367) or the id without a next owner (KAFKA-20090)."""
    decision = init(in_state(S.ONGOING, producer_epoch=epoch))
    write = written(decision)
    assert decision.takes_spare_id
    assert (write.state, write.producer_epoch, write.next_producer_id) == (S.PREPARE_ABORT, 32767, SPARE)
    complete = decide.complete(write, NOW)
    assert (complete.producer_id, complete.producer_epoch, complete.previous_producer_id) == (SPARE, 0, PID)


# -- AddPartitionsToTxn


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_first_partition_begins_the_transaction(state):
    write = written(decide.add_partitions(in_state(state), OWNER, [P], V2, NOW))
    assert (write.state, write.partitions, write.start_ms, write.client_version) == (S.ONGOING, {P}, NOW, V2)


def test_further_partitions_leave_the_start_as_it_was():
    write = written(decide.add_partitions(OPEN, OWNER, [P, ("t", 1)], V1, NOW))
    assert (write.partitions, write.start_ms, write.updated_ms) == ({P, ("t", 1)}, 10, NOW)


def test_what_is_known_needs_no_record():
    assert decide.add_partitions(OPEN, OWNER, [P], V1, NOW) == Decision(Then.REPLY)


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
@pytest.mark.parametrize("producer", [OWNER, Producer(PID + 1, 0)])
def test_adding_waits_for_the_last_transaction_before_it_looks_at_the_epoch(state, producer):
    """Otherwise a client with its next epoch or producer id would be fenced by itself (KAFKA-18660)."""
    assert decide.add_partitions(in_state(state), producer, [P], V2, NOW) == Decision(Then.DECIDE_AGAIN)


@pytest.mark.parametrize(
    ("current", "producer", "code"),
    [
        (None, OWNER, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, Producer(PID + 1, EPOCH), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, Producer(PID, EPOCH - 1), ErrorCode.PRODUCER_FENCED),
        (OPEN, Producer(PID, EPOCH + 1), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_only_the_owner_adds_verifies_or_ends(current, producer, code):
    assert refusal(decide.add_partitions, current, producer, [P], V1, NOW) is code
    assert refusal(decide.missing_partitions, current, producer, [P]) is code
    assert refusal(end, current, producer, COMMIT, V1) is code
    assert refusal(end, current, producer, COMMIT, V2) is code


def test_verification_names_what_is_missing():
    assert decide.missing_partitions(OPEN, OWNER, [P, ("t", 1)]) == {("t", 1)}
    assert decide.missing_partitions(in_state(S.EMPTY), OWNER, [P]) == {P}
    assert decide.missing_partitions(in_state(S.COMPLETE_COMMIT), OWNER, [P]) == {P}
    prepared = in_state(S.PREPARE_COMMIT)
    assert refusal(decide.missing_partitions, prepared, OWNER, [P]) is ErrorCode.CONCURRENT_TRANSACTIONS


# -- EndTxn


@pytest.mark.parametrize(("outcome", "state"), [(COMMIT, S.PREPARE_COMMIT), (ABORT, S.PREPARE_ABORT)])
def test_the_old_protocol_keeps_the_epoch(outcome, state):
    decision = end(OPEN, OWNER, outcome, V1)
    write = written(decision)
    assert decision.then is Then.REPLY_WHEN_COMPLETE
    assert (write.state, write.producer_epoch, write.partitions) == (state, EPOCH, {P})
    complete = decide.complete(write, NOW)
    assert (complete.producer_id, complete.producer_epoch, complete.partitions) == (PID, EPOCH, frozenset())


@pytest.mark.parametrize(("outcome", "state"), [(COMMIT, S.PREPARE_COMMIT), (ABORT, S.PREPARE_ABORT)])
def test_the_new_protocol_raises_the_epoch(outcome, state):
    decision = end(OPEN, OWNER, outcome, V2)
    write = written(decision)
    assert decision.then is Then.REPLY_WHEN_COMPLETE
    assert (write.state, write.producer_epoch, write.last_producer_epoch) == (state, EPOCH + 1, EPOCH)
    assert (write.client_version, write.next_producer_id, write.start_ms) == (V2, -1, 10)


def answer(current: Transaction, producer: Producer, outcome: Outcome, version: TransactionVersion) -> object:
    """The refusal, what is to happen next, or the state and epoch of the record that is written."""
    try:
        decision = end(current, producer, outcome, version)
    except KafkaError as error:
        return error.code
    if decision.write is not None:
        return decision.write.state, decision.write.producer_epoch
    assert not decision.takes_spare_id
    return decision.then


REPLY, WHEN_COMPLETE, AGAIN = Then.REPLY, Then.REPLY_WHEN_COMPLETE, Then.DECIDE_AGAIN
FENCED, WRONG = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
COMMITS, ABORTS = (S.PREPARE_COMMIT, EPOCH + 1), (S.PREPARE_ABORT, EPOCH + 1)

#: In each state, the answers to a commit and to an abort.
OLD_PROTOCOL = {
    S.EMPTY: (WRONG, WRONG),
    S.PREPARE_COMMIT: (WHEN_COMPLETE, WRONG),
    S.PREPARE_ABORT: (WRONG, WHEN_COMPLETE),
    S.COMPLETE_COMMIT: (REPLY, WRONG),
    S.COMPLETE_ABORT: (WRONG, REPLY),
}
#: In each state, the answers to a commit under the last epoch (a repeated one) and the present one, and to such aborts.
NEW_PROTOCOL = {
    S.EMPTY: (FENCED, WRONG, FENCED, ABORTS),
    S.ONGOING: (FENCED, COMMITS, FENCED, ABORTS),
    S.PREPARE_COMMIT: (WHEN_COMPLETE, AGAIN, WRONG, AGAIN),
    S.PREPARE_ABORT: (FENCED, AGAIN, WHEN_COMPLETE, AGAIN),
    S.COMPLETE_COMMIT: (REPLY, WRONG, WRONG, ABORTS),
    S.COMPLETE_ABORT: (FENCED, WRONG, REPLY, ABORTS),
}


@pytest.mark.parametrize("state", OLD_PROTOCOL)
def test_the_old_protocol_ends_a_transaction_once(state):
    answers = tuple(answer(in_state(state), OWNER, outcome, V1) for outcome in (COMMIT, ABORT))
    assert answers == OLD_PROTOCOL[state]


@pytest.mark.parametrize("state", NEW_PROTOCOL)
def test_the_new_protocol_tells_a_repeated_end_from_the_next(state):
    """KIP-890's table. FENCED for a commit of what a timeout aborted is of Kafka after 4.1 (KAFKA-20785)."""
    current = in_state(state, last_producer_epoch=EPOCH - 1)
    answers = tuple(
        answer(current, Producer(PID, epoch), outcome, V2)
        for outcome in (COMMIT, ABORT)
        for epoch in (EPOCH - 1, EPOCH)
    )
    assert answers == NEW_PROTOCOL[state]


@pytest.mark.parametrize("state", [S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_a_predecessor_is_not_taken_for_the_owner_repeating_itself(state, outcome):
    """Its epoch is one behind too, but the owner never had it: Kafka would give it the owner's identity."""
    current = in_state(state, last_producer_epoch=-1)
    assert refusal(end, current, Producer(PID, EPOCH - 1), outcome, V2) is FENCED


@pytest.mark.parametrize("state", list(S)[:6])
@pytest.mark.parametrize("epoch", [EPOCH - 2, EPOCH + 1])
def test_an_end_from_further_away_is_fenced(state, epoch):
    assert refusal(end, in_state(state), Producer(PID, epoch), ABORT, V2) is FENCED


def test_an_abort_of_nothing_has_a_start_and_no_partitions():
    write = written(end(in_state(S.EMPTY, start_ms=-1), OWNER, ABORT, V2))
    assert (write.start_ms, write.partitions) == (NOW, frozenset())


def test_the_last_epoch_hands_over_to_a_new_producer_id():
    current = in_state(S.ONGOING, producer_epoch=32766)
    producer = Producer(PID, 32766)
    decision = end(current, producer, COMMIT, V2)
    write = written(decision)
    assert decision.takes_spare_id
    assert (write.producer_id, write.producer_epoch, write.next_producer_id) == (PID, 32767, SPARE)
    assert end(write, producer, COMMIT, V2) == Decision(WHEN_COMPLETE)
    complete = decide.complete(write, NOW)
    assert (complete.producer_id, complete.producer_epoch, complete.next_producer_id) == (SPARE, 0, -1)
    assert end(complete, producer, COMMIT, V2) == Decision(REPLY)
    assert refusal(end, complete, producer, ABORT, V2) is WRONG
    begun = written(decide.add_partitions(complete, Producer(SPARE, 0), [P], V2, NOW))
    assert refusal(end, begun, producer, COMMIT, V2) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- time


def test_only_an_open_transaction_times_out():
    late = OPEN.start_ms + OPEN.timeout_ms
    assert not decide.has_timed_out(OPEN, late)
    assert decide.has_timed_out(OPEN, late + 1)
    for state in set(S) - {S.ONGOING}:
        assert not decide.has_timed_out(in_state(state), late + 1)


def test_only_an_id_at_rest_expires():
    for state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        assert decide.has_expired(in_state(state, updated_ms=100), 50, 150)
        assert not decide.has_expired(in_state(state, updated_ms=101), 50, 150)
    for state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT):
        assert not decide.has_expired(in_state(state, updated_ms=0), 50, 1_000_000)
