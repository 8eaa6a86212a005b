"""What happened between two looks at all transactions. Pure.

Kafka tells states, not events, so a transaction that begins and ends between two looks shows only by what it left: a
later start, or with KIP-890 a higher epoch. Then its outcome is known, but not that there was only one.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.observe.transactions import State, Survey, TransactionView


class Event(enum.StrEnum):
    BEGUN = "begin"
    GREW = "partitions"  #: it writes to more partitions
    COMMITTING = "committing"  #: decided; markers are being written
    ABORTING = "aborting"
    COMMITTED = "commit"
    ABORTED = "abort"
    EXPIRED = "expire"  #: aborted by its coordinator, because it was open longer than its timeout
    FENCED = "fence"  #: another producer has taken the id
    ENDED = "end"  #: the next one has begun already, so how it ended was not seen
    FORGOTTEN = "forget"  #: the coordinator does not know the id any more


@dataclass(frozen=True, slots=True)
class Change:
    time_ms: int
    event: Event
    transaction: TransactionView  #: as it is after the change; before it, if it was forgotten
    duration_ms: int | None = None  #: of the transaction that ended, as far as the looks show


_BY_STATE = {
    State.ONGOING: Event.BEGUN,
    State.PREPARE_COMMIT: Event.COMMITTING,
    State.PREPARE_ABORT: Event.ABORTING,
    State.PREPARE_EPOCH_FENCE: Event.ABORTING,
    State.COMPLETE_COMMIT: Event.COMMITTED,
    State.COMPLETE_ABORT: Event.ABORTED,
}
_ENDED = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT, State.EMPTY})


class Seen:
    """What was seen last. A broker that does not answer does not make its ids look forgotten."""

    def __init__(self, first: Survey) -> None:
        self._last = by_id(first.transactions)

    def opened(self, now_ms: int) -> list[Change]:
        """What is open at the first look, the oldest first, as if it had just begun."""
        views = sorted((each for each in self._last.values() if each.is_open), key=lambda each: each.start_ms or 0)
        return [Change(each.start_ms or now_ms, _BY_STATE[State(each.state)], each) for each in views]

    def next(self, found: Survey, now_ms: int) -> list[Change]:
        now = by_id(found.transactions)
        if not found.is_complete:
            now = self._last | now
        news = changes(self._last, now, now_ms)
        self._last = now
        return news


def by_id(views: Iterable[TransactionView]) -> dict[str, TransactionView]:
    return {each.transactional_id: each for each in views}


def changes(before: Mapping[str, TransactionView], after: Mapping[str, TransactionView], now_ms: int) -> list[Change]:
    """In the order of their transactional ids."""
    found: list[Change] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None:
            found += [] if old is None else [Change(now_ms, Event.FORGOTTEN, old)]
        else:
            found += _changes_of(old, new, now_ms)
    return found


def _changes_of(old: TransactionView | None, new: TransactionView, now_ms: int) -> list[Change]:
    event = _BY_STATE.get(State(new.state)) if new.state in _STATES else None
    if old is None:
        return [] if event is None else [Change(now_ms, event, new)]
    was_open, is_other = old.is_open, _is_other(old, new)
    if old.state == new.state and not is_other:
        grew = new.state == State.ONGOING and set(new.partitions) - set(old.partitions)
        return [Change(now_ms, Event.GREW, new)] if grew else []
    if new.state == State.EMPTY:
        aborted = [Change(now_ms, _abort(old, now_ms), old, _duration(old, new, now_ms))] if was_open else []
        return [*aborted, Change(now_ms, Event.FENCED, new)] if old.epoch != new.epoch else aborted
    if was_open and is_other:
        ended = Change(now_ms, Event.ENDED, old, _duration(old, new, now_ms))
        return [ended] if event is None else [ended, Change(now_ms, event, new)]
    if event is Event.ABORTED and was_open:
        event = _abort(old, now_ms)
    return [] if event is None else [Change(now_ms, event, new, _duration(old, new, now_ms))]


_STATES = frozenset(State)


def _is_other(old: TransactionView, new: TransactionView) -> bool:
    """Whether the later look is at another transaction of the id."""
    if new.start_ms is not None and old.start_ms is not None:
        return new.start_ms != old.start_ms
    return (new.producer_id, new.epoch) != (old.producer_id, old.epoch) and new.state == old.state


def _abort(old: TransactionView, now_ms: int) -> Event:
    deadline_ms = old.start_ms + old.timeout_ms if old.start_ms is not None else None
    return Event.EXPIRED if deadline_ms is not None and now_ms >= deadline_ms else Event.ABORTED


def _duration(old: TransactionView, new: TransactionView, now_ms: int) -> int | None:
    """Up to the look that showed its end."""
    if old.start_ms is None or not old.is_open or new.state not in _ENDED | {State.ONGOING}:
        return None
    return max(0, now_ms - old.start_ms)
