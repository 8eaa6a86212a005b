"""Metadata (3): the brokers, the topics and who leads their partitions. Creates topics on sight where that is allowed.

Version 0 means "all topics" by an empty list, later ones by null. Version 10 brought topic ids, 12 the search by id
alone.
"""

from typing import Any

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.topics import Topic
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.messages import NULL_UUID

NO_AUTHORIZED_OPERATIONS = -2147483648


@handler(3, versions=(0, 13))
def metadata(call: Call) -> Response:
    broker, request = call.broker, call.request
    wanted = request.topics
    if wanted is None or (call.version == 0 and not wanted):
        topics = [describe(broker.node_id, topic) for topic in broker.topics.all()]
    else:
        topics = [_find(call, entry.name, entry.topic_id) for entry in wanted]
    return {
        "brokers": [
            {"node_id": broker.node_id, "host": broker.host, "port": broker.port, "rack": broker.settings.broker_rack}
        ],
        "cluster_id": broker.topics.cluster_id,
        "controller_id": broker.node_id,
        "topics": topics,
    }


def describe(node_id: int, topic: Topic) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [
            {
                "error_code": ErrorCode.NONE,
                "partition_index": index,
                "leader_id": node_id,
                "leader_epoch": 0,
                "replica_nodes": [node_id],
                "isr_nodes": [node_id],
                "offline_replicas": [],
            }
            for index in range(topic.partitions)
        ],
        "topic_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }


def _find(call: Call, name: str | None, topic_id: bytes) -> dict[str, Any]:
    broker = call.broker
    if name is None:
        topic = broker.topics.by_id(topic_id)
        if topic is None:
            return _unknown(None if call.version >= 12 else "", topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return describe(broker.node_id, topic)
    topic = broker.topics.get(name)
    if topic is None:
        try:
            topic = _create_on_sight(call, name)
        except KafkaError as error:
            return _unknown(name, NULL_UUID, error.code)
    return describe(broker.node_id, topic)


def _create_on_sight(call: Call, name: str) -> Topic:
    broker = call.broker
    broker.topics.validate_name(name)
    if not (call.request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.topics.is_internal_name(name):
        return broker.topics.ensure_internal(name)
    return broker.topics.create(name, broker.settings.num_partitions, {})


def _unknown(name: str | None, topic_id: bytes, code: ErrorCode) -> dict[str, Any]:
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": []}
