"""Heartbeat (12): a member is alive, and learns about rebalances. Static members send their instance id (version 3)."""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode, KafkaError


@handler(12, versions=(0, 4))
def heartbeat(call: Call) -> Response:
    request = call.request
    try:
        call.require(Operation.READ, Resource.GROUP, request.group_id)
        call.broker.groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as error:
        return {"error_code": error.code}
    return {"error_code": ErrorCode.NONE}
