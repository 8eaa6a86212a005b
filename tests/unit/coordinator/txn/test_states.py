import itertools

import pytest

from fencepost.coordinator.txn.states import AT_REST, MOVES, PREPARED, Event, IllegalMove, TransactionState, move

#: Kafka's states in the order of their codes, each with those that may come before it.
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
    if event in MOVES[state]:
        assert move(state, event) is MOVES[state][event]
    else:
        with pytest.raises(IllegalMove, match=f"{event.name} .* {state.name}"):
            move(state, event)


def test_states_follow_upon_each_other_as_in_kafka():
    previous = {
        after.label: {before.label for before, moves in MOVES.items() if after in moves.values()}
        for after in TransactionState
    }
    assert previous == KAFKAS_PREVIOUS_STATES


def test_codes_and_names_are_those_of_kafka():
    assert [(state.value, state.label) for state in TransactionState] == list(enumerate(KAFKAS_PREVIOUS_STATES))


def test_a_transaction_is_open_being_ended_or_at_rest():
    transient = {TransactionState.PREPARE_EPOCH_FENCE, TransactionState.DEAD}
    assert PREPARED | AT_REST | {TransactionState.ONGOING} | transient == set(TransactionState)
