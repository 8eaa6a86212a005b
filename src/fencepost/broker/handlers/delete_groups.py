"""DeleteGroups (42): remove groups that have no members, with their offsets. Answered when durable."""

from fencepost.broker.dispatch import Call, Response, handler


@handler(42, versions=(0, 2))
async def delete_groups(call: Call) -> Response:
    results = [
        {"group_id": group_id, "error_code": await call.broker.groups.delete_group(group_id)}
        for group_id in dict.fromkeys(call.request.groups_names)
    ]
    return {"results": results}
