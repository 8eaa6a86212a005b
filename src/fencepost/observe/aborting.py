"""Ending a transaction that its owner does not end: what that undoes, doing it, and the proof that it helped.

Two ways. A *hanging* transaction has no coordinator that would end it: an abort marker is written to its partitions
(WriteTxnMarkers, as `kafka-transactions abort` does). A *live* one has: its id is taken from its producer
(InitProducerId), and the coordinator aborts all of it. A marker written past the coordinator would tear it apart.

Invariants: a live transaction is only ended if the caller says so. One whose end is decided is never touched: it may be
committed in other partitions already. Right before acting, the cluster is asked again, and another transaction than
the planned one is left alone.
"""

import enum
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.fields import by_topic, producer_fields
from fencepost.client.retry import BUSY, COORDINATOR_MOVED, LEADER_MOVED, Retry, known_code
from fencepost.client.transaction import INIT_PRODUCER_ID
from fencepost.errors import (
    AbortRefused,
    ClientError,
    ConnectionLost,
    ErrorCode,
    TopicNotFound,
    TransactionNotFound,
)
from fencepost.observe.backlog import read_backlog
from fencepost.observe.hanging import find_hanging
from fencepost.observe.holding import Cause, Hold, cause_of
from fencepost.observe.producers import ProducerView, open_in, producers_of
from fencepost.observe.stable import Bounds, bounds_of, holder
from fencepost.observe.transactions import Missing, State, TransactionView, describe, survey
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from fencepost.wire.terms import INTERNAL_TOPICS, TopicPartition

WRITE_TXN_MARKERS = 27
#: How long the last stable offset may take to move after the end.
PROOF_S = 20.0
PAUSE_S = 0.05
_GOES_ON = "Its coordinator goes on as soon as all its partitions have leaders"


class Way(enum.StrEnum):
    MARKERS = "markers"  #: an abort marker in each partition
    FENCE = "fence"  #: take the transactional id; the coordinator aborts


@dataclass(frozen=True, slots=True)
class Undone:
    """What an abort undoes in one partition. Offsets are of the transaction's first and last record."""

    where: TopicPartition
    first_offset: int
    last_offset: int | None  #: None if the records could not be read
    records: int | None
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    way: Way
    cause: Cause
    producers: tuple[ProducerView, ...]  #: one for each partition with records of the transaction
    transaction: TransactionView | None
    undone: tuple[Undone, ...]
    before: dict[TopicPartition, Bounds]
    has_offsets: bool = False  #: offsets of groups are part of it
    missing: tuple[Missing, ...] = ()  #: why nobody knows whether it is alive
    others: tuple[TopicPartition, ...] = ()  #: where the same producer hangs as well; not part of the plan

    @property
    def producer_id(self) -> int:
        return self.producers[0].producer_id if self.producers else _of(self.transaction).producer_id

    @property
    def epoch(self) -> int:
        return self.producers[0].epoch if self.producers else _of(self.transaction).epoch

    def refusal(self, *, even_if_live: bool) -> str | None:
        """Why this must not be done; None if it may be."""
        whose = "it" if self.transaction is None else f"the transaction of {self.transaction.transactional_id!r}"
        match self.cause:
            case Cause.HANGING:
                return None
            case Cause.COMMITTING:
                return f"{whose} is being committed; aborting it in some partitions would tear it apart. {_GOES_ON}"
            case Cause.ABORTING:
                return f"{whose} is being aborted already. {_GOES_ON}"
            case Cause.HIDDEN:
                return f"it may be alive: not all transactional ids can be seen ({'; '.join(map(str, self.missing))})"
            case Cause.SETTLING:
                return "it has ended already, and its marker is being replicated"
        return None if even_if_live else f"{whose} is alive, its producer may still commit it"


@dataclass(frozen=True, slots=True)
class Freed:
    where: TopicPartition
    before: Bounds
    after: Bounds | None  #: None if the partition did not answer any more
    next_holder: ProducerView | None = None  #: who holds the last stable offset now

    @property
    def has_moved(self) -> bool:
        return self.after is not None and self.after.stable > self.before.stable


@dataclass(frozen=True, slots=True)
class Outcome:
    plan: Plan
    freed: tuple[Freed, ...]
    still_open: tuple[TopicPartition, ...] = ()  #: where the transaction is open in spite of it

    @property
    def is_proven(self) -> bool:
        """The transaction is open nowhere, and the last stable offset moved wherever this transaction held it."""
        return not self.still_open and all(each.has_moved or each.next_holder is not None for each in self.freed)


# -- planning ----------------------------------------------------------------------------------------------------------


