"""What a group has committed.

Asked with `require_stable`: while a transaction that holds offsets of these partitions is open or being ended, the
answer is waited for. So what is read here cannot be overtaken by a commit that was already on its way.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.errors import ErrorCode, Refused
from fencepost.wire.codec import Message
from fencepost.wire.terms import TopicPartition

OFFSET_FETCH = 9
FIRST_WITH_REQUIRE_STABLE = 7
#: Version 10 names topics by id, and so says nothing of a topic that is gone.
LAST_WITH_NAMES = 9

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A position in a partition: the next record to be read, and what was noted beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def committed_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, CommittedOffset]:
    """Of these partitions, without those that have no commit."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in by_topic.items()]
    fields = {
        "group_id": group,
        "topics": topics,
        "groups": [{"group_id": group, "topics": topics}],
        "require_stable": True,
    }
    answer, code = cluster.call_coordinator(
        Coordinates.GROUP,
        group,
        OFFSET_FETCH,
        fields,
        _first_code,
        what=f"committed offsets of group {group!r}",
        lowest=FIRST_WITH_REQUIRE_STABLE,
        highest=LAST_WITH_NAMES,
    )
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if code:
        raise Refused(code, f"committed offsets of group {group!r}")
    return {
        TopicPartition(topic.name, partition.partition_index): CommittedOffset(
            partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
        )
        for topic in _entry(answer).topics
        for partition in topic.partitions
        if partition.committed_offset != NO_OFFSET
    }


def _entry(answer: Message) -> Message:
    """Before version 8 the answer is that of one group, as are the entries after it."""
    groups: list[Message] = answer.groups
    return groups[0] if groups else answer


def _first_code(answer: Message) -> int:
    entry = _entry(answer)
    codes = [entry.error_code, *(p.error_code for topic in entry.topics for p in topic.partitions)]
    return next((code for code in codes if code), 0)
