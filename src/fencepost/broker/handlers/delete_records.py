"""DeleteRecords (21): move the start of logs forward; -1 means up to the high watermark.

Answered once the new start is on the disk: what was deleted does not come back.
"""

from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import INTERNAL_TOPICS


@handler(21, versions=(0, 2))
def delete_records(call: Call) -> Response:
    topics = [
        {"name": topic.name, "partitions": [_delete(call, topic.name, wanted) for wanted in topic.partitions]}
        for topic in call.request.topics
    ]
    deleted = [each for topic in topics for each in topic["partitions"] if each["error_code"] is ErrorCode.NONE]
    if not deleted:  # a client that may delete nothing must not keep the disk busy
        return {"topics": topics}
    try:
        call.broker.topics.checkpoint()
    except KafkaError as error:
        for partition in deleted:
            partition |= {"low_watermark": -1, "error_code": error.code}
    return {"topics": topics}


def _delete(call: Call, topic: str, wanted: Any) -> dict[str, Any]:
    try:
        call.require(Operation.DELETE, Resource.TOPIC, topic)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}")
        log = call.broker.topics.existing_log(topic, wanted.partition_index)
        if not log.config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted: its records are not deleted by offset")
        low_watermark, code = log.delete_records(wanted.offset), ErrorCode.NONE
    except KafkaError as error:
        low_watermark, code = -1, error.code
    return {"partition_index": wanted.partition_index, "low_watermark": low_watermark, "error_code": code}