def plan_partition(cluster: Cluster, where: TopicPartition, *, start_offset: int | None = None) -> Plan:
    """End what holds this partition, or the transaction that begins at `start_offset`.

    Raises TopicNotFound and TransactionNotFound.
    """
    if where.partition not in (partitions := cluster.refresh([where.topic])[where.topic].partitions):
        last = len(partitions) - 1
        raise TopicNotFound(f"topic {where.topic!r} has no partition {where.partition}; it has 0 to {last}")
    producers = producers_of(cluster, [where])
    bounds = bounds_of(cluster, [where])
    if where not in producers.found or where not in bounds.found:
        raise ConnectionLost(f"{where}: {(producers.failed | bounds.failed)[where]}")
    found = open_in(producers)
    if start_offset is not None:
        chosen = next((each for each in found if each.txn_start_offset == start_offset), None)
    else:
        chosen = holder(bounds.found[where], producers.found[where]) or next(iter(found), None)
    if chosen is None:
        at = "" if start_offset is None else f" that begins at offset {start_offset}"
        raise TransactionNotFound(f"{where} has no open transaction{at}; fencepost tx producers shows what it has")
    search = find_hanging(cluster, topic=where.topic)
    if any(each.where == where and each.producer.producer_id == chosen.producer_id for each in search.hanging):
        others = [each.where for each in search.hanging if each.producer.producer_id == chosen.producer_id]
        return _plan_markers(cluster, [chosen], [each for each in others if each != where])
    known = survey(cluster, producer_ids=[chosen.producer_id], prove_absence=True)
    transaction = known.by_producer().get(chosen.producer_id)
    cause = cause_of(chosen, known, search.doubtful, time.time_ns() // 1_000_000)
    if transaction is None:
        undone = _undone(cluster, [chosen], bounds.found)
        return Plan(Way.MARKERS, Cause.HIDDEN, (chosen,), None, undone, bounds.found, missing=known.missing)
    return _plan_fence(cluster, transaction, cause)


def plan_hanging(cluster: Cluster, topic: str | None = None, *, older_than_ms: int = 0) -> list[Plan]:
    """End all that hangs, in a topic or everywhere: one plan for each producer."""
    by_producer: dict[int, list[ProducerView]] = {}
    for each in find_hanging(cluster, topic=topic, older_than_ms=older_than_ms).hanging:
        by_producer.setdefault(each.producer.producer_id, []).append(each.producer)
    return [_plan_markers(cluster, producers, []) for producers in by_producer.values()]


def plan_id(cluster: Cluster, transactional_id: str) -> Plan:
    """End the transaction that this id has open. Raises TransactionNotFound."""
    found = describe(cluster, transactional_id)
    if found is None:
        raise TransactionNotFound(f"no broker knows the transactional id {transactional_id!r}")
    if not found.is_open:
        raise TransactionNotFound(f"transactional id {transactional_id!r} has no open transaction: it is {found.state}")
    now_ms = time.time_ns() // 1_000_000
    is_late = found.deadline_ms is not None and now_ms > found.deadline_ms
    if found.is_ending:
        cause = Cause.COMMITTING if found.state == State.PREPARE_COMMIT else Cause.ABORTING
    else:
        cause = Cause.OVERDUE if is_late else Cause.OPEN
    return _plan_fence(cluster, found, cause)


def plan_hold(cluster: Cluster, hold: Hold) -> Plan:
    """End what `why` found."""
    if hold.cause is Cause.HANGING:
        return _plan_markers(cluster, [each.producer for each in hold.partitions if each.producer is not None], [])
    if hold.transaction is None:
        raise AbortRefused("the transaction's coordinator cannot be asked")
    return _plan_fence(cluster, hold.transaction, hold.cause)


def _plan_markers(cluster: Cluster, producers: Sequence[ProducerView], others: Iterable[TopicPartition]) -> Plan:
    before = bounds_of(cluster, [each.where for each in producers]).found
    undone = _undone(cluster, producers, before)
    return Plan(Way.MARKERS, Cause.HANGING, tuple(producers), None, undone, before, others=tuple(others))


def _plan_fence(cluster: Cluster, transaction: TransactionView, cause: Cause) -> Plan:
    written = [where for where in transaction.partitions if where.topic not in INTERNAL_TOPICS]
    producers = [
        each for each in open_in(producers_of(cluster, written)) if each.producer_id == transaction.producer_id
    ]
    before = bounds_of(cluster, [each.where for each in producers]).found
    has_offsets = len(written) < len(transaction.partitions)
    undone = _undone(cluster, producers, before)
    return Plan(Way.FENCE, cause, tuple(producers), transaction, undone, before, has_offsets)


def _undone(
    cluster: Cluster, producers: Iterable[ProducerView], before: dict[TopicPartition, Bounds]
) -> tuple[Undone, ...]:
    found = []
    for each in producers:
        start, bounds = each.txn_start_offset or 0, before.get(each.where)
        try:
            backlog = None if bounds is None else read_backlog(cluster, each.where, start, bounds.end)[0]
        except ClientError:  # we may lack the right to read
            backlog = None
        own = None if backlog is None else backlog.open.get(each.producer_id)
        if backlog is None or own is None:
            found.append(Undone(each.where, start, None, None, is_exact=False))
        else:
            found.append(Undone(each.where, start, own.last_offset, own.records, backlog.is_exact))
    return tuple(found)


# -- doing -------------------------------------------------------------------------------------------------------------


def abort(cluster: Cluster, plan: Plan, *, even_if_live: bool = False) -> Outcome:
    """Carry it out, and wait until the last stable offset has moved. Raises AbortRefused if it would do harm."""
    refusal = plan.refusal(even_if_live=even_if_live)
    if refusal is not None:
        raise AbortRefused(f"{refusal}. Nothing was changed")
    if plan.way is Way.MARKERS:
        _write_markers(cluster, plan)
    else:
        _fence(cluster, _of(plan.transaction))
    return _prove(cluster, plan)


def _write_markers(cluster: Cluster, plan: Plan) -> None:
    wanted = {each.where: each for each in plan.producers}
    search = find_hanging(cluster, partitions=list(wanted))
    hanging = {(each.where, each.producer.producer_id, each.start_offset) for each in search.hanging}
    for each in plan.producers:
        if (each.where, each.producer_id, each.txn_start_offset) not in hanging:
            raise AbortRefused(f"the transaction in {each.where} does not hang any more. Nothing was changed")
    retry = Retry("write transaction markers", cluster.settings)
    waiting = list(plan.producers)
    while waiting:
        producer = waiting[-1]
        reason: object
        try:
            code = _write_marker(cluster, producer)
            if code is ErrorCode.NONE:
                waiting.pop()
                continue
            if code not in LEADER_MOVED | BUSY:
                text = f"an abort marker for producer {producer.producer_id} in {producer.where}"
                raise cluster.refusal(WRITE_TXN_MARKERS, code, producer.where.topic, text)
            reason = code
        except ConnectionLost as error:
            reason = error
        cluster.forget_topic(producer.where.topic)
        retry.wait(reason)


def _write_marker(cluster: Cluster, producer: ProducerView) -> ErrorCode:
    """Twice is harmless: the second one ends nothing."""
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "topics": by_topic([producer.where], inside="partition_indexes"),
        # A producer that never had a marker has no coordinator epoch. No leader epoch is below 0.
        "coordinator_epoch": max(0, producer.coordinator_epoch),
    }
    leader = cluster.connect(cluster.leader_address(*producer.where))
    answer = leader.call(WRITE_TXN_MARKERS, {"markers": [marker]})
    return known_code(answer.markers[0].topics[0].partitions[0].error_code)


