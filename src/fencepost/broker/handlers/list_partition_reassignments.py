"""ListPartitionReassignments (46): with one broker nothing is ever on the move."""

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode


@handler(46, versions=(0, 0))
def list_partition_reassignments(call: Call) -> Response:
    return {"error_code": ErrorCode.NONE, "error_message": None, "topics": []}
