"""DescribeQuorum (55): this broker is its own controller, and the only voter.

An offset of the metadata log is the number of a line in the catalogue.
"""

from typing import Any

from fencepost.broker.acl import Operation, Resource, refusal
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import DONE, refused
from fencepost.broker.topic_names import CLUSTER_METADATA
from fencepost.errors import ErrorCode, KafkaError


@handler(55, versions=(0, 2))
def describe_quorum(call: Call) -> Response:
    if not call.may(Operation.DESCRIBE, Resource.CLUSTER):
        return refused(refusal(Resource.CLUSTER))
    broker = call.broker
    topics = [
        {
            "topic_name": topic.topic_name,
            "partitions": [_partition(call, topic.topic_name, wanted.partition_index) for wanted in topic.partitions],
        }
        for topic in call.request.topics
    ]
    answered = any(partition["error_code"] is ErrorCode.NONE for topic in topics for partition in topic["partitions"])
    listeners = [
        {"name": each.name, "host": each.advertised.host, "port": each.advertised.port} for each in broker.listeners
    ]
    nodes = [{"node_id": broker.node_id, "listeners": listeners}] if answered else []
    return {**DONE, "topics": topics, "nodes": nodes}


def _partition(call: Call, topic: str, partition: int) -> dict[str, Any]:
    broker = call.broker
    if topic != CLUSTER_METADATA or partition != 0:
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return {"partition_index": partition, **refused(unknown)}
    now_ms = broker.clock.now_ms()
    voter = {
        "replica_id": broker.node_id,
        "replica_directory_id": broker.topics.identity.directory_id,
        "log_end_offset": broker.topics.catalogue.line_count,
        "last_fetch_timestamp": now_ms,
        "last_caught_up_timestamp": now_ms,
    }
    return {
        "partition_index": partition,
        **DONE,
        "leader_id": broker.node_id,
        "high_watermark": voter["log_end_offset"],
        "current_voters": [voter],
    }
