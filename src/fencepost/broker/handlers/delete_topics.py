"""DeleteTopics (20): delete topics with all their records, from version 6 on also by id.

Unlike in Kafka, the topics of the coordinators cannot be deleted: transactions and groups live in them.
"""

from collections import Counter
from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import attempt, refused
from fencepost.broker.topics import Topic
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.messages import NULL_UUID


@handler(20, versions=(1, 6))
def delete_topics(call: Call) -> Response:
    request = call.request
    asked = [(topic.name, topic.topic_id) for topic in request.topics]
    asked += [(name, NULL_UUID) for name in request.topic_names]
    responses: list[dict[str, Any]] = []
    found: list[Topic] = []
    may_delete_all = call.may(Operation.DELETE, Resource.CLUSTER, quietly=True)
    for (name, topic_id), times in Counter(asked).items():
        try:
            if times > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
            if not may_delete_all:
                _check_rights(call, name, topic_id)
            found.append(_find(call, name, topic_id))
        except KafkaError as error:
            known = name if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED else _disclosed(call, name, topic_id)
            responses.append({"name": known, "topic_id": topic_id, **refused(error)})
    times_found = Counter(topic.name for topic in found)
    doomed = [topic for topic in found if times_found[topic.name] == 1]
    for topic in {topic.name: topic for topic in found if times_found[topic.name] > 1}.values():
        problem = "The provided topic name maps to an ID that was already supplied."
        refusal = refused(KafkaError(ErrorCode.INVALID_REQUEST, problem))
        responses.append({"name": topic.name, "topic_id": topic.id, **refusal})
    if doomed:
        outcome = attempt(lambda: call.broker.topics.delete_all([topic.name for topic in doomed]))
        responses += [{"name": topic.name, "topic_id": topic.id, **outcome} for topic in doomed]
    return {"responses": responses}


def _check_rights(call: Call, name: str | None, topic_id: bytes) -> None:
    """Who may not even describe a topic is not told whether one of that name exists."""
    if name is not None:
        call.require(Operation.DESCRIBE, Resource.TOPIC, name)
    topic = call.broker.topics.by_id(topic_id) if name is None else call.broker.topics.get(name)
    if topic is not None:
        call.require(Operation.DELETE, Resource.TOPIC, topic.name)


def _disclosed(call: Call, name: str | None, topic_id: bytes) -> str | None:
    """The name to answer with: of a topic that was given by its id only if the client may describe it."""
    topic = call.broker.topics.by_id(topic_id)
    if name is None and topic is not None and call.may(Operation.DESCRIBE, Resource.TOPIC, topic.name, quietly=True):
        return topic.name
    return name


def _find(call: Call, name: str | None, topic_id: bytes) -> Topic:
    """A topic that may be deleted."""
    broker = call.broker
    if not broker.settings.delete_topic_enable:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED if call.version >= 3 else ErrorCode.INVALID_REQUEST,
            "Topic deletion is disabled.",
        )
    if name is not None and topic_id != NULL_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and topic_id == NULL_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = broker.topics.by_id(topic_id) if name is None else broker.topics.get(name)
    if topic is None and name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if topic.internal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic.name} holds the state of a coordinator.")
    return topic
