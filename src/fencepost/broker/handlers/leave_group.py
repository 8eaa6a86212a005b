"""LeaveGroup (13): remove members from a group. Up to version 2 one, by its id. From version 3 several, and static ones
by their instance id alone, as administrators do."""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.coordinator.group.requests import Leaver
from fencepost.errors import KafkaError

FIRST_BATCHED = 3


@handler(13, versions=(0, 5))
async def leave_group(call: Call) -> Response:
    request = call.request
    is_batched = call.version >= FIRST_BATCHED
    if is_batched:
        leavers = [Leaver(entry.member_id, entry.group_instance_id) for entry in request.members]
    else:
        leavers = [Leaver(request.member_id)]
    try:
        call.require(Operation.READ, Resource.GROUP, request.group_id)
        codes = await call.broker.groups.leave(request.group_id, leavers)
    except KafkaError as error:
        return {"error_code": error.code}
    if not is_batched:
        return {"error_code": codes[0]}
    return {
        "members": [
            {"member_id": leaver.member_id, "group_instance_id": leaver.instance_id, "error_code": code}
            for leaver, code in zip(leavers, codes, strict=True)
        ]
    }
