"""Metadata (3): the brokers, the topics and their leaders. Creates unknown topics if that is allowed.

An empty list asks for all topics in version 0, null does in later ones. Version 10 brought topic ids. Version 12 can
ask for a topic by its id alone.
"""

from collections.abc import Iterable
from typing import Any

from fencepost.broker import topic_names
from fencepost.broker.acl import NOT_ASKED, Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.topics import Topic
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import INTERNAL_TOPICS


@handler(3, versions=(0, 13))
def metadata(call: Call) -> Response:
    broker, request = call.broker, call.request
    wanted, address = request.topics, call.session.listener.advertised
    if wanted is None or (call.version == 0 and not wanted):
        topics = [
            _describe(call, topic)
            for topic in broker.topics.all()
            if call.may(Operation.DESCRIBE, Resource.TOPIC, topic.name, quietly=True)
        ]
    else:
        names = [entry.name for entry in wanted if entry.name is not None]
        refused = {
            name: ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for name in names
            if not call.may(Operation.DESCRIBE, Resource.TOPIC, name)
        }
        refused |= _create_on_sight(call, [name for name in names if name not in refused])
        topics = [_find(call, entry.name, entry.topic_id, refused) for entry in wanted]
    cluster_operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        cluster_operations = call.operations(Resource.CLUSTER) if call.may(Operation.DESCRIBE, Resource.CLUSTER) else 0
    return {
        "brokers": [
            {
                "node_id": broker.node_id,
                "host": address.host,
                "port": address.port,
                "rack": broker.settings.broker_rack,
            }
        ],
        "cluster_id": broker.topics.cluster_id,
        "controller_id": broker.node_id,
        "topics": topics,
        "cluster_authorized_operations": cluster_operations,
    }


def _describe(call: Call, topic: Topic) -> dict[str, Any]:
    asked = call.request.include_topic_authorized_operations
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": led_partitions(call.broker.node_id, range(topic.partitions)),
        "topic_authorized_operations": call.operations(Resource.TOPIC, topic.name) if asked else NOT_ASKED,
    }


def led_partitions(node_id: int, indexes: Iterable[int]) -> list[dict[str, Any]]:
    """Partitions that this broker leads, as its only replica."""
    here = [node_id]
    return [
        {"partition_index": index, "leader_id": node_id, "leader_epoch": 0, "replica_nodes": here, "isr_nodes": here}
        for index in indexes
    ]


def _find(call: Call, name: str | None, topic_id: bytes, refused: dict[str, ErrorCode]) -> dict[str, Any]:
    topics = call.broker.topics
    topic = topics.by_id(topic_id) if name is None else topics.get(name)
    if topic is not None and name is None and not call.may(Operation.DESCRIBE, Resource.TOPIC, topic.name):
        return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name": None, "topic_id": topic_id}
    if topic is not None and name not in refused:
        return _describe(call, topic)
    if name is None:
        unnamed = None if call.version >= 12 else ""
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": unnamed, "topic_id": topic_id}
    return {"error_code": refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "name": name}


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
            if allowed and not call.may(Operation.CREATE, Resource.CLUSTER, quietly=True):
                call.require(Operation.CREATE, Resource.TOPIC, name)
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
