"""The life of a group: its states, what happens to it, and which move each makes. The table below is the code.

::

                         REBALANCE                  JOINED                      ASSIGNED
      ┌──────► EMPTY ────────────► PREPARING ────────────────► COMPLETING ────────────────► STABLE ◄─┐
      │          │                 ▲   │  ▲                        │                          │  │   │ ASSIGNED
      │ REMOVED  │                 │   │  └────────────────────────┘                          │  └───┘ (a static member
      │          ▼                 │   │         REBALANCE                                    │         was replaced)
      │        DEAD                └───┼──────────────────────────────────────────────────────┘
      │                                │                    REBALANCE
      └────────────────────────────────┘ EMPTIED

REBALANCE and JOINED live in memory alone: a restart forgets them. EMPTIED, ASSIGNED and REMOVED are records in
`__consumer_offsets`. While a log is replayed they follow upon each other with nothing in between: those moves are
marked (replay). A move that is not in the table is a bug: it raises, and the state stays.
"""

import enum

from fencepost.errors import InvariantBroken


class State(enum.Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"  #: no members; may still have offsets, and be asked to hold more
    PREPARING = "PreparingRebalance"  #: members are told to join again, and waited for
    COMPLETING = "CompletingRebalance"  #: everyone has joined; the leader is working out who gets what
    STABLE = "Stable"  #: everyone may fetch their assignment
    DEAD = "Dead"  #: deleted; nobody can reach it any more


class Event(enum.Enum):
    REBALANCE = "a member came, went, or asks for a new assignment"
    JOINED = "the members of the next generation are known"
    EMPTIED = "the members of the next generation are known: there are none"
    ASSIGNED = "the leader's assignment, or a static member's new id, is recorded"
    REMOVED = "the group is deleted or expired"


MOVES: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.REBALANCE): State.PREPARING,
    (State.STABLE, Event.REBALANCE): State.PREPARING,
    (State.COMPLETING, Event.REBALANCE): State.PREPARING,

    (State.PREPARING, Event.JOINED): State.COMPLETING,

    (State.PREPARING, Event.EMPTIED): State.EMPTY,
    (State.EMPTY, Event.EMPTIED): State.EMPTY,  # (replay)
    (State.STABLE, Event.EMPTIED): State.EMPTY,  # (replay)

    (State.COMPLETING, Event.ASSIGNED): State.STABLE,
    (State.STABLE, Event.ASSIGNED): State.STABLE,
    (State.EMPTY, Event.ASSIGNED): State.STABLE,  # (replay)

    (State.EMPTY, Event.REMOVED): State.DEAD,
    (State.STABLE, Event.REMOVED): State.DEAD,  # (replay, when the disk refused the record of its emptying)
}  # fmt: skip


def move(state: State, event: Event) -> State:
    """The state that follows; InvariantBroken where the table has no such move."""
    after = MOVES.get((state, event))
    if after is None:
        raise InvariantBroken(f"a group in state {state.value} cannot take {event.name}")
    return after


def can(state: State, event: Event) -> bool:
    return (state, event) in MOVES
