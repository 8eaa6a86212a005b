"""DescribeGroups (15): a group's state, and its members with their subscriptions and assignments.

A group that does not exist is Dead. From version 6 on the answer also has GROUP_ID_NOT_FOUND.
"""

from typing import Any

from fencepost.broker.acl import NOT_ASKED, Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode

FIRST_WITH_MISSING_GROUP = 6


@handler(15, versions=(0, 6))
def describe_groups(call: Call) -> Response:
    return {"groups": [_describe(call, group_id) for group_id in call.request.groups]}


def _describe(call: Call, group_id: str) -> dict[str, Any]:
    if not call.may(Operation.DESCRIBE, Resource.GROUP, group_id):
        return {"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED, "group_id": group_id}
    described = call.broker.groups.describe(group_id)
    if described is None:
        is_error = call.version >= FIRST_WITH_MISSING_GROUP
        return {
            "error_code": ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
            "error_message": f"Group {group_id} not found.",
            "group_id": group_id,
            "group_state": "Dead",
        }
    asked = call.request.include_authorized_operations
    return {
        "error_code": ErrorCode.NONE,
        "group_id": group_id,
        "group_state": described.state,
        "protocol_type": described.protocol_type,
        "protocol_data": described.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in described.members
        ],
        "authorized_operations": call.operations(Resource.GROUP, group_id) if asked else NOT_ASKED,
    }
