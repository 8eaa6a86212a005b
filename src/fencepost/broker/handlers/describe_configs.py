"""DescribeConfigs (32): the effective settings of topics, the broker and its loggers, and where each value comes from.

No keys, or an empty list of them, asks for all. Version 3 brought types and documentation.
"""

from typing import Any

from fencepost.broker import config_resources
from fencepost.broker.acl import Operation
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.settings import Described
from fencepost.errors import KafkaError
from fencepost.setting import Kind


@handler(32, versions=(1, 4))
def describe_configs(call: Call) -> Response:
    return {"results": [_resource(call, resource) for resource in call.request.resources]}


def _resource(call: Call, resource: Any) -> dict[str, Any]:
    result = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        config_resources.require(call, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
        described = config_resources.describe(call.broker, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        return result | {"error_code": error.code, "error_message": error.message}
    keys = resource.configuration_keys
    return result | {"configs": [_config(call.request, entry) for entry in described if not keys or entry.name in keys]}


def _config(request: Any, entry: Described) -> dict[str, Any]:
    synonyms = entry.synonyms if request.include_synonyms else ()
    is_secret = entry.kind is Kind.PASSWORD
    return {
        "name": entry.name,
        "value": None if is_secret else entry.value,
        "is_sensitive": is_secret,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "synonyms": [
            {"name": found.name, "value": None if is_secret else found.value, "source": found.source}
            for found in synonyms
        ],
        "config_type": entry.kind or 0,
        "documentation": entry.doc if request.include_documentation else None,
    }
