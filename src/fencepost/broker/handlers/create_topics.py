"""CreateTopics (19): create topics, or only check whether that is possible. One sync of the disk per request.

From version 5 on the answer has the number of partitions and replicas and every setting in force, if the client may
describe them; from 7 on the id.
"""

from collections import Counter
from typing import Any

from fencepost.broker import topic_names
from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import DONE, refused
from fencepost.broker.placement import check_replicas, check_replication_factor, check_request_size
from fencepost.broker.topics import Topic
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.messages import NULL_UUID


@handler(19, versions=(2, 7))
def create_topics(call: Call) -> Response:
    request, topics = call.request, call.broker.topics
    times = Counter(wanted.name for wanted in request.topics)
    results: dict[str, dict[str, Any]] = {}
    new: list[Topic] = []
    spelled: set[str] = set()
    may_create_all = call.may(Operation.CREATE, Resource.CLUSTER, quietly=True)
    for wanted in request.topics:
        try:
            if times[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if wanted.name != topic_names.CLUSTER_METADATA and not may_create_all:
                call.require(Operation.CREATE, Resource.TOPIC, wanted.name)
            topic = _plan(call, wanted)
            if topic_names.collision_key(topic.name) in spelled:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with another")
            spelled.add(topic_names.collision_key(topic.name))
            new.append(topic)
            results[topic.name] = _made(call, topic)
        except KafkaError as error:
            results[wanted.name] = {"name": wanted.name, **refused(error)}
    try:
        check_request_size(sum(topic.partitions for topic in new))
        if new and not request.validate_only:
            topics.create_all(new)
    except KafkaError as error:
        results |= {topic.name: {"name": topic.name, **refused(error)} for topic in new}
    return {"topics": list(results.values())}


def _plan(call: Call, wanted: Any) -> Topic:
    """The topic to create. KafkaError if it is refused."""
    broker = call.broker
    config = {entry.name: entry.value for entry in wanted.configs}
    broker.topics.check_new(wanted.name, config)
    if wanted.assignments:
        partitions = _assigned_partitions(wanted, broker.node_id)
    else:
        check_replication_factor(wanted.replication_factor)
        partitions = wanted.num_partitions
        if partitions == -1:
            partitions = broker.settings.num_partitions
        if partitions < 1:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
    return broker.topics.new(wanted.name, partitions, config)


def _assigned_partitions(wanted: Any, node_id: int) -> int:
    """How many partitions were placed by hand. KafkaError if they were placed wrongly."""
    for field, what in ((wanted.replication_factor, "replication factor"), (wanted.num_partitions, "numPartitions")):
        if field != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"A manual partition assignment was specified, but {what} was not set to -1."
            )
    seen: set[int] = set()
    for assignment in wanted.assignments:
        if assignment.partition_index in seen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        seen.add(assignment.partition_index)
        check_replicas(assignment.broker_ids, node_id)
    if seen != set(range(len(seen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return len(seen)


def _made(call: Call, topic: Topic) -> dict[str, Any]:
    made = {"name": topic.name, "topic_id": NULL_UUID if call.request.validate_only else topic.id, **DONE}
    if not call.may(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name, quietly=True):
        return {**made, "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    return {
        **made,
        "num_partitions": topic.partitions,
        "replication_factor": 1,
        "configs": [
            {"name": entry.name, "value": entry.value, "read_only": entry.read_only, "config_source": entry.source}
            for entry in call.broker.settings.describe_topic(topic.config)
        ],
    }
