"""AlterPartitionReassignments (45): partitions can be assigned to this broker, where they are; nothing ever moves."""

from typing import Any

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.placement import check_replicas
from fencepost.errors import ErrorCode, KafkaError


@handler(45, versions=(0, 1))
def alter_partition_reassignments(call: Call) -> Response:
    request = call.request
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "responses": [
            {"name": topic.name, "partitions": [_result(call, topic.name, wanted) for wanted in topic.partitions]}
            for topic in request.topics
        ],
    }


def _result(call: Call, name: str, wanted: Any) -> dict[str, Any]:
    code, message = ErrorCode.NONE, None
    try:
        _reassign(call, name, wanted)
    except KafkaError as error:
        code, message = error.code, error.message or None
    return {"partition_index": wanted.partition_index, "error_code": code, "error_message": message}


def _reassign(call: Call, name: str, wanted: Any) -> None:
    topic = call.broker.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= wanted.partition_index < topic.partitions:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    if wanted.replicas is None:  # cancel a reassignment
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(wanted.replicas, call.broker.node_id)
