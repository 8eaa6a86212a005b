"""Whether a pipeline runs, as far as Kafka tells. Pure.

Kafka knows transactions, not processes. An open transaction has an owner who writes, or who died a moment ago: after
the timeout the coordinator aborts it. A pipeline that waits for input looks like one that was stopped. So the answer is
certain only while a transaction is open, likely for a while after one, and unknown later.
"""

import enum
from dataclasses import dataclass

from fencepost.client.transaction_state import TransactionState
from fencepost.observe.words import age

#: A transaction that ended within this time is taken for a sign of life.
RECENT_MS = 30_000
ONGOING, EMPTY = "Ongoing", "Empty"


class Activity(enum.StrEnum):
    OPEN = "open"  #: it has an open transaction
    ENDING = "ending"  #: its transaction is being committed or aborted
    RECENT = "recent"  #: it ended a transaction a moment ago
    QUIET = "quiet"  #: it waits for input, or was stopped
    UNKNOWN = "unknown"  #: the coordinator does not know its id, or does not tell

    @property
    def is_alive(self) -> bool:
        """Whether to take it for running."""
        return self in (Activity.OPEN, Activity.ENDING, Activity.RECENT)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who has the pipeline's transactional id."""

    transactional_id: str
    transaction: TransactionState | None = None  #: None if the coordinator has forgotten the id, or does not tell
    hidden_because: str = ""  #: why it does not tell
    last_write_ms: int | None = None  #: of the last record or marker that the owner wrote to the ledger


def last_sign_ms(owner: Owner, entry_ms: int | None) -> int | None:
    """When it last wrote, by the clocks of its driver and its coordinator."""
    return max((each for each in (owner.last_write_ms, entry_ms) if each), default=None)


def judge(owner: Owner, entry_ms: int | None, now_ms: int) -> Activity:
    """`entry_ms` is the time of its last ledger entry."""
    found = owner.transaction
    if found is not None and found.state == ONGOING:
        return Activity.OPEN
    if found is not None and found.state.startswith("Prepare"):
        return Activity.ENDING
    last_ms = last_sign_ms(owner, entry_ms)
    if last_ms is not None and now_ms - last_ms < RECENT_MS:
        return Activity.RECENT
    return Activity.UNKNOWN if found is None else Activity.QUIET


def words(activity: Activity, owner: Owner, entry_ms: int | None, now_ms: int) -> str:
    """The same for people."""
    found, last_ms = owner.transaction, last_sign_ms(owner, entry_ms)
    last = "it has never committed" if last_ms is None else f"its last sign of life is {age(now_ms - last_ms)} old"
    match activity:
        case Activity.OPEN if found is not None and found.started_ms is not None:
            left_ms = found.started_ms + found.timeout_ms - now_ms
            end = f"if its owner is dead, it is aborted in {age(left_ms)}" if left_ms > 0 else "it is over its timeout"
            return f"yes: a transaction is open for {age(now_ms - found.started_ms)}; {end}"
        case Activity.OPEN | Activity.ENDING:
            return f"yes: its transaction is {found.state if found else 'open'}"
        case Activity.RECENT:
            return f"probably: {last}"
        case Activity.QUIET if found is not None and found.state == EMPTY:
            return f"perhaps: it was started or fenced after its last transaction and has written nothing since; {last}"
        case Activity.QUIET:
            return f"perhaps: {last}. A pipeline without input looks like one that was stopped"
    if owner.hidden_because:
        return f"not known: {owner.hidden_because}; {last}"
    return f"no: the cluster does not know its transactional id (any more); {last}"
