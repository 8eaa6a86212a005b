"""DescribeTopicPartitions (75): topics by name, one page at a time; a cursor marks the next page."""

from typing import Any

from fencepost.broker.acl import NOT_ASKED, Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.handlers.metadata import led_partitions
from fencepost.broker.topic_names import validate
from fencepost.errors import ErrorCode, KafkaError


@handler(75, versions=(0, 0))
def describe_topic_partitions(call: Call) -> Response:
    request, topics = call.request, call.broker.topics
    asked = sorted({entry.name for entry in request.topics})
    cursor = request.cursor
    names = [
        name
        for name in asked or sorted(topic.name for topic in topics.all())
        if (cursor is None or name >= cursor.topic_name)
        and call.may(Operation.DESCRIBE, Resource.TOPIC, name, quietly=not asked)
    ]
    denied = [] if cursor is not None else sorted(set(asked).difference(names))  # they are on the first page
    hidden = [_unknown(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, NOT_ASKED) for name in denied]
    left = min(request.response_partition_limit, call.broker.settings.max_request_partition_size_limit)
    if left < 1 or (cursor is not None and cursor.partition_index < 0):
        return {"topics": [_unknown(name, ErrorCode.INVALID_REQUEST, NOT_ASKED) for name in names]}
    described: list[dict[str, Any]] = []
    for name in names:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left == 0:
            return _page(described + hidden, name, first)
        topic = _describe(call, name, first, left)
        described.append(topic)
        count = len(topic.get("partitions", ()))
        left -= count
        shown = first + count
        known = topics.get(name)
        if known is not None and shown < known.partitions:
            return _page(described + hidden, name, shown)
    return {"topics": described + hidden, "next_cursor": None}


def _page(described: list[dict[str, Any]], name: str, partition: int) -> Response:
    return {"topics": described, "next_cursor": {"topic_name": name, "partition_index": partition}}


def _describe(call: Call, name: str, first: int, limit: int) -> dict[str, Any]:
    topic, operations = call.broker.topics.get(name), call.operations(Resource.TOPIC, name)
    if topic is None:
        try:
            validate(name)
        except KafkaError as error:
            return _unknown(name, error.code, operations)
        return _unknown(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, operations)
    return {
        "name": name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [
            {**partition, "eligible_leader_replicas": [], "last_known_elr": []}
            for partition in led_partitions(call.broker.node_id, range(first, min(topic.partitions, first + limit)))
        ],
        "topic_authorized_operations": operations,
    }


def _unknown(name: str, code: ErrorCode, operations: int) -> dict[str, Any]:
    return {"error_code": code, "name": name, "topic_authorized_operations": operations}
