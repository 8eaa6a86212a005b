"""AlterConfigs (33): replace all settings of resources. Clients have used the incremental form since 2019."""

from collections import Counter
from functools import partial
from typing import Any

from fencepost.broker import config_resources
from fencepost.broker.acl import Operation
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import attempt
from fencepost.errors import ErrorCode, KafkaError


@handler(33, versions=(0, 2))
def alter_configs(call: Call) -> Response:
    return {"responses": altered(call, _replace)}


def _replace(call: Call, resource: Any) -> None:
    values = {entry.name: entry.value for entry in resource.configs}
    config_resources.replace(
        call.broker, resource.resource_type, resource.resource_name, values, validate_only=call.request.validate_only
    )


def altered(call: Call, change: Any) -> list[dict[str, Any]]:
    """Run `change` on every resource of a request. A resource or a setting that comes twice is refused."""
    resources = call.request.resources
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)

    def alter(resource: Any) -> None:
        if times[resource.resource_type, resource.resource_name] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        if len({entry.name for entry in resource.configs}) < len(resource.configs):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        config_resources.require(call, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
        change(call, resource)

    return [
        {"resource_type": each.resource_type, "resource_name": each.resource_name, **attempt(partial(alter, each))}
        for each in resources
    ]
