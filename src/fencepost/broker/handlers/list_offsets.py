"""ListOffsets (2): the offset for a timestamp, or earliest, latest and the like. `read_committed` ends at the LSO.

-1 latest, -2 earliest, -3 the record with the largest timestamp (v7), -4 earliest local (v8), -5 latest tiered (v9),
-6 earliest pending upload (v11). There is no tiered storage here, so -4 is -2 and -5, -6 have no answer.
"""

from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.leadership import check_leader_epoch
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.partition import PartitionLog
from fencepost.log.reading import readable_end
from fencepost.wire.terms import Isolation

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
UNKNOWN: dict[str, int] = {}  #: each field is -1 unless it is given


@handler(2, versions=(1, 11))
def list_offsets(call: Call) -> Response:
    isolation = Isolation(min(1, max(0, call.request.isolation_level)))
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_answer(call, topic.name, partition, isolation) for partition in topic.partitions],
            }
            for topic in call.request.topics
        ]
    }


def _answer(call: Call, topic: str, partition: Any, isolation: Isolation) -> dict[str, Any]:
    index = partition.partition_index
    try:
        call.require(Operation.DESCRIBE, Resource.TOPIC, topic)
        log = call.broker.topics.existing_log(topic, index)
        check_leader_epoch(log, partition.current_leader_epoch)
        return {"partition_index": index, "error_code": ErrorCode.NONE, **_find(log, partition.timestamp, isolation)}
    except KafkaError as error:
        return {"partition_index": index, "error_code": error.code}


def _find(log: PartitionLog, timestamp: int, isolation: Isolation) -> dict[str, int]:
    if timestamp == LATEST:
        return {"timestamp": -1, "offset": readable_end(log, isolation), "leader_epoch": log.leader_epoch}
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return {"timestamp": -1, "offset": log.log_start_offset, "leader_epoch": log.leader_epoch}
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN
    if timestamp < MAX_TIMESTAMP:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"no special timestamp {timestamp}")
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset(isolation)
    else:
        found = log.offset_for_timestamp(timestamp, isolation)
    if found is None:
        return UNKNOWN
    offset, found_timestamp, leader_epoch = found
    return {"timestamp": found_timestamp, "offset": offset, "leader_epoch": leader_epoch}
