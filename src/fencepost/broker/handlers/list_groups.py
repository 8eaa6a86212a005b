"""ListGroups (16): every group, or those in some states (from version 4) or of some types (from version 5).

Filters are compared without regard to case; an empty one lets everything through. All groups here are of type classic.
Who may not describe the cluster sees the groups that they may describe.
"""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode

GROUP_TYPE = "classic"


@handler(16, versions=(0, 5))
def list_groups(call: Call) -> Response:
    states = {state.lower() for state in call.request.states_filter}
    types = {kind.lower() for kind in call.request.types_filter}
    listed = call.broker.groups.describe_all() if not types or GROUP_TYPE in types else []
    if not call.may(Operation.DESCRIBE, Resource.CLUSTER, quietly=True):
        listed = [
            group for group in listed if call.may(Operation.DESCRIBE, Resource.GROUP, group.group_id, quietly=True)
        ]
    return {
        "error_code": ErrorCode.NONE,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": GROUP_TYPE,
            }
            for group in listed
            if not states or group.state.lower() in states
        ],
    }
