"""Transactions as their coordinators have them: of every broker, or of one id.

A transactional id belongs to one broker, its coordinator, and nobody knows which ids there are. So every broker is
asked for its own. A broker that does not answer hides its ids, and so do missing rights: `Survey.missing` says so, and
who decides something by an id's absence must look at it (`hanging`).
"""

import enum
import re
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fencepost.client.cluster import NO_LEADER, Cluster, Coordinates
from fencepost.client.naming import pipeline_of
from fencepost.client.retry import known_code
from fencepost.client.transaction import DESCRIBE_TRANSACTIONS
from fencepost.client.transaction_state import LIST_TRANSACTIONS, ask_coordinator
from fencepost.errors import ConfigError, ConnectionLost, ErrorCode
from fencepost.observe.asking import ask_brokers
from fencepost.wire.codec import Message
from fencepost.wire.terms import TRANSACTION_STATE, Address, TopicPartition

#: Ids in one DescribeTransactions.
CHUNK = 1_000
UNKNOWN_BROKER = -1


class State(enum.StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


#: Decided, but not all partitions have their marker yet.
ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE})
OPEN = ENDING | {State.ONGOING}


@dataclass(frozen=True, slots=True)
class TransactionView:
    transactional_id: str
    producer_id: int
    epoch: int
    state: str  #: as Kafka names it; see `State`
    start_ms: int | None  #: of the last transaction, by the coordinator's clock
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]  #: of the open transaction; while it ends, those without a marker
    coordinator: int  #: a broker's id, UNKNOWN_BROKER if it just moved
    pipeline: str | None = None  #: the fencepost pipeline that the id belongs to
    client: str | None = None  #: the client that took the id, and its host; only fencepost's own broker tells

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_ending(self) -> bool:
        return self.state in ENDING

    @property
    def deadline_ms(self) -> int | None:
        """When its coordinator aborts it; None if it is not waiting for its producer."""
        if self.state != State.ONGOING or self.start_ms is None:
            return None
        return self.start_ms + self.timeout_ms

    def age_ms(self, now_ms: int) -> int | None:
        """How long it has been open; None if it is not."""
        return None if self.start_ms is None or not self.is_open else max(0, now_ms - self.start_ms)


