"""DescribeClientQuotas (48): there are no quotas. `kafka-configs --describe` of a user asks for them, too."""

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode


@handler(48, versions=(0, 1))
def describe_client_quotas(call: Call) -> Response:
    return {"error_code": ErrorCode.NONE, "error_message": None, "entries": []}
