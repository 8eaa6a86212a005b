"""What a cluster tells about transactions that others run: who owns an id, what is open, who wrote to a partition.

Only looks. `transaction` runs them. Kafka has these requests since version 3.0 (KIP-664).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.fields import by_topic
from fencepost.client.retry import BUSY, LEADER_MOVED, Retry, known_code
from fencepost.client.transaction import DESCRIBE_TRANSACTIONS
from fencepost.errors import ConnectionLost, ErrorCode, Refused
from fencepost.wire.codec import Message
from fencepost.wire.terms import TopicPartition

DESCRIBE_PRODUCERS, LIST_TRANSACTIONS = 61, 66
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class TransactionState:
    """A transactional id as its coordinator has it."""

    transactional_id: str
    state: str  #: Kafka's name: Empty, Ongoing, PrepareCommit, CompleteCommit, …
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int | None  #: of the open transaction, by the coordinator's clock
    partitions: tuple[TopicPartition, ...] = ()  #: in the open transaction


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition remembers."""

    producer_id: int
    epoch: int
    last_write_ms: int | None
    open_since_offset: int | None  #: the first offset of its open transaction


def ask_coordinator(cluster: Cluster, transactional_id: str) -> Message | None:
    """The entry of DescribeTransactions; None if the coordinator does not know the id (any more)."""
    answer, code = cluster.call_coordinator(
        Coordinates.TRANSACTION,
        transactional_id,
        DESCRIBE_TRANSACTIONS,
        {"transactional_ids": [transactional_id]},
        what=f"state of transactional id {transactional_id!r}",
        code_of=lambda answer: int(answer.transaction_states[0].error_code),
    )
    if code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if code:
        raise cluster.refusal(DESCRIBE_TRANSACTIONS, code, transactional_id, f"transactional id {transactional_id!r}")
    entry: Message = answer.transaction_states[0]
    return entry


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionState | None:
    """None if the coordinator does not know the id (any more)."""
    found = ask_coordinator(cluster, transactional_id)
    if found is None:
        return None
    started_ms = int(found.transaction_start_time_ms)
    return TransactionState(
        transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        started_ms if started_ms >= 0 else None,
        tuple(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions),
    )


def list_transactional_ids(cluster: Cluster) -> dict[str, str]:
    """The ids that all brokers know, as far as we may see them, and the states of their transactions."""
    cluster.refresh([])
    found: dict[str, str] = {}
    retry = Retry("list transactions", cluster.settings)
    waiting = cluster.brokers()
    while waiting:
        reason: object
        try:
            answer = cluster.connect(waiting[-1]).call(LIST_TRANSACTIONS, {})
            reason = code = known_code(answer.error_code)
            if code is ErrorCode.NONE:
                found |= {each.transactional_id: each.transaction_state for each in answer.transaction_states}
                waiting.pop()
                continue
            if code not in BUSY:
                raise Refused(code, "list transactions")
        except ConnectionLost as error:
            reason = error
        retry.wait(reason)
    return found


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Of these partitions, each asked at its leader."""
    retry = Retry("describe producers", cluster.settings)
    found: dict[TopicPartition, list[ActiveProducer]] = {}
    waiting = list(partitions)
    while waiting:
        where = waiting[-1]
        reason: object
        try:
            fields = {"topics": by_topic([where], inside="partition_indexes")}
            answer = cluster.connect(cluster.leader_address(*where)).call(DESCRIBE_PRODUCERS, fields)
            entry = answer.topics[0].partitions[0]
            reason = code = known_code(entry.error_code)
            if code is ErrorCode.NONE:
                found[waiting.pop()] = [
                    ActiveProducer(
                        each.producer_id,
                        each.producer_epoch,
                        None if each.last_timestamp < 0 else each.last_timestamp,
                        None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
                    )
                    for each in entry.active_producers
                ]
                continue
            if code not in LEADER_MOVED | BUSY:
                raise cluster.refusal(DESCRIBE_PRODUCERS, code, where.topic, f"producers of {where}")
        except ConnectionLost as error:
            reason = error
        cluster.forget_topic(where.topic)
        retry.wait(reason)
    return found
