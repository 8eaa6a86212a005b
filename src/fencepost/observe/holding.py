"""Transactions that hold last stable offsets: which, why nobody has ended them, whose they are, what lies behind them.

The judgement over one producer in one partition is `cause_of`, which is pure.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fencepost.client.cluster import Cluster
from fencepost.errors import ClientError
from fencepost.observe.asking import Answers
from fencepost.observe.backlog import BYTES_MAX, Backlog, read_backlog
from fencepost.observe.groups import GroupView
from fencepost.observe.hanging import still_open, unknown_to
from fencepost.observe.producers import Producers, ProducerView, producers_of
from fencepost.observe.stable import Bounds, bounds_of, holder
from fencepost.observe.transactions import Missing, State, Survey, TransactionView, survey
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition, coordinator_partition

#: Held partitions that are looked into. Beyond that, offsets are bounds.
BACKLOGS_MAX = 20
#: Kafka looks for overdue transactions every ten seconds.
OVERDUE_MS = 15_000


class Cause(enum.StrEnum):
    """Why nobody has ended a transaction yet."""

    OPEN = "open"  #: its producer has not ended it, and may still do so
    OVERDUE = "overdue"  #: it is over its timeout, and its coordinator has not aborted it
    COMMITTING = "committing"  #: it is committed; this partition has no marker yet
    ABORTING = "aborting"  #: it is aborted; this partition has no marker yet
    HANGING = "hanging"  #: no coordinator knows it: it never ends by itself
    HIDDEN = "hidden"  #: its coordinator cannot be asked, or may not show it to us
    SETTLING = "settling"  #: it has ended; its marker is not replicated yet


@dataclass(frozen=True, slots=True)
class Held:
    """A partition whose last stable offset is held."""

    bounds: Bounds
    producer: ProducerView | None
    backlog: Backlog | None = None  #: None if it was not looked at


@dataclass(frozen=True, slots=True)
class Hold:
    """One transaction, and all the asked partitions that it holds."""

    cause: Cause
    producer_id: int | None  #: None while SETTLING: the partition does not say whose marker it is
    epoch: int | None
    transaction: TransactionView | None
    since_ms: int | None
    ends_ms: int | None  #: when its coordinator aborts it
    partitions: tuple[Held, ...]
    owners: tuple[GroupView, ...] = ()  #: groups whose offsets are probably part of it; their members are its clients

    @property
    def waiting(self) -> int:
        """Records that readers get as soon as it ends, at most."""
        return sum(
            each.bounds.end - each.bounds.stable if each.backlog is None else each.backlog.waiting_max
            for each in self.partitions
        )

    @property
    def is_exact(self) -> bool:
        return all(each.backlog is not None and each.backlog.is_exact for each in self.partitions)


@dataclass(frozen=True, slots=True)
class Findings:
    holds: tuple[Hold, ...] = ()
    missing: tuple[Missing, ...] = ()  #: what could not be asked


def find_holds(cluster: Cluster, held: Sequence[Bounds], now_ms: int) -> Findings:
    """The transactions that hold these partitions, each with all of them.

    Partitions are asked before the coordinators, and suspects again after them; see `hanging`. What has ended in
    between holds nothing any more, unless its marker is not replicated yet.
    """
    if not held:
        return Findings()
    before = producers_of(cluster, [each.where for each in held])
    holders = {each.where: holder(each, before.found.get(each.where, ())) for each in held}
    present = [each for each in holders.values() if each is not None]
    producer_ids = {each.producer_id for each in present}
    known = survey(cluster, producer_ids=producer_ids, prove_absence=True) if present else Survey(())
    suspects = unknown_to(present, known)
    after: Answers[TopicPartition, Producers] = Answers()
    if suspects:
        after = producers_of(cluster, {each.where for each in suspects})
    hanging = {each.where: each for each in still_open(suspects, after)}
    ended = {each.where for each in suspects if each.where not in hanging}
    unclear = {where for where, each in holders.items() if where in before.found and (each is None or where in ended)}
    settling = _still_held(cluster, [each for each in held if each.where in unclear])
    grouped: dict[tuple[int | None, Cause], list[Held]] = {}
    for bounds in held:
        producer = hanging.get(bounds.where, holders[bounds.where])
        if bounds.where in settling:
            grouped.setdefault((None, Cause.SETTLING), []).append(Held(settling[bounds.where], None))
        elif producer is not None and bounds.where not in unclear:
            cause = cause_of(producer, known, hanging.values(), now_ms)
            grouped.setdefault((producer.producer_id, cause), []).append(Held(bounds, producer))
    looks, owners = _Looks(cluster), known.by_producer()
    holds = [
        _hold(cause, None if producer_id is None else owners.get(producer_id), [looks.into(each) for each in places])
        for (producer_id, cause), places in grouped.items()
    ]
    missing = [Missing(f"producers of {where}", str(failure)) for where, failure in before.failed.items()]
    return Findings(tuple(sorted(holds, key=lambda each: -each.waiting)), (*missing, *known.missing))


def _still_held(cluster: Cluster, held: Sequence[Bounds]) -> dict[TopicPartition, Bounds]:
    """Those whose last stable offset has not moved."""
    if not held:
        return {}
    now = bounds_of(cluster, [each.where for each in held]).found
    return {
        each.where: now[each.where]
        for each in held
        if each.where in now and now[each.where].is_held and now[each.where].stable == each.stable
    }


def cause_of(producer: ProducerView, known: Survey, hanging: Iterable[ProducerView], now_ms: int) -> Cause:
    """Why nobody has ended the transaction of this producer in this partition. Pure."""
    transaction = known.by_producer().get(producer.producer_id)
    if producer in hanging:
        return Cause.HIDDEN if transaction is None and not known.is_complete else Cause.HANGING
    if transaction is None or transaction.state == State.ONGOING:
        deadline_ms = None if transaction is None else transaction.deadline_ms
        return Cause.OVERDUE if deadline_ms is not None and now_ms > deadline_ms + OVERDUE_MS else Cause.OPEN
    return Cause.COMMITTING if transaction.state == State.PREPARE_COMMIT else Cause.ABORTING


def _hold(cause: Cause, transaction: TransactionView | None, held: Sequence[Held]) -> Hold:
    first = held[0].producer
    is_known = transaction is not None and cause not in (Cause.HANGING, Cause.HIDDEN)
    since_ms = transaction.start_ms if transaction is not None and is_known else None
    return Hold(
        cause,
        None if first is None else first.producer_id,
        None if first is None else first.epoch,
        transaction,
        since_ms if since_ms is not None else _first_write_ms(held),
        transaction.deadline_ms if transaction is not None and is_known else None,
        tuple(held),
    )


def _first_write_ms(held: Iterable[Held]) -> int | None:
    """When the transaction began, as far as its records tell."""
    found: list[int] = []
    for each in held:
        if each.producer is None:
            continue
        own = None if each.backlog is None else each.backlog.open.get(each.producer.producer_id)
        first_ms = each.producer.last_ms if own is None else own.first_ms
        found += [first_ms] if first_ms is not None else []
    return min(found, default=None)


class _Looks:
    """Looks behind held offsets, as long as the limits allow."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._left, self._bytes = BACKLOGS_MAX, BYTES_MAX

    def into(self, held: Held) -> Held:
        if not self._left or self._bytes <= 0:
            return held
        self._left -= 1
        bounds = held.bounds
        try:
            found, spent = read_backlog(self._cluster, bounds.where, bounds.stable, bounds.end, self._bytes)
        except ClientError:  # we may lack the right to read; the offsets must do
            return held
        self._bytes -= spent
        return replace(held, backlog=found)


# -- whose they are ----------------------------------------------------------------------------------------------------


def with_owners(holds: Iterable[Hold], groups: Sequence[GroupView], offset_partitions: int) -> tuple[Hold, ...]:
    """`offset_partitions` is how many the topic __consumer_offsets has. Pure."""
    return tuple(
        each
        if each.transaction is None or not each.transaction.is_open
        else replace(each, owners=owners_of(each.transaction, groups, offset_partitions))
        for each in holds
    )


def owners_of(
    transaction: TransactionView, groups: Iterable[GroupView], offset_partitions: int
) -> tuple[GroupView, ...]:
    """The groups whose offsets may be part of a transaction: those in its partitions of __consumer_offsets. Pure.

    Kafka does not tell a producer's client id. Its group's members are usually the same processes.
    """
    indexes = {where.partition for where in transaction.partitions if where.topic == CONSUMER_OFFSETS}
    if not indexes or not offset_partitions:
        return ()
    return tuple(each for each in groups if coordinator_partition(each.group_id, offset_partitions) in indexes)
