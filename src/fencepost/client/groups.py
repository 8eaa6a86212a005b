"""A group's committed offsets.

Normally they are read with `require_stable`: waits while a transaction with offsets of these partitions is open or
ending. So no commit that is already under way can change the answer. Who only wants to show them does not wait.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.fields import by_topic
from fencepost.errors import ConfigError, ErrorCode, TopicNotFound
from fencepost.wire.codec import Message
from fencepost.wire.terms import TopicPartition

OFFSET_COMMIT, OFFSET_FETCH, DELETE_GROUPS = 8, 9, 42
FIRST_WITH_REQUIRE_STABLE = 7
#: Version 10 uses topic ids, so it cannot name a deleted topic.
LAST_WITH_NAMES = 9

NO_OFFSET = -1


class Pending(enum.Enum):
    """What to do about offsets in a transaction that has not ended."""

    AWAIT = enum.auto()
    IGNORE = enum.auto()  #: give those that are committed now


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A position in a partition: the next offset to read, and its metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def committed_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None, pending: Pending = Pending.AWAIT
) -> dict[TopicPartition, CommittedOffset]:
    """Of these partitions, or of all; without those that have no commit."""
    topics = None if partitions is None else by_topic(partitions, inside="partition_indexes")
    fields = {
        "group_id": group,
        "topics": topics,
        "groups": [{"group_id": group, "topics": topics}],
        "require_stable": pending is Pending.AWAIT,
    }
    answer, code = cluster.call_coordinator(
        Coordinates.GROUP,
        group,
        OFFSET_FETCH,
        fields,
        code_of=_first_code,
        what=f"committed offsets of group {group!r}",
        lowest=FIRST_WITH_REQUIRE_STABLE,
        highest=LAST_WITH_NAMES,
    )
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if code:
        name = _refused_topic(answer) if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else group
        raise cluster.refusal(OFFSET_FETCH, code, name, f"committed offsets of group {group!r}")
    return {
        TopicPartition(topic.name, partition.partition_index): CommittedOffset(
            partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
        )
        for topic in _entry(answer).topics
        for partition in topic.partitions
        if partition.committed_offset != NO_OFFSET
    }


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit them at once, as a consumer that is no member of its group. Raises ConfigError if the group has members.

    Raises TopicNotFound if a topic is gone; the others may have been committed then.
    """
    entries = (
        (topic, {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""})
        for (topic, partition), offset in offsets.items()
    )
    what = f"offsets of group {group!r}"
    answer, code = cluster.call_coordinator(
        Coordinates.GROUP,
        group,
        OFFSET_COMMIT,
        {"group_id": group, "member_id": "", "topics": by_topic(entries)},
        code_of=_first_partition_code,
        what=what,
        highest=LAST_WITH_NAMES,
    )
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
        raise ConfigError(f"group {group!r} has members ({code.name}): commit to a consumer group of its own")
    if not code:
        return
    refused = next(str(topic.name) for topic in answer.topics if any(p.error_code == code for p in topic.partitions))
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicNotFound(f"{what}: topic {refused!r} does not exist")
    name = refused if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else group
    raise cluster.refusal(OFFSET_COMMIT, code, name, what)


def delete_group(cluster: Cluster, group: str) -> bool:
    """Delete a group and its offsets. False if there is none."""
    _, code = cluster.call_coordinator(
        Coordinates.GROUP,
        group,
        DELETE_GROUPS,
        {"groups_names": [group]},
        code_of=lambda answer: int(answer.results[0].error_code),
        what=f"deleting group {group!r}",
    )
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return False
    if code:
        raise cluster.refusal(DELETE_GROUPS, code, group, f"group {group!r} cannot be deleted")
    return True


def _entry(answer: Message) -> Message:
    """Since version 8 the answer has an entry per group. Before, it is about one group."""
    groups: list[Message] = answer.groups
    return groups[0] if groups else answer


def _refused_topic(answer: Message) -> str:
    return next(str(topic.name) for topic in _entry(answer).topics if any(p.error_code for p in topic.partitions))


def _first_partition_code(answer: Message) -> int:
    return next((p.error_code for topic in answer.topics for p in topic.partitions if p.error_code), 0)


def _first_code(answer: Message) -> int:
    entry = _entry(answer)
    codes = [entry.error_code, *(p.error_code for topic in entry.topics for p in topic.partitions)]
    return next((code for code in codes if code), 0)