@dataclass(frozen=True, slots=True)
class Missing:
    """A part of the coordinators' knowledge that could not be had."""

    what: str  #: a broker, or a partition of the transaction log
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Survey:
    transactions: tuple[TransactionView, ...]  #: open ones first, the oldest before the others; then by id
    missing: tuple[Missing, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether an id that is not here does not exist, as far as we may see ids."""
        return not self.missing

    def by_producer(self) -> dict[int, TransactionView]:
        return {each.producer_id: each for each in self.transactions}


def list_transactions(
    cluster: Cluster,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    min_age_ms: int | None = None,
    pattern: str | None = None,
) -> list[TransactionView]:
    """What `survey` finds. Raises ConnectionLost if a broker does not answer."""
    found = survey(cluster, states=states, producer_ids=producer_ids, min_age_ms=min_age_ms, pattern=pattern)
    if found.missing:
        raise ConnectionLost("; ".join(map(str, found.missing)))
    return list(found.transactions)


def survey(
    cluster: Cluster,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    min_age_ms: int | None = None,
    pattern: str | None = None,
    prove_absence: bool = False,
) -> Survey:
    """The transactions of all brokers, or those in these states, of these producers, open for so long, with such ids.

    `pattern` is a regular expression for the whole id. With `prove_absence` the survey is only complete if no id can be
    hidden from us: Kafka leaves out those that we may not describe, and does not say so.
    """
    try:
        matches = re.compile(pattern or ".*", re.DOTALL).fullmatch
    except re.error as error:
        raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from None
    topics = cluster.refresh([TRANSACTION_STATE], missing_ok=True, hidden_ok=True)
    missing = [
        Missing(f"{TRANSACTION_STATE}-{index}", "has no leader, so nobody knows its transactional ids")
        for topic in topics.values()
        for index, partition in topic.partitions.items()
        if partition.leader == NO_LEADER
    ]
    missing += _hidden(cluster) if prove_absence else []
    fields = {"state_filters": list(states), "producer_id_filters": list(producer_ids)}
    nodes = cluster.nodes()
    ids: dict[Address, list[str]] = {}
    for address, got in ask_brokers(cluster, LIST_TRANSACTIONS, {each: [fields] for each in nodes.values()}).items():
        if isinstance(got, Exception):
            missing.append(Missing(f"broker {address}", str(got)))
        elif code := known_code(got[0].error_code):
            missing.append(Missing(f"broker {address}", code.name))
        elif unknown := got[0].unknown_state_filters:
            raise ConfigError(f"Kafka has no transaction state {', '.join(unknown)}; it has {', '.join(State)}")
        else:
            listed = [each.transactional_id for each in got[0].transaction_states]
            ids[address] = [each for each in listed if matches(each)]
    views, more = _describe_all(cluster, ids)
    now_ms = time.time_ns() // 1_000_000
    chosen = [
        each
        for each in views
        if (not states or each.state in states)
        and (min_age_ms is None or (each.age_ms(now_ms) or 0) >= max(1, min_age_ms))
    ]
    return Survey(tuple(sorted(chosen, key=_order)), tuple(missing + more))


def describe(cluster: Cluster, transactional_id: str) -> TransactionView | None:
    """None if the coordinator does not know the id (any more)."""
    found = ask_coordinator(cluster, transactional_id)
    if found is None:
        return None
    if not cluster.nodes():
        cluster.refresh([])
    address = cluster.coordinator(Coordinates.TRANSACTION, transactional_id).address
    return _view(found, _node_id(cluster, address))


def _hidden(cluster: Cluster) -> list[Missing]:
    """Ask for an id that nobody has: who may describe that one may describe all. Rights are checked before all else."""
    nobody = f"fencepost-probe-{uuid.uuid4().hex}"
    answer = cluster.call("rights on transactional ids", DESCRIBE_TRANSACTIONS, {"transactional_ids": [nobody]})
    code = known_code(answer.transaction_states[0].error_code)
    if code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return []
    return [Missing("transactional ids", str(cluster.refusal(DESCRIBE_TRANSACTIONS, code, "*", "")))]


def _describe_all(cluster: Cluster, ids: dict[Address, list[str]]) -> tuple[list[TransactionView], list[Missing]]:
    requests = {
        address: [{"transactional_ids": part} for part in _chunks(listed)] for address, listed in ids.items() if listed
    }
    views: list[TransactionView] = []
    missing: list[Missing] = []
    for address, got in ask_brokers(cluster, DESCRIBE_TRANSACTIONS, requests).items():
        if isinstance(got, Exception):
            missing.append(Missing(f"broker {address}", str(got)))
            continue
        node_id = _node_id(cluster, address)
        for entry in (entry for message in got for entry in message.transaction_states):
            code = known_code(entry.error_code)
            if code is ErrorCode.NONE:
                views.append(_view(entry, node_id))
            elif code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # it expired in between
                missing.append(Missing(f"transactional id {entry.transactional_id!r}", code.name))
    return views, missing


def _view(entry: Message, coordinator: int) -> TransactionView:
    start_ms = int(entry.transaction_start_time_ms)
    return TransactionView(
        entry.transactional_id,
        entry.producer_id,
        entry.producer_epoch,
        entry.transaction_state,
        start_ms if start_ms > 0 else None,
        entry.transaction_timeout_ms,
        tuple(sorted(TopicPartition(topic.topic, index) for topic in entry.topics for index in topic.partitions)),
        coordinator,
        pipeline_of(entry.transactional_id),
        f"{entry.client_id} at {entry.client_host}" if entry.client_host else None,
    )


def _order(view: TransactionView) -> tuple[bool, int, str]:
    return not view.is_open, (view.start_ms or 0) if view.is_open else 0, view.transactional_id


def _node_id(cluster: Cluster, address: Address) -> int:
    return next((node for node, known in cluster.nodes().items() if known == address), UNKNOWN_BROKER)


def _chunks(ids: Sequence[str]) -> Iterable[list[str]]:
    return (list(ids[start : start + CHUNK]) for start in range(0, len(ids), CHUNK))
