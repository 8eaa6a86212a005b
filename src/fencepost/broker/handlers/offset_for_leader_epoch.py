"""OffsetForLeaderEpoch (23): where an epoch ended, so that a reader can find out whether its log was truncated
(KIP-320).
"""

from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.leadership import check_leader_epoch
from fencepost.errors import ErrorCode, KafkaError


@handler(23, versions=(2, 4))
def offset_for_leader_epoch(call: Call) -> Response:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_answer(call, topic.topic, asked) for asked in topic.partitions]}
            for topic in call.request.topics
        ]
    }


def _answer(call: Call, topic: str, asked: Any) -> dict[str, Any]:
    try:
        if not call.may(Operation.CLUSTER_ACTION, Resource.CLUSTER, quietly=True):
            call.require(Operation.DESCRIBE, Resource.TOPIC, topic)
        log = call.broker.topics.existing_log(topic, asked.partition)
        check_leader_epoch(log, asked.current_leader_epoch)
    except KafkaError as error:
        return {"error_code": error.code, "partition": asked.partition}
    epoch, end_offset = log.end_offset_for_epoch(asked.leader_epoch)
    return {"error_code": ErrorCode.NONE, "partition": asked.partition, "leader_epoch": epoch, "end_offset": end_offset}
