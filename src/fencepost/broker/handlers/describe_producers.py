"""DescribeProducers (61): the producers of a partition, and the start of their open transactions (KIP-664)."""

from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode


@handler(61, versions=(0, 0))
def describe_producers(call: Call) -> Response:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_describe(call, topic.name, index) for index in topic.partition_indexes],
            }
            for topic in call.request.topics
        ]
    }


def _describe(call: Call, topic: str, partition: int) -> dict[str, Any]:
    if not call.may(Operation.READ, Resource.TOPIC, topic):
        return {"partition_index": partition, "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    log = call.broker.topics.log(topic, partition)
    if log is None:
        return {"partition_index": partition, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    return {
        "partition_index": partition,
        "error_code": ErrorCode.NONE,
        "active_producers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.current_txn_start_offset,
            }
            for producer in log.active_producers()
        ],
    }
