"""The coordinator's side of a transaction: its states, the events, and which moves are legal. `MOVES` is the code.

::

      InitProducerId
            │
            ▼
        ┌───────┐  ADD   ┌─────────┐  COMMIT   ┌────────────────┐  MARKERS_WRITTEN  ┌─────────────────┐
        │ EMPTY ├───────▶│ ONGOING ├──────────▶│ PREPARE_COMMIT ├──────────────────▶│ COMPLETE_COMMIT │
        └───────┘        └┬──────┬─┘           └────────────────┘                   └─────────────────┘
                      ADD │ ▲    │   ABORT     ┌───────────────┐   MARKERS_WRITTEN  ┌────────────────┐
                          └─┘    ├────────────▶│ PREPARE_ABORT ├───────────────────▶│ COMPLETE_ABORT │
                                 │             └───────────────┘                    └────────────────┘
                           FENCE │                     ▲ ABORT
                                 │          ┌──────────┴──────────┐
                                 └─────────▶│ PREPARE_EPOCH_FENCE │
                                            └─────────────────────┘

      The three states at rest (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT) lead to the same places:

        ADD ──▶ ONGOING      INIT ──▶ EMPTY      ABORT_NOTHING ──▶ PREPARE_ABORT      EXPIRE ──▶ DEAD

Not to be mixed up with a *partition's* view of the same transaction (open, committed, aborted), which lives in its log.
"""

import enum

from fencepost.errors import InvariantBroken


class TransactionState(enum.IntEnum):
    """Numbered as in the records of `__transaction_state`."""

    EMPTY = 0  #: a producer owns the id and has written nothing: what InitProducerId leaves behind
    ONGOING = 1  #: partitions are registered; everything written to them waits for the outcome
    PREPARE_COMMIT = 2  #: the outcome is decided and logged: nothing can turn it round, markers are being written
    PREPARE_ABORT = 3  #: the same for an abort
    COMPLETE_COMMIT = 4  #: every partition has its marker; kept so that a repeated EndTxn can be answered
    COMPLETE_ABORT = 5  #: the same for an abort
    DEAD = 6  #: expired: its record is a tombstone and the id is forgotten
    PREPARE_EPOCH_FENCE = 7  #: the epoch is being raised above a producer that lost its right; never logged

    @property
    def label(self) -> str:
        """Kafka's name for people and admin clients: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Event(enum.Enum):
    INIT = "InitProducerId gives out an epoch"
    ADD = "partitions or offsets join the transaction"
    COMMIT = "EndTxn(commit)"
    ABORT = "EndTxn(abort)"
    ABORT_NOTHING = "EndTxn(abort) of a client that does not know whether it began (KIP-890)"
    FENCE = "a timeout, or another producer with the same id"
    MARKERS_WRITTEN = "every partition durably has its marker"
    EXPIRE = "the id was silent for too long"


_S, _E = TransactionState, Event

_AT_REST = {_E.INIT: _S.EMPTY, _E.ADD: _S.ONGOING, _E.ABORT_NOTHING: _S.PREPARE_ABORT, _E.EXPIRE: _S.DEAD}

MOVES: dict[TransactionState, dict[Event, TransactionState]] = {
    _S.EMPTY: _AT_REST,
    _S.ONGOING: {
        _E.ADD: _S.ONGOING,
        _E.COMMIT: _S.PREPARE_COMMIT,
        _E.ABORT: _S.PREPARE_ABORT,
        _E.FENCE: _S.PREPARE_EPOCH_FENCE,
    },
    _S.PREPARE_COMMIT: {_E.MARKERS_WRITTEN: _S.COMPLETE_COMMIT},
    _S.PREPARE_ABORT: {_E.MARKERS_WRITTEN: _S.COMPLETE_ABORT},
    _S.COMPLETE_COMMIT: _AT_REST,
    _S.COMPLETE_ABORT: _AT_REST,
    _S.DEAD: {},
    _S.PREPARE_EPOCH_FENCE: {_E.ABORT: _S.PREPARE_ABORT},
}

#: The outcome is decided, the markers are not all written: the coordinator has work to do and no request may act.
PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
#: No transaction is open and none is being ended: the id may begin one, get a new owner, or expire.
AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})

BY_LABEL = {state.label: state for state in TransactionState}


class IllegalMove(InvariantBroken):
    """An event that the table does not know for this state. Nothing was changed."""


def move(state: TransactionState, event: Event) -> TransactionState:
    """The state after `event`. Decisions check what a client may ask for *before* they come here; this is the net."""
    try:
        return MOVES[state][event]
    except KeyError:
        raise IllegalMove(f"{event.name} is not possible in state {state.name}") from None
