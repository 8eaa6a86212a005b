"""Metadata (3): the brokers, the topics and their leaders. Creates unknown topics if that is allowed.

Version 0 means "all topics" by an empty list, later ones by null. Version 10 brought topic ids, 12 the search by id
alone.
"""

from typing import Any

from fencepost.broker import topic_names
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.topics import Topic
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.messages import NULL_UUID
from fencepost.wire.terms import INTERNAL_TOPICS

NO_AUTHORIZED_OPERATIONS = -2147483648


@handler(3, versions=(0, 13))
def metadata(call: Call) -> Response:
    broker, request = call.broker, call.request
    wanted = request.topics
    if wanted is None or (call.version == 0 and not wanted):
        topics = [describe(broker.node_id, topic) for topic in broker.topics.all()]
    else:
        refused = _create_on_sight(call, [entry.name for entry in wanted if entry.name is not None])
        topics = [_find(call, entry.name, entry.topic_id, refused) for entry in wanted]
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


def _find(call: Call, name: str | None, topic_id: bytes, refused: dict[str, ErrorCode]) -> dict[str, Any]:
    broker = call.broker
    if name is None:
        topic = broker.topics.by_id(topic_id)
        if topic is None:
            return _unknown(None if call.version >= 12 else "", topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return describe(broker.node_id, topic)
    topic = broker.topics.get(name)
    if topic is None:
        return _unknown(name, NULL_UUID, refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return describe(broker.node_id, topic)


def _create_on_sight(call: Call, names: list[str]) -> dict[str, ErrorCode]:
    """Make the missing topics with one sync of the disk. Gives an error code for each that was refused."""
    broker = call.broker
    allowed = call.request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
    refused = {}
    new = {}
    for name in names:
        if broker.topics.get(name) is not None:
            continue
        try:
            topic_names.validate(name)
            if allowed and name in INTERNAL_TOPICS:
                broker.topics.ensure_internal(name)
            elif allowed:
                broker.topics.check_new(name, {})
                new[name] = broker.topics.new(name, broker.settings.num_partitions, {})
        except KafkaError as error:
            refused[name] = error.code
    if new:
        try:
            broker.topics.create_all(new.values())
        except KafkaError as error:
            refused.update(dict.fromkeys(new, error.code))
    return refused


def _unknown(name: str | None, topic_id: bytes, code: ErrorCode) -> dict[str, Any]:
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": []}
