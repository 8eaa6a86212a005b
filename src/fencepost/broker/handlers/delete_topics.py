"""DeleteTopics (20): remove topics with all of their records. From version 6 on they may be named by id.

The topics of the coordinators cannot be deleted (Kafka lets its users): transactions and groups live in them.
"""

from collections import Counter
from typing import Any

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.messages import NULL_UUID


@handler(20, versions=(1, 6))
def delete_topics(call: Call) -> Response:
    request, topics = call.request, call.broker.topics
    asked = [(topic.name, topic.topic_id) for topic in request.topics]
    asked += [(name, NULL_UUID) for name in request.topic_names]
    times = Counter(asked)
    named = {name for name, topic_id in asked if name is not None and topic_id == NULL_UUID}
    results: dict[tuple[str | None, bytes], dict[str, Any]] = {}
    doomed: list[str] = []
    for name, topic_id in times:
        try:
            if times[name, topic_id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
            found, found_id = _find(call, name, topic_id)
            if name is None and found in named:
                # Asked for twice, by name and by id: refused once.
                named.discard(found)
                results.pop((found, NULL_UUID), None)
                doomed = [other for other in doomed if other != found]
                error = KafkaError(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
                results[found, found_id] = _result(found, found_id, error)
                continue
            doomed.append(found)
            results[name, topic_id] = _result(found, found_id)
        except KafkaError as error:
            results[name, topic_id] = _result(name, topic_id, error)
    try:
        if doomed:
            topics.delete_all(doomed)
    except KafkaError as error:
        return {"responses": [_result(name, NULL_UUID, error) for name in doomed]}
    return {"responses": list(results.values())}


def _find(call: Call, name: str | None, topic_id: bytes) -> tuple[str, bytes]:
    """Name and id of a topic that may be deleted."""
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
    return topic.name, topic.id


def _result(name: str | None, topic_id: bytes, error: KafkaError | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message or None,
    }
