"""OffsetCommit (8): commit a group's offsets. Answered when durable.

Versions 2 to 4 may ask for a retention time of their own; 7 names static members; from 9 on a group that does not
exist is GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION; 10 names topics by id.
"""

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.offset_topics import commit_answer, offsets_to_commit
from fencepost.coordinator.group.requests import Identity
from fencepost.errors import ErrorCode, KafkaError

FIRST_WITH_MISSING_GROUP = 9


@handler(8, versions=(2, 10))
async def offset_commit(call: Call) -> Response:
    request, broker = call.request, call.broker
    offsets = offsets_to_commit(broker.topics, request.topics)
    results, failure = {}, ErrorCode.NONE
    if offsets:
        who = Identity(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
        try:
            results = await broker.groups.offsets.commit(
                request.group_id,
                who,
                offsets,
                retention_ms=request.retention_time_ms,
                knows_missing_group=call.version >= FIRST_WITH_MISSING_GROUP,
            )
        except KafkaError as error:
            failure = error.code
    return {"topics": commit_answer(broker.topics, request.topics, results, failure)}
