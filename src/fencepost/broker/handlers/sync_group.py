"""SyncGroup (14): the leader sends the assignments, every member gets its own. Answered when the leader has sent them.

From version 5 on the member says which protocol it believes the group has chosen, so that a mistake is noticed.
"""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, OnDisconnect, Response, handler
from fencepost.coordinator.group.requests import SyncRequest
from fencepost.errors import ErrorCode, KafkaError

FIRST_WITH_PROTOCOL = 5


@handler(14, versions=(0, 5), on_disconnect=OnDisconnect.CANCEL)
async def sync_group(call: Call) -> Response:
    request = call.request
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= FIRST_WITH_PROTOCOL and not names_protocol:
        return {"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    wanted = SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={entry.member_id: entry.assignment for entry in request.assignments},
    )
    try:
        call.require(Operation.READ, Resource.GROUP, request.group_id)
        synced = await call.broker.groups.sync(wanted)
    except KafkaError as error:
        return {"error_code": error.code}
    return {
        "error_code": ErrorCode.NONE,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol,
        "assignment": synced.assignment,
    }
