"""DescribeConfigs (32): the effective settings of topics, the broker and its loggers, and where each value comes from.

No keys, or an empty list of them, asks for all. Version 3 brought types and documentation.
"""

from typing import Any

from fencepost.broker import config_resources
from fencepost.broker.config_resources import LOGGER_SOURCE, UNKNOWN_KIND, ResourceType
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.settings import Described
from fencepost.errors import ErrorCode, KafkaError


@handler(32, versions=(1, 4))
def describe_configs(call: Call) -> Response:
    return {"results": [_resource(call, resource) for resource in call.request.resources]}


def _resource(call: Call, resource: Any) -> dict[str, Any]:
    result = {
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [],
    }
    try:
        configs = _configs(call, resource)
    except KafkaError as error:
        return result | {"error_code": error.code, "error_message": error.message}
    keys = resource.configuration_keys
    return result | {"configs": [config for config in configs if not keys or config["name"] in keys]}


def _configs(call: Call, resource: Any) -> list[dict[str, Any]]:
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        levels = config_resources.describe_loggers(call.broker, resource.resource_name)
        return [_logger(name, level) for name, level in levels.items()]
    described = config_resources.describe(call.broker, resource.resource_type, resource.resource_name)
    return [_config(call.request, entry) for entry in described]


def _config(request: Any, entry: Described) -> dict[str, Any]:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": False,
        "synonyms": [{"name": found.name, "value": found.value, "source": found.source} for found in synonyms],
        "config_type": entry.kind,
        "documentation": entry.doc if request.include_documentation else None,
    }


def _logger(name: str, level: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": level,
        "read_only": False,
        "config_source": LOGGER_SOURCE,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": UNKNOWN_KIND,
        "documentation": None,
    }
