"""Requests without effect on a single broker: moving replicas, electing leaders.

Requests are checked as Kafka checks them, so that its tools report the same errors.
"""

from functools import partial
from typing import Any

from fencepost.broker.acl import Operation, Resource, refusal
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import DONE, attempt
from fencepost.broker.placement import check_replicas
from fencepost.errors import ErrorCode, KafkaError

PREFERRED, UNCLEAN = 0, 1


@handler(34, versions=(1, 2))
def alter_replica_log_dirs(call: Call) -> Response:
    """AlterReplicaLogDirs (34): there is one data directory, and every replica is in it already."""
    results: dict[str, list[dict[str, Any]]] = {}
    move = _move if call.may(Operation.ALTER, Resource.CLUSTER) else _deny
    for directory in call.request.dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, []).extend(
                {
                    "partition_index": index,
                    "error_code": attempt(partial(move, call, directory.path, topic.name, index))["error_code"],
                }
                for index in topic.partitions
            )
    return {"results": [{"topic_name": name, "partitions": found} for name, found in results.items()]}


def _deny(*_: object) -> None:
    raise refusal(Resource.CLUSTER)


def _move(call: Call, path: str, topic_name: str, partition: int) -> None:
    topics = call.broker.topics
    if path.rstrip("/") != str(topics.data_dir):
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND)
    topic = topics.get(topic_name)
    if topic is None or not topic.has(partition):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@handler(43, versions=(0, 2))
def elect_leaders(call: Call) -> Response:
    """ElectLeaders (43): one broker leads every partition, so no election is needed."""
    request = call.request
    if request.election_type not in (PREFERRED, UNCLEAN):
        return {"error_code": ErrorCode.INVALID_REQUEST, "replica_election_results": []}
    allowed = attempt(partial(call.require, Operation.ALTER, Resource.CLUSTER))
    results: list[dict[str, Any]]
    if request.topic_partitions is None:  # all partitions: only those that had an election are listed
        elected = call.broker.topics.all() if allowed is DONE else []
        results = [{"topic": topic.name, "partition_result": []} for topic in elected]
    else:
        results = [
            {
                "topic": entry.topic,
                "partition_result": [
                    {"partition_id": index, **(_elect(call, entry.topic, index) if allowed is DONE else allowed)}
                    for index in entry.partitions
                ],
            }
            for entry in request.topic_partitions
        ]
    return {"error_code": allowed["error_code"], "replica_election_results": results}


def _elect(call: Call, name: str, partition: int) -> dict[str, Any]:
    topic = call.broker.topics.get(name)
    if topic is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not topic.has(partition):
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition}"
    else:
        code, message = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return {"error_code": code, "error_message": message}


@handler(45, versions=(0, 1))
def alter_partition_reassignments(call: Call) -> Response:
    """AlterPartitionReassignments (45): partitions can be assigned to this broker only, where they are already."""
    request = call.request
    allowed = attempt(partial(call.require, Operation.ALTER, Resource.CLUSTER))
    reassign = _reassign if allowed is DONE else _deny
    return {
        **allowed,
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "responses": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": wanted.partition_index, **attempt(partial(reassign, call, topic.name, wanted))}
                    for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def _reassign(call: Call, name: str, wanted: Any) -> None:
    topic = call.broker.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not topic.has(wanted.partition_index):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    if wanted.replicas is None:  # cancel a reassignment
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(wanted.replicas, call.broker.node_id)


@handler(46, versions=(0, 0))
def list_partition_reassignments(call: Call) -> Response:
    """ListPartitionReassignments (46): with one broker nothing moves."""
    return attempt(partial(call.require, Operation.DESCRIBE, Resource.CLUSTER))
