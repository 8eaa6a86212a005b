import itertools

import pytest

from fencepost.coordinator.txn.states import (
    AT_REST,
    BY_LABEL,
    MOVES,
    PREPARED,
    Event,
    IllegalMove,
    TransactionState,
    move,
)

#: The table once more, from the other end: for each event, where from and where to.
LEGAL = {
    (TransactionState.EMPTY, Event.INIT, TransactionState.EMPTY),
    (TransactionState.COMPLETE_COMMIT, Event.INIT, TransactionState.EMPTY),
    (TransactionState.COMPLETE_ABORT, Event.INIT, TransactionState.EMPTY),
    (TransactionState.EMPTY, Event.ADD, TransactionState.ONGOING),
    (TransactionState.COMPLETE_COMMIT, Event.ADD, TransactionState.ONGOING),
    (TransactionState.COMPLETE_ABORT, Event.ADD, TransactionState.ONGOING),
    (TransactionState.ONGOING, Event.ADD, TransactionState.ONGOING),
    (TransactionState.ONGOING, Event.COMMIT, TransactionState.PREPARE_COMMIT),
    (TransactionState.ONGOING, Event.ABORT, TransactionState.PREPARE_ABORT),
    (TransactionState.PREPARE_EPOCH_FENCE, Event.ABORT, TransactionState.PREPARE_ABORT),
    (TransactionState.EMPTY, Event.ABORT_NOTHING, TransactionState.PREPARE_ABORT),
    (TransactionState.COMPLETE_COMMIT, Event.ABORT_NOTHING, TransactionState.PREPARE_ABORT),
    (TransactionState.COMPLETE_ABORT, Event.ABORT_NOTHING, TransactionState.PREPARE_ABORT),
    (TransactionState.ONGOING, Event.FENCE, TransactionState.PREPARE_EPOCH_FENCE),
    (TransactionState.PREPARE_COMMIT, Event.MARKERS_WRITTEN, TransactionState.COMPLETE_COMMIT),
    (TransactionState.PREPARE_ABORT, Event.MARKERS_WRITTEN, TransactionState.COMPLETE_ABORT),
    (TransactionState.EMPTY, Event.EXPIRE, TransactionState.DEAD),
    (TransactionState.COMPLETE_COMMIT, Event.EXPIRE, TransactionState.DEAD),
    (TransactionState.COMPLETE_ABORT, Event.EXPIRE, TransactionState.DEAD),
}

#: What may come before each state according to Kafka.
KAFKAS_PREVIOUS_STATES = {
    "Empty": {"Empty", "CompleteCommit", "CompleteAbort"},
    "Ongoing": {"Ongoing", "Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareCommit": {"Ongoing"},
    "PrepareAbort": {"Ongoing", "PrepareEpochFence", "Empty", "CompleteCommit", "CompleteAbort"},
    "CompleteCommit": {"PrepareCommit"},
    "CompleteAbort": {"PrepareAbort"},
    "Dead": {"Empty", "CompleteAbort", "CompleteCommit"},
    "PrepareEpochFence": {"Ongoing"},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(TransactionState, Event)))
def test_every_pair_of_state_and_event_moves_or_raises(state, event):
    expected = {after for before, what, after in LEGAL if (before, what) == (state, event)}
    if expected:
        assert {move(state, event)} == expected
        return
    table = {before: dict(moves) for before, moves in MOVES.items()}
    with pytest.raises(IllegalMove, match=f"{event.name} .* {state.name}"):
        move(state, event)
    assert table == MOVES


def test_states_follow_upon_each_other_as_in_kafka():
    previous: dict[str, set[str]] = {label: set() for label in BY_LABEL}
    for before, moves in MOVES.items():
        for after in moves.values():
            previous[after.label].add(before.label)
    assert previous == KAFKAS_PREVIOUS_STATES


def test_every_state_can_be_reached_and_only_death_is_final():
    reached = {TransactionState.EMPTY} | {after for moves in MOVES.values() for after in moves.values()}
    assert reached == set(TransactionState)
    assert [state for state, moves in MOVES.items() if not moves] == [TransactionState.DEAD]


def test_codes_and_names_are_those_of_kafka():
    assert {state.label: state.value for state in TransactionState} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }


def test_a_transaction_is_open_being_ended_or_at_rest():
    transient = {TransactionState.PREPARE_EPOCH_FENCE, TransactionState.DEAD}
    assert PREPARED | AT_REST | {TransactionState.ONGOING} | transient == set(TransactionState)
