"""DeleteGroups (42): remove groups that have no members, with their offsets. Answered when durable."""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode, KafkaError


@handler(42, versions=(0, 2))
async def delete_groups(call: Call) -> Response:
    group_ids = dict.fromkeys(call.request.groups_names)
    return {"results": [{"group_id": group_id, "error_code": await _delete(call, group_id)} for group_id in group_ids]}


async def _delete(call: Call, group_id: str) -> ErrorCode:
    try:
        call.require(Operation.DELETE, Resource.GROUP, group_id)
        await call.broker.groups.delete_group(group_id)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
