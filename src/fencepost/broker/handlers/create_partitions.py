"""CreatePartitions (37): add partitions to topics, or only check whether that is possible."""

from collections import Counter
from functools import partial
from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import attempt
from fencepost.broker.placement import check_replicas, check_request_size
from fencepost.errors import ErrorCode, KafkaError


@handler(37, versions=(0, 3))
def create_partitions(call: Call) -> Response:
    times = Counter(wanted.name for wanted in call.request.topics)
    wanted = {topic.name: topic for topic in call.request.topics}
    return {
        "results": [
            {"name": name, **attempt(partial(_grow, call, topic, times[name]))} for name, topic in wanted.items()
        ]
    }


def _grow(call: Call, wanted: Any, times: int) -> None:
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    call.require(Operation.ALTER, Resource.TOPIC, wanted.name)
    broker = call.broker
    topic = broker.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.count == topic.partitions:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partitions} partition(s).")
    if wanted.count < topic.partitions:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {topic.partitions} partition(s); "
            f"{wanted.count} would not be an increase.",
        )
    added = wanted.count - topic.partitions
    check_request_size(added)
    if topic.internal:
        # Groups and transactional ids are found by hash over the number of partitions.
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic.name} holds the state of a coordinator.")
    if wanted.assignments is not None:
        if len(wanted.assignments) != added:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified.",
            )
        for assignment in wanted.assignments:
            check_replicas(assignment.broker_ids, broker.node_id)
    if not call.request.validate_only:
        broker.topics.add_partitions(topic.name, wanted.count)
