"""DescribeClientQuotas (48): there are no quotas. `kafka-configs --describe` of a user asks for them, too."""

from fencepost.broker.acl import Operation, Resource, refusal
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import refused
from fencepost.errors import ErrorCode


@handler(48, versions=(0, 1))
def describe_client_quotas(call: Call) -> Response:
    if not call.may(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER):
        return {**refused(refusal(Resource.CLUSTER)), "entries": None}
    return {"error_code": ErrorCode.NONE, "error_message": None, "entries": []}
