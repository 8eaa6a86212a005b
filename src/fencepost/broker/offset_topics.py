"""The topics in requests about committed offsets: named or, in the latest versions, by id; which of them exist."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from fencepost.broker.acl import Operation
from fencepost.broker.topic_rights import may_topic
from fencepost.coordinator.group.decide import Results
from fencepost.coordinator.group.requests import OffsetToCommit
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.messages import NULL_UUID
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from fencepost.broker.dispatch import Call
    from fencepost.broker.topics import Topic, TopicRegistry


def find(topics: "TopicRegistry", entry: Any) -> "Topic | None":
    """The topic of an entry in a request, which gives its name or its id."""
    return topics.get(entry.name) if entry.name else topics.by_id(getattr(entry, "topic_id", NULL_UUID))


def missing(entry: Any) -> ErrorCode:
    """The error for a topic that was not found."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if entry.name else ErrorCode.UNKNOWN_TOPIC_ID


def names(entry: Any) -> dict[str, Any]:
    """The name or id of the topic, as the request gave it."""
    if entry.name:
        return {"name": entry.name}
    return {"topic_id": entry.topic_id} if hasattr(entry, "topic_id") else {"name": ""}


def refuse_commit(entries: Iterable[Any], code: ErrorCode) -> dict[str, Any]:
    """The same answer for all partitions."""
    return {
        "topics": [
            {
                **names(entry),
                "partitions": [
                    {"partition_index": part.partition_index, "error_code": code} for part in entry.partitions
                ],
            }
            for entry in entries
        ]
    }


def _offsets_to_commit(topics: "TopicRegistry", entries: Iterable[Any]) -> list[OffsetToCommit]:
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
        if topic.has(part.partition_index)
    ]


async def answer_commit(
    call: "Call", entries: Iterable[Any], commit: Callable[[list[OffsetToCommit]], Awaitable[Results]]
) -> dict[str, Any]:
    """Commit the offsets of partitions that exist and may be read; answer for all in the order of the request."""
    topics = call.broker.topics
    results: Results = {}
    error = ErrorCode.NONE
    denied = {
        id(entry)
        for entry in entries
        if not may_topic(call, Operation.READ, entry.name or getattr(entry, "topic_id", NULL_UUID))
    }
    offsets = _offsets_to_commit(topics, [entry for entry in entries if id(entry) not in denied])
    if offsets:
        try:
            results = await commit(offsets)
        except KafkaError as refusal:
            error = refusal.code
    answer = []
    for entry in entries:
        topic = find(topics, entry)
        partitions = []
        for part in entry.partitions:
            index = part.partition_index
            if id(entry) in denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None:
                code = missing(entry)
            elif not topic.has(index):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                code = results.get(TopicPartition(topic.name, index), error)
            partitions.append({"partition_index": index, "error_code": code})
        answer.append({**names(entry), "partitions": partitions})
    return {"topics": answer}
