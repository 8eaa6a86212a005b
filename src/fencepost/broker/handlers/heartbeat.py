"""Heartbeat (12): a member is alive; it learns that the group rebalances. Static members name themselves from version
3."""

from fencepost.broker.dispatch import Call, Response, handler


@handler(12, versions=(0, 4))
def heartbeat(call: Call) -> Response:
    request = call.request
    error = call.broker.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return {"error_code": error}