def _fence(cluster: Cluster, planned: TransactionView) -> None:
    now = describe(cluster, planned.transactional_id)
    # With the first protocol the epoch stays after the end, and so does the start until the next transaction.
    if now is None or not now.is_open or _which(now) != _which(planned):
        raise AbortRefused(f"{planned.transactional_id!r} has ended that transaction itself. Nothing was changed")
    if now.is_ending:
        raise AbortRefused(f"{planned.transactional_id!r} is ending that transaction itself. Nothing was changed")
    fields = producer_fields(planned.transactional_id, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    _, code = cluster.call_coordinator(
        Coordinates.TRANSACTION,
        planned.transactional_id,
        INIT_PRODUCER_ID,
        {**fields, "transaction_timeout_ms": planned.timeout_ms},
        what=f"taking transactional id {planned.transactional_id!r}",
        again=COORDINATOR_MOVED | BUSY,
    )
    if code:
        text = f"transactional id {planned.transactional_id!r} cannot be taken"
        raise cluster.refusal(INIT_PRODUCER_ID, code, planned.transactional_id, text)


def _which(transaction: TransactionView) -> tuple[int, int, int | None]:
    return transaction.producer_id, transaction.epoch, transaction.start_ms


def _prove(cluster: Cluster, plan: Plan) -> Outcome:
    places = [each.where for each in plan.producers]
    deadline_s = time.monotonic() + PROOF_S
    while True:
        outcome = _look(cluster, plan, places)
        if outcome.is_proven or time.monotonic() > deadline_s:
            return outcome
        time.sleep(PAUSE_S)


def _look(cluster: Cluster, plan: Plan, places: Sequence[TopicPartition]) -> Outcome:
    if not places:
        return Outcome(plan, ())
    producers, bounds = producers_of(cluster, places), bounds_of(cluster, places)
    starts = {(each.where, each.producer_id, each.txn_start_offset) for each in plan.producers}
    still = [
        each.where for each in open_in(producers) if (each.where, each.producer_id, each.txn_start_offset) in starts
    ]
    freed = []
    for where, before in plan.before.items():
        after = bounds.found.get(where)
        holding = None if after is None else holder(after, producers.found.get(where, ()))
        freed.append(Freed(where, before, after, holding))
    return Outcome(plan, tuple(freed), tuple(still))


def _of(transaction: TransactionView | None) -> TransactionView:
    if transaction is None:
        raise AbortRefused("the transaction's coordinator cannot be asked. Nothing was changed")
    return transaction
