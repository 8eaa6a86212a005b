"""Every state with every event: the table is the code, so what is not in it must raise and leave things alone."""

import itertools

import pytest

from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.states import MOVES, Event, State, can, move
from fencepost.errors import InvariantBroken

EXPECTED = {
    (State.EMPTY, Event.REBALANCE): State.PREPARING,
    (State.STABLE, Event.REBALANCE): State.PREPARING,
    (State.COMPLETING, Event.REBALANCE): State.PREPARING,
    (State.PREPARING, Event.JOINED): State.COMPLETING,
    (State.PREPARING, Event.EMPTIED): State.EMPTY,
    (State.EMPTY, Event.EMPTIED): State.EMPTY,
    (State.STABLE, Event.EMPTIED): State.EMPTY,
    (State.COMPLETING, Event.ASSIGNED): State.STABLE,
    (State.STABLE, Event.ASSIGNED): State.STABLE,
    (State.EMPTY, Event.ASSIGNED): State.STABLE,
    (State.EMPTY, Event.REMOVED): State.DEAD,
    (State.STABLE, Event.REMOVED): State.DEAD,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_a_pair_moves_as_the_table_says_or_not_at_all(state: State, event: Event):
    assert can(state, event) == ((state, event) in EXPECTED)
    if (state, event) in EXPECTED:
        assert move(state, event) is EXPECTED[state, event]
    else:
        with pytest.raises(InvariantBroken):
            move(state, event)


def test_an_illegal_event_leaves_the_group_as_it_was():
    group = Group("g", state=State.DEAD, state_ms=7)
    with pytest.raises(InvariantBroken):
        group.begin_rebalance(8)
    assert (group.state, group.state_ms) == (State.DEAD, 7)


def test_every_state_can_be_reached_and_the_dead_stay_dead():
    reached = {State.EMPTY}
    for _ in State:
        reached |= {after for (before, _), after in MOVES.items() if before in reached}
    assert reached == set(State)
    assert not [event for event in Event if can(State.DEAD, event)]


def test_states_have_the_names_that_clients_know():
    assert [state.value for state in State] == [
        "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead",
    ]  # fmt: skip
