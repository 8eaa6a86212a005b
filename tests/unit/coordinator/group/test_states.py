"""Every state with every event: the table is the code, so what is not in it must raise and change nothing."""

import itertools

import pytest

from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.states import MOVES, Event, State, can, move
from fencepost.errors import InvariantBroken

#: What may come before each state, live or while a log is replayed.
PREVIOUS_STATES = {
    "Empty": {"PreparingRebalance", "Empty", "Stable"},
    "PreparingRebalance": {"Empty", "CompletingRebalance", "Stable"},
    "CompletingRebalance": {"PreparingRebalance"},
    "Stable": {"CompletingRebalance", "Stable", "Empty"},
    "Dead": {"Empty", "Stable"},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_a_pair_moves_as_the_table_says_or_not_at_all(state: State, event: Event):
    assert can(state, event) == ((state, event) in MOVES)
    if can(state, event):
        assert move(state, event) is MOVES[state, event]
    else:
        group = Group("g", state=state, state_ms=7)
        with pytest.raises(InvariantBroken):
            group._move(event, 8)
        assert (group.state, group.state_ms) == (state, 7)


def test_states_follow_upon_each_other_under_the_names_that_clients_know():
    previous = {
        state.value: {before.value for (before, _), after in MOVES.items() if after is state} for state in State
    }
    assert previous == PREVIOUS_STATES
