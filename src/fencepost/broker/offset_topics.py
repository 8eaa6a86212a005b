"""The topics in requests about committed offsets: named or, in the latest versions, by id; which of them exist."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fencepost.coordinator.group.decide import Results
from fencepost.coordinator.group.requests import OffsetToCommit
from fencepost.errors import ErrorCode
from fencepost.wire.messages import NULL_UUID
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from fencepost.broker.topics import Topic, TopicRegistry


def find(topics: "TopicRegistry", entry: Any) -> "Topic | None":
    """The topic that an entry of a request speaks of."""
    return topics.get(entry.name) if entry.name else topics.by_id(getattr(entry, "topic_id", NULL_UUID))


def missing(entry: Any) -> ErrorCode:
    """What is said of a topic that was not found."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if entry.name else ErrorCode.UNKNOWN_TOPIC_ID


def names(entry: Any) -> dict[str, Any]:
    """The part of an answer that repeats what the request calls the topic."""
    if entry.name:
        return {"name": entry.name}
    return {"topic_id": entry.topic_id} if hasattr(entry, "topic_id") else {"name": ""}


def offsets_to_commit(topics: "TopicRegistry", entries: Iterable[Any]) -> list[OffsetToCommit]:
    """The commits among these for partitions that exist; `commit_answer` says of the others that they do not."""
    return [
        OffsetToCommit(
            TopicPartition(topic.name, part.partition_index),
            part.committed_offset,
            part.committed_leader_epoch,
            part.committed_metadata,
        )
        for entry in entries
        if (topic := find(topics, entry)) is not None
        for part in entry.partitions
        if 0 <= part.partition_index < topic.partitions
    ]


def commit_answer(
    topics: "TopicRegistry", entries: Iterable[Any], results: Results, error: ErrorCode = ErrorCode.NONE
) -> list[dict[str, Any]]:
    """The answer to a commit, in the order of the request. `error` is that of partitions without a result."""
    answer = []
    for entry in entries:
        topic = find(topics, entry)
        partitions = []
        for part in entry.partitions:
            index = part.partition_index
            if topic is None:
                code = missing(entry)
            elif not 0 <= index < topic.partitions:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                code = results.get(TopicPartition(topic.name, index), error)
            partitions.append({"partition_index": index, "error_code": code})
        answer.append({**names(entry), "partitions": partitions})
    return answer
