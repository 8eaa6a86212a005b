"""Reads and alters the settings of resources: topics, the broker and its loggers.

AlterConfigs gives all settings of a resource, IncrementalAlterConfigs gives changes; both share what is here. Client
metrics and groups have no settings on this broker: describing them gives none, altering them is refused.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fencepost.broker import acl, loggers, topic_names
from fencepost.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Described, Source, Synonym
from fencepost.errors import ConfigError, ErrorCode, KafkaError
from fencepost.setting import Kind

if TYPE_CHECKING:
    from fencepost.broker.dispatch import Call
    from fencepost.broker.node import Node


class ResourceType(enum.IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(enum.IntEnum):
    """What IncrementalAlterConfigs can do to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Change = tuple[str, int, str | None]  #: name, operation, value


def require(call: "Call", operation: acl.Operation, kind: int, name: str) -> None:
    """KafkaError unless the client may do this to the settings of a resource. The broker's are the cluster's."""
    if kind == ResourceType.TOPIC:
        call.require(operation, acl.Resource.TOPIC, name)
    elif kind == ResourceType.GROUP:
        call.require(operation, acl.Resource.GROUP, name)
    elif kind in list(ResourceType):
        call.require(operation, acl.Resource.CLUSTER)


def describe(node: "Node", kind: int, name: str) -> list[Described]:
    """Every setting of a resource. KafkaError when there is no such resource."""
    if kind == ResourceType.TOPIC:
        topic_names.validate(name)
        topic = node.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return list(node.settings.describe_topic(topic.config))
    if kind == ResourceType.BROKER:
        if not name:
            return [_cluster_wide(*item) for item in node.settings.dynamic(Source.CLUSTER).items()]
        expected = f"{node.node_id} or empty string,"
        _check_node(node, name, "Broker id", f"Unexpected broker id, expected {expected} but received {name}")
        return list(node.settings.describe_broker())
    if kind == ResourceType.BROKER_LOGGER:
        if not name:
            raise _invalid("Broker id must not be empty")
        _check_node(node, name, "Broker id", f"Unexpected broker id, expected {node.node_id} but received {name}")
        levels = loggers.levels().items()
        return [Described(logger, level, Source.LOGGER, False, None, None, ()) for logger, level in levels]
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise _invalid("Client metrics subscription name must not be empty")
        return []
    if kind == ResourceType.GROUP:
        if not name:
            raise _invalid("Group name must not be empty")
        return []
    raise _invalid(f"Unsupported resource type {kind}")


def replace(node: "Node", kind: int, name: str, values: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Give a resource these settings and no others (AlterConfigs)."""
    if kind == ResourceType.BROKER_LOGGER:
        raise _invalid(f"Unknown resource type {kind}")
    _own_settings(node, kind, name)
    nulls = [key for key, value in values.items() if value is None]
    if nulls:
        raise _invalid(f"Null value not supported for : {','.join(nulls)}")
    _store(node, kind, name, values, validate_only=validate_only)


def alter(node: "Node", kind: int, name: str, changes: Iterable[Change], *, validate_only: bool) -> None:
    """Change some settings of a resource: all of the changes take effect or none (IncrementalAlterConfigs)."""
    if kind == ResourceType.BROKER_LOGGER:
        _alter_loggers(node, name, list(changes), validate_only=validate_only)
        return
    values = _own_settings(node, kind, name)
    for key, operation, value in changes:
        if operation == Operation.DELETE:
            values.pop(key, None)
        elif value is None:
            raise _invalid(f"Null value not supported for : {key}")
        elif operation == Operation.SET:
            values[key] = value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            values[key] = _edit_list(kind, key, Operation(operation), values.get(key), value)
        else:
            raise _invalid(f"Unknown config operation {operation}")
    _store(node, kind, name, values, validate_only=validate_only)


def _own_settings(node: "Node", kind: int, name: str) -> dict[str, str | None]:
    """What a resource has of its own now. KafkaError when it does not exist or cannot be altered."""
    if kind == ResourceType.TOPIC:
        if not name:
            raise _invalid("Default topic resources are not allowed.")
        topic_names.validate(name)
        topic = node.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return dict(topic.config)
    if kind == ResourceType.BROKER:
        if name:
            unexpected = f"Unexpected broker id, expected {node.node_id}, but received {name}"
            _check_node(node, name, "Node id", unexpected)
        return node.settings.dynamic(Source.BROKER if name else Source.CLUSTER)
    if kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        return {}
    raise _invalid(f"Unknown resource type {kind}")


def _store(node: "Node", kind: int, name: str, values: Mapping[str, str | None], *, validate_only: bool) -> None:
    try:
        if kind == ResourceType.TOPIC:
            texts = {key: value for key, value in values.items() if value is not None}
            node.settings.check_topic(texts)
            if not validate_only:
                node.topics.set_config(name, texts)
        elif kind == ResourceType.BROKER:
            node.settings.check_dynamic(values)
            if not validate_only:
                node.topics.set_broker_config(Source.BROKER if name else Source.CLUSTER, values)
        elif values and kind == ResourceType.GROUP:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {next(iter(values))}")
        elif values:
            raise _invalid(f"Unknown client metrics configuration: {next(iter(values))}")
    except ConfigError as error:
        code = ErrorCode.INVALID_CONFIG if kind == ResourceType.TOPIC else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, str(error)) from None


def _edit_list(kind: int, key: str, operation: Operation, current: str | None, value: str) -> str:
    settings = TOPIC_SETTINGS if kind == ResourceType.TOPIC else BROKER_SETTINGS
    setting = settings.get(key)
    if setting is None or setting.kind is not Kind.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {key} because its type is not LIST.")
    items = setting.default if current is None else tuple(part for part in current.split(",") if part)
    edits = [part.strip() for part in value.split(",") if part.strip()]
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys((*items, *edits)))
    return ",".join(item for item in items if item not in edits)


def _alter_loggers(node: "Node", name: str, changes: list[Change], *, validate_only: bool) -> None:
    _check_node(node, name, "Node id", f"Unexpected node id. Expected {node.node_id}, but received {name}")
    for logger, operation, level in changes:
        if operation not in (Operation.SET, Operation.DELETE):
            known = Operation(operation).name if operation in list(Operation) else str(operation)
            raise _invalid(f"{known} operation is not allowed for the BROKER_LOGGER resource")
        loggers.check(logger, level if operation == Operation.SET else None)
    if not validate_only:
        for logger, operation, level in changes:
            loggers.set_level(logger, level if operation == Operation.SET else None)


def _check_node(node: "Node", name: str, what: str, unexpected: str) -> None:
    """The names of brokers are their ids, and there is one broker."""
    try:
        given = int(name)
    except ValueError:
        raise _invalid(f"{what} must be an integer, but it is: {name}") from None
    if given != node.node_id:
        raise _invalid(unexpected)


def _cluster_wide(name: str, value: str | None) -> Described:
    setting = BROKER_SETTINGS[name]
    synonyms = (Synonym(name, value, Source.CLUSTER),)
    return Described(name, value, Source.CLUSTER, False, setting.kind, setting.doc, synonyms)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
