"""Settings of topics and brokers: with where each value comes from, and changed one by one.

Owns DescribeConfigs with its sources and IncrementalAlterConfigs. A change never touches a setting that it does not
name (KIP-339).
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.retry import known_code
from fencepost.errors import ErrorCode, TopicNotFound
from fencepost.wire.codec import Message

DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 44
SET, DELETE = 0, 1


class Of(enum.IntEnum):
    """What has settings; the numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4


class Source(enum.IntEnum):
    """Where a value comes from; the numbers are Kafka's."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    OTHER = 6  #: of a kind that is newer than this client

    @classmethod
    def _missing_(cls, _: object) -> "Source":
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class Config:
    name: str
    value: str | None  #: None if it is secret, or not set
    source: Source
    is_read_only: bool = False
    is_sensitive: bool = False


def describe_configs(cluster: Cluster, of: Of, name: str, keys: Iterable[str] | None = None) -> dict[str, Config]:
    """All settings or these, by name. Those of a broker are asked of that broker. Raises TopicNotFound."""
    resource = {
        "resource_type": of,
        "resource_name": name,
        "configuration_keys": None if keys is None else list(keys),
    }
    fields = {"resources": [resource]}
    if of is Of.BROKER:
        result = cluster.connect(cluster.broker(int(name))).call(DESCRIBE_CONFIGS, fields).results[0]
    else:
        result = cluster.call(f"settings of {name!r}", DESCRIBE_CONFIGS, fields).results[0]
    _raise_for(cluster, DESCRIBE_CONFIGS, of, name, result)
    return {
        each.name: Config(each.name, each.value, Source(each.config_source), each.read_only, each.is_sensitive)
        for each in result.configs
    }


def alter_topic(cluster: Cluster, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> None:
    """Set these settings of a topic; None removes one, so that the default counts. Raises TopicNotFound."""
    configs = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in changes.items()
    ]
    resource = {"resource_type": Of.TOPIC, "resource_name": name, "configs": configs}
    fields = {"resources": [resource], "validate_only": validate_only}
    answer = cluster.call(f"changing settings of {name!r}", INCREMENTAL_ALTER_CONFIGS, fields)
    _raise_for(cluster, INCREMENTAL_ALTER_CONFIGS, Of.TOPIC, name, answer.responses[0])


def _raise_for(cluster: Cluster, api_key: int, of: Of, name: str, result: Message) -> None:
    code = known_code(result.error_code)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicNotFound.named(name)
    if code:
        text = f"settings of {of.name.lower()} {name!r}: {result.error_message or ''}".rstrip(": ")
        raise cluster.refusal(api_key, code, name, text)
