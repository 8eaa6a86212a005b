"""DescribeCluster (60): the cluster and its one broker. Version 1 can ask for controllers, which have no endpoint."""

from fencepost.broker.acl import NOT_ASKED, Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode

BROKERS, CONTROLLERS = 1, 2


@handler(60, versions=(0, 2))
def describe_cluster(call: Call) -> Response:
    broker, request = call.broker, call.request
    if request.endpoint_type == CONTROLLERS:
        problem = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return {"error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE, "error_message": problem}
    if request.endpoint_type != BROKERS:
        problem = f"Unsupported endpoint type {request.endpoint_type}"
        return {"error_code": ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "error_message": problem}
    asked = request.include_cluster_authorized_operations
    operations = NOT_ASKED
    if asked:
        operations = call.operations(Resource.CLUSTER) if call.may(Operation.DESCRIBE, Resource.CLUSTER) else 0
    rack, address = broker.settings.broker_rack, call.session.listener.advertised
    return {
        "error_code": ErrorCode.NONE,
        "cluster_id": broker.topics.cluster_id,
        "controller_id": broker.node_id,
        "brokers": [
            {
                "broker_id": broker.node_id,
                "host": address.host,
                "port": address.port,
                "rack": rack,
            }
        ],
        "cluster_authorized_operations": operations,
    }
