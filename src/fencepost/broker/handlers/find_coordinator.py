"""FindCoordinator (10): the coordinator of a group (type 0) or a transactional id (type 1). It is always this node.

Version 4 asks for many keys at once. The answer is then in `coordinators` instead of the top level.
"""

from fencepost.broker.acl import Operation, Resource, refusal
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import DONE, refused
from fencepost.errors import ErrorCode

FIRST_BATCHED = 4
GROUP, TRANSACTION = 0, 1


@handler(10, versions=(0, 6))
def find_coordinator(call: Call) -> Response:
    request = call.request
    if call.version >= FIRST_BATCHED:
        return {"coordinators": [{"key": key, **_find(call, key)} for key in request.coordinator_keys]}
    return _find(call, request.key)


def _find(call: Call, key: str) -> dict[str, object]:
    kind = call.request.key_type
    if kind not in (GROUP, TRANSACTION):
        message = "share groups are not offered" if kind == 2 else f"unknown coordinator type {kind}"
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message, "node_id": -1, "port": -1}
    resource = Resource.GROUP if kind == GROUP else Resource.TRANSACTIONAL_ID
    if not call.may(Operation.DESCRIBE, resource, key):
        return {**refused(refusal(resource)), "node_id": -1, "host": "", "port": -1}
    address = call.session.listener.advertised
    return {**DONE, "node_id": call.broker.node_id, "host": address.host, "port": address.port}
