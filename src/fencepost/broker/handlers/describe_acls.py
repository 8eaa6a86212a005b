"""DescribeAcls (29): there is no access control, and the answer says so, as Kafka does when no authorizer is set up."""

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode


@handler(29, versions=(1, 3))
def describe_acls(call: Call) -> Response:
    return {
        "error_code": ErrorCode.SECURITY_DISABLED,
        "error_message": "No Authorizer is configured on the broker",
        "resources": [],
    }
