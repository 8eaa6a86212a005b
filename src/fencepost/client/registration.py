"""What goes into a transaction besides records: its partitions and a group's offsets. In both protocols.

Everything here may safely be done twice, so it is retried until the coordinator answers. Any process that has the
`ProducerIdentity` can do it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.fields import by_topic
from fencepost.client.groups import CommittedOffset
from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.client.retry import BUSY, COORDINATOR_MOVED, FENCED
from fencepost.client.rights import is_denial
from fencepost.errors import ClientError, ErrorCode, Fenced, TransactionFailed
from fencepost.wire.codec import Message
from fencepost.wire.terms import TopicPartition

PRODUCE, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 0, 24, 25, 26, 28
TRANSACTION_VERSION = "transaction.version"

#: From version 4 on AddPartitionsToTxn is spoken between brokers only.
LAST_ADD_PARTITIONS_OF_CLIENTS = 3


class Bounds(NamedTuple):
    lowest: int
    highest: int


#: The version of a request tells the broker which protocol its sender speaks (KIP-890).
VERSIONS: dict[TransactionProtocol, dict[int, Bounds]] = {
    TransactionProtocol.V1: {PRODUCE: Bounds(3, 11), END_TXN: Bounds(0, 4), TXN_OFFSET_COMMIT: Bounds(0, 4)},
    TransactionProtocol.V2: {PRODUCE: Bounds(12, 13), END_TXN: Bounds(5, 5), TXN_OFFSET_COMMIT: Bounds(5, 5)},
}
#: Without a transaction any version will do that has record batches.
PRODUCE_WITHOUT = Bounds(3, 13)


def produce_versions(identity: ProducerIdentity) -> Bounds:
    return VERSIONS[identity.protocol][PRODUCE] if identity.is_transactional else PRODUCE_WITHOUT


def protocol_of(cluster: Cluster) -> TransactionProtocol:
    """The newest protocol that the cluster has switched on."""
    if cluster.features.get(TRANSACTION_VERSION, 0) >= TransactionProtocol.V2:
        return TransactionProtocol.V2
    return TransactionProtocol.V1


def register_partitions(cluster: Cluster, identity: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
    """Make partitions part of the transaction before they are written; nothing to do with protocol 2."""
    topics = by_topic(partitions)
    if identity.protocol is not TransactionProtocol.V1 or not topics:
        return
    fields = {f"v3_and_below_{name}": value for name, value in {**identity.fields, "topics": topics}.items()}
    answer, code = cluster.call_coordinator(
        Coordinates.TRANSACTION,
        identity.transactional_id,
        ADD_PARTITIONS_TO_TXN,
        fields,
        code_of=first_partition_code,
        what=f"registering partitions with {identity}",
        highest=LAST_ADD_PARTITIONS_OF_CLIENTS,
        # The coordinator may hear of a new topic a moment later than we did.
        again=COORDINATOR_MOVED | BUSY | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    )
    if is_denial(code):
        found = [(t.name, t.results_by_partition) for t in answer.results_by_topic_v3_and_below]
        refused = next(name for name, results in found if any(p.partition_error_code == code for p in results))
        raise _denial(cluster, identity, ADD_PARTITIONS_TO_TXN, code, refused)
    _check(code, identity, "partitions cannot be registered")


def add_group(cluster: Cluster, identity: ProducerIdentity, group: str) -> None:
    """Make a group's offsets part of the transaction, with protocol 1."""
    _, code = cluster.call_coordinator(
        Coordinates.TRANSACTION,
        identity.transactional_id,
        ADD_OFFSETS_TO_TXN,
        {**identity.fields, "group_id": group},
        what=f"registering group {group!r} with {identity}",
    )
    if is_denial(code):
        raise _denial(cluster, identity, ADD_OFFSETS_TO_TXN, code, group)
    _check(code, identity, f"group {group!r} cannot be registered")


def commit_offsets(
    cluster: Cluster, identity: ProducerIdentity, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Offsets that take effect with the transaction. With protocol 2 this registers the group as well."""
    entries = (
        (
            topic,
            {
                "partition_index": partition,
                "committed_offset": committed.offset,
                "committed_leader_epoch": committed.leader_epoch,
                "committed_metadata": committed.metadata,
            },
        )
        for (topic, partition), committed in offsets.items()
    )
    bounds = VERSIONS[identity.protocol][TXN_OFFSET_COMMIT]
    answer, code = cluster.call_coordinator(
        Coordinates.GROUP,
        group,
        TXN_OFFSET_COMMIT,
        {**identity.fields, "group_id": group, "topics": by_topic(entries)},
        code_of=first_offset_code,
        what=f"offsets of group {group!r} in {identity}",
        lowest=bounds.lowest,
        highest=bounds.highest,
    )
    if code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
        raise TransactionFailed(
            f"group {group!r} has members ({code.name}): a pipeline needs a consumer group of its own"
        )
    if code is ErrorCode.OFFSET_METADATA_TOO_LARGE:
        raise TransactionFailed(f"group {group!r}: the metadata is longer than the broker's offset.metadata.max.bytes")
    if is_denial(code):
        is_topic = code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = next(t.name for t in answer.topics if any(p.error_code == code for p in t.partitions))
        raise _denial(cluster, identity, TXN_OFFSET_COMMIT, code, refused if is_topic else group)
    _check(code, identity, f"offsets of group {group!r} cannot be added")


def _denial(cluster: Cluster, identity: ProducerIdentity, api_key: int, code: ErrorCode, name: str) -> ClientError:
    """The right on `name` is missing, or the one on the transactional id."""
    if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        name = identity.transactional_id
    return cluster.refusal(api_key, code, name, str(identity))


def _check(code: ErrorCode, identity: ProducerIdentity, what: str) -> None:
    if code in FENCED:
        raise Fenced(fenced_message(identity, code))
    if code:
        raise TransactionFailed(f"{what} in transaction {identity}: {code.name}")


def fenced_message(identity: ProducerIdentity, code: ErrorCode) -> str:
    return (
        f"{identity} has been fenced ({code.name}): another producer uses this transactional id now, "
        "or the transaction was open for longer than transaction.timeout.ms"
    )


def first_offset_code(answer: Message) -> int:
    return next((p.error_code for topic in answer.topics for p in topic.partitions if p.error_code), 0)


def first_partition_code(answer: Message) -> int:
    """The code that matters: partitions beside the failed one are OPERATION_NOT_ATTEMPTED."""
    codes = [
        p.partition_error_code for topic in answer.results_by_topic_v3_and_below for p in topic.results_by_partition
    ]
    failed = [code for code in codes if code]
    return next((code for code in failed if code != ErrorCode.OPERATION_NOT_ATTEMPTED), failed[0] if failed else 0)
