"""OffsetCommit (8): commit a group's offsets. Answered when durable.

Versions 2 to 4 have a retention time. Version 7 names static members. From version 9 on the error for a group that does
not exist is GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION. Version 10 names topics by id.
"""

from functools import partial

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.offset_topics import answer_commit, refuse_commit
from fencepost.coordinator.group.requests import Identity
from fencepost.errors import ErrorCode

FIRST_WITH_MISSING_GROUP = 9


@handler(8, versions=(2, 10))
async def offset_commit(call: Call) -> Response:
    request = call.request
    who = Identity(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    commit = partial(
        call.broker.groups.offsets.commit,
        request.group_id,
        who,
        retention_ms=request.retention_time_ms,
        knows_missing_group=call.version >= FIRST_WITH_MISSING_GROUP,
    )
    if not call.may(Operation.READ, Resource.GROUP, request.group_id):
        return refuse_commit(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return await answer_commit(call, request.topics, commit)
