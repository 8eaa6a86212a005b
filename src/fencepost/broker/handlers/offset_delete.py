"""OffsetDelete (47): delete committed offsets of a group, unless a member subscribes to the topic."""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import TopicPartition


@handler(47, versions=(0, 0))
async def offset_delete(call: Call) -> Response:
    request, broker = call.request, call.broker
    if not request.group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID}
    if not call.may(Operation.DELETE, Resource.GROUP, request.group_id):
        return {"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    denied = {topic.name for topic in request.topics if not call.may(Operation.READ, Resource.TOPIC, topic.name)}
    wanted = [
        TopicPartition(topic.name, part.partition_index)
        for topic in request.topics
        if topic.name not in denied and broker.topics.get(topic.name) is not None
        for part in topic.partitions
    ]
    try:
        results = await broker.groups.offsets.delete(request.group_id, wanted)
    except KafkaError as error:
        return {"error_code": error.code}
    return {
        "error_code": ErrorCode.NONE,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED
                        if topic.name in denied
                        else results.get(
                            TopicPartition(topic.name, part.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    }
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }
