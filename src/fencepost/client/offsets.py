"""The partitions of topics, where they begin and end, and the first offset at or after a time."""

import re
from collections.abc import Iterable, Mapping

from fencepost.client.cluster import Cluster
from fencepost.client.fields import by_topic
from fencepost.client.retry import BUSY, LEADER_MOVED, Retry, known_code
from fencepost.errors import ConnectionLost, ErrorCode, Unsupported
from fencepost.wire.codec import Message
from fencepost.wire.terms import Address, Isolation, TopicPartition

LIST_OFFSETS = 2
FIRST_WITH_ISOLATION, FIRST_WITH_TIERS = 2, 8

LATEST, EARLIEST, EARLIEST_LOCAL = -1, -2, -4
NOT_FOUND = -1


def partitions_of(cluster: Cluster, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions, by fresh metadata. Raises TopicNotFound for a topic that does not exist."""
    found = cluster.refresh(topics)
    return [TopicPartition(name, index) for name in sorted(found) for index in found[name].partitions]


def topics_matching(cluster: Cluster, pattern: str) -> list[str]:
    """The topics whose whole name matches the regular expression, without Kafka's internal ones."""
    wanted = re.compile(pattern)
    return sorted(t.name for t in cluster.refresh().values() if wanted.fullmatch(t.name) and not t.is_internal)


def earliest(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return _list_offsets(cluster, dict.fromkeys(partitions, EARLIEST), Isolation.READ_COMMITTED)


def earliest_local(cluster: Cluster, where: TopicPartition) -> int:
    """The first offset that lies with the leader. What is before it lies in tiered storage, which old brokers lack."""
    try:
        found = _list_offsets(cluster, {where: EARLIEST_LOCAL}, Isolation.READ_UNCOMMITTED, lowest=FIRST_WITH_TIERS)
    except Unsupported:
        found = earliest(cluster, [where])
    return found[where]


def latest(
    cluster: Cluster, partitions: Iterable[TopicPartition], isolation: Isolation = Isolation.READ_COMMITTED
) -> dict[TopicPartition, int]:
    """The end for a reader of this isolation: the last stable offset, or the high watermark."""
    return _list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation)


def at_times(
    cluster: Cluster, times_ms: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_COMMITTED
) -> dict[TopicPartition, int | None]:
    """The first offset at or after a time, for each partition; None if there is no such record."""
    found = _list_offsets(cluster, times_ms, isolation)
    return {where: None if offset == NOT_FOUND else offset for where, offset in found.items()}


def _list_offsets(
    cluster: Cluster,
    times_ms: Mapping[TopicPartition, int],
    isolation: Isolation,
    *,
    lowest: int = FIRST_WITH_ISOLATION,
) -> dict[TopicPartition, int]:
    """The offset of each partition's time, or of EARLIEST or LATEST, in the order that was asked."""
    retry = Retry("list offsets", cluster.settings)
    found: dict[TopicPartition, int] = {}
    while missing := {where: time_ms for where, time_ms in times_ms.items() if where not in found}:
        reason: object = None
        by_leader: dict[Address, dict[TopicPartition, int]] = {}
        try:
            for where, time_ms in missing.items():
                by_leader.setdefault(cluster.leader_address(*where), {})[where] = time_ms
            for address, wanted in by_leader.items():
                fields = _fields(wanted, isolation)
                answer = cluster.connect(address).call(LIST_OFFSETS, fields, lowest=lowest)
                reason = _sort(cluster, answer, found) or reason
        except ConnectionLost as error:
            reason = error
        if reason is not None:
            for topic, _ in missing:
                cluster.forget_topic(topic)
            retry.wait(reason)
    return {where: found[where] for where in times_ms}


def _fields(wanted: Mapping[TopicPartition, int], isolation: Isolation) -> dict[str, object]:
    entries = (
        (topic, {"partition_index": partition, "timestamp": time_ms}) for (topic, partition), time_ms in wanted.items()
    )
    return {"replica_id": -1, "isolation_level": isolation, "topics": by_topic(entries)}


def _sort(cluster: Cluster, answer: Message, found: dict[TopicPartition, int]) -> ErrorCode | None:
    """Keep what was found. Returns a code if a partition must be asked again."""
    again = None
    for topic in answer.topics:
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.partition_index)
            code = known_code(partition.error_code)
            if code in LEADER_MOVED or code in BUSY:
                again = code
            elif code:
                raise cluster.refusal(LIST_OFFSETS, code, where.topic, f"offsets of {where}")
            else:
                found[where] = partition.offset
    return again
