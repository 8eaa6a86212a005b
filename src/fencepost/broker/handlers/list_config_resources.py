"""ListConfigResources (74): the resources that have settings. Version 0: only client metrics, none of which exist."""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.config_resources import ResourceType
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode


@handler(74, versions=(0, 1))
def list_config_resources(call: Call) -> Response:
    if not call.may(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER):
        return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "config_resources": []}
    broker = call.broker
    wanted = set(call.request.resource_types) or (set(ResourceType) if call.version else set())
    if not wanted <= set(ResourceType):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "config_resources": []}
    names = {
        ResourceType.BROKER_LOGGER: [str(broker.node_id)],
        ResourceType.BROKER: [str(broker.node_id)],
        ResourceType.TOPIC: [topic.name for topic in broker.topics.all()],
    }
    return {
        "error_code": ErrorCode.NONE,
        "config_resources": [
            {"resource_name": name, "resource_type": kind} for kind in names if kind in wanted for name in names[kind]
        ],
    }
