"""IncrementalAlterConfigs (44): set, remove, append to or subtract from single settings, which take effect at once."""

from typing import Any

from fencepost.broker import config_resources
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.handlers.alter_configs import altered


@handler(44, versions=(0, 1))
def incremental_alter_configs(call: Call) -> Response:
    return {"responses": altered(call, _alter)}


def _alter(call: Call, resource: Any) -> None:
    changes = [(entry.name, entry.config_operation, entry.value) for entry in resource.configs]
    config_resources.alter(
        call.broker, resource.resource_type, resource.resource_name, changes, validate_only=call.request.validate_only
    )
