"""The settings of a running broker, and of every topic on it.

`settings.num_partitions` is the value in force: what clients altered on the running broker comes before what it was
started with, and that before the default. Each value remembers where it came from, for DescribeConfigs.

Invariants: a value that is given or altered is in its range; clients alter only what can change live. A topic that was
made when the range was wider keeps its value.
"""

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from fencepost.broker.security_settings import SecuritySettings, parse_overrides
from fencepost.broker.settings_table import (
    ELSEWHERE,
    BrokerSettingsWithoutEffect,
    NodeSettings,
    TopicSettingsWithoutEffect,
)
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.txn.settings import TransactionSettings
from fencepost.errors import ConfigError
from fencepost.log.config import LogConfig, TopicSettings
from fencepost.setting import LONG_MAX, Change, Kind, Setting, settings_of


def _without_effect(table: type) -> dict[str, Setting[Any]]:
    rows = settings_of(table)
    for setting in rows.values():
        setting.doc = f"Without effect: {setting.doc}"
    return rows


WITHOUT_EFFECT = {
    "broker": _without_effect(BrokerSettingsWithoutEffect),
    "topic": _without_effect(TopicSettingsWithoutEffect),
}
TOPIC_SETTINGS: dict[str, Setting[Any]] = settings_of(TopicSettings) | WITHOUT_EFFECT["topic"]
_TOPIC_DEFAULTS = {each.name: each for row in TOPIC_SETTINGS.values() for each in row.broker_settings()}
OF_LISTENER = "listener.name."
_OF_LOGS = {name: row for name, row in settings_of(LogConfig).items() if name not in TOPIC_SETTINGS}


class BrokerSettings(NodeSettings, SecuritySettings, GroupSettings, TransactionSettings):
    """The broker's settings that code reads by name."""


BROKER_SETTINGS: dict[str, Setting[Any]] = (
    settings_of(BrokerSettings) | _OF_LOGS | _TOPIC_DEFAULTS | WITHOUT_EFFECT["broker"]
)


class Source(enum.IntEnum):
    """Where a value comes from, numbered as DescribeConfigs does. The smaller number wins."""

    TOPIC = 1
    BROKER = 2  #: altered on this broker
    CLUSTER = 3  #: altered for all brokers
    STATIC = 4  #: given at start
    DEFAULT = 5
    LOGGER = 6  #: the level of a logger


class Synonym(NamedTuple):
    """One place that gives a value."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One setting as DescribeConfigs shows it. The first synonym is the one in force."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    kind: Kind | None  #: None: unknown
    doc: str | None
    synonyms: tuple[Synonym, ...]


class Settings(BrokerSettings):
    """The broker's settings. Build them with `Settings.parse`; `Settings()` has the defaults."""

    def __init__(self) -> None:
        super().__init__()
        self._layers: dict[Source, dict[str, str | None]] = {
            Source.BROKER: {}, Source.CLUSTER: {}, Source.STATIC: {}
        }  # fmt: skip
        self._of_listeners: dict[str, str] = {}
        self._features: dict[str, int] = {}
        self._listeners: list[Callable[[], None]] = []
        self._resolve()

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "Settings":
        """Settings as a user gives them, by Kafka's names. ConfigError for the first that is wrong."""
        settings = cls()
        for name, text in given.items():
            setting = BROKER_SETTINGS.get(name)
            if name.lower().startswith(OF_LISTENER):
                setting = _of_listener(name)
                settings._of_listeners[name.lower()] = text.strip()
            elif setting is not None:
                settings._layers[Source.STATIC][name] = text.strip()
            if setting is None:
                raise ConfigError(_unknown(name))
            setting.parse(text)
        settings._resolve()
        settings._check_together()
        return settings

    # -- values that several settings decide -----------------------------------------------------------------------

    def for_listener(self, listener: str, name: str, mechanism: str = "") -> Any:
        """The value of a setting for one listener: its own, that of the mechanism there, or the broker's."""
        setting = BROKER_SETTINGS[name]
        for prefix in (f"{mechanism}." if mechanism else "", ""):
            text = self._of_listeners.get(f"{OF_LISTENER}{listener}.{prefix}{name}".lower())
            if text is not None:
                return setting.parse(text)
        return self.__dict__[setting.attribute]

    def topic(self, overrides: Mapping[str, str]) -> LogConfig:
        """The values in force for a topic with these settings. Stored values may be out of range."""
        values = LogConfig()
        for name, setting in TOPIC_SETTINGS.items():
            text = overrides.get(name)
            values.__dict__[setting.attribute] = self._inherited(setting) if text is None else setting.read(text)
        for setting in _OF_LOGS.values():
            values.__dict__[setting.attribute] = self.__dict__[setting.attribute]
        return values

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The same, as a partition log uses it."""
        config = self.topic(overrides)
        if config.internal_segment_bytes is not None:
            config.__dict__["segment_bytes"] = config.internal_segment_bytes
        return config

    def check_topic(self, overrides: Mapping[str, str | None]) -> None:
        """ConfigError if a topic cannot have these settings."""
        nulls = sorted(name for name, text in overrides.items() if text is None)
        if nulls:
            raise ConfigError(f"Null value not supported for topic configs: {','.join(nulls)}")
        texts: dict[str, str] = {}
        for name, text in overrides.items():
            if name not in TOPIC_SETTINGS:
                raise ConfigError(f"Unknown topic config name: {name}")
            TOPIC_SETTINGS[name].parse(text)
            texts[name] = text or ""
        topic = self.topic(texts)
        if topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
            raise ConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({topic.min_compaction_lag_ms}) > "
                f"max.compaction.lag.ms ({topic.max_compaction_lag_ms})"
            )

    # -- what clients alter ------------------------------------------------------------------------------------------

    def dynamic(self, source: Source) -> dict[str, str | None]:
        """What was altered on this broker (`BROKER`) or for all (`CLUSTER`)."""
        return dict(self._layers[source])

    def check_dynamic(self, values: Mapping[str, str | None]) -> None:
        """ConfigError if these cannot be set on a running broker."""
        for name, text in values.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise ConfigError(_unknown(name))
            if setting.change is not Change.LIVE:
                raise ConfigError(f"Cannot update these configs dynamically: Set({name})")
            setting.parse(text)
        parse_overrides(values.get("max.connections.per.ip.overrides") or "")  # else nobody could connect any more

    def set_dynamic(self, source: Source, values: Mapping[str, str | None]) -> None:
        """Replace everything altered in one place, and tell the listeners."""
        self.check_dynamic(values)
        self._layers[source] = dict(values)
        self._resolve()
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever values in force may have changed."""
        self._listeners.append(listener)

    def restore_feature(self, feature: str, level: int) -> None:
        """Restore a level that clients set before a restart, unless the broker was started with one."""
        if feature not in self._layers[Source.STATIC]:
            self.set_feature(feature, level)

    def set_feature(self, feature: str, level: int) -> None:
        """`transaction.version` is the only feature: a setting at start, altered through UpdateFeatures afterwards."""
        BROKER_SETTINGS[feature].parse(str(level))
        self._features[feature] = level
        self._resolve()

    # -- what DescribeConfigs shows ----------------------------------------------------------------------------------

    def describe_broker(self) -> Iterator[Described]:
        for name, setting in BROKER_SETTINGS.items():
            synonyms = tuple(self._synonyms(name))
            source = synonyms[0].source if synonyms else Source.DEFAULT
            if not (setting.internal and source is Source.DEFAULT):
                value = setting.format(getattr(self, setting.attribute))
                read_only = setting.change is not Change.LIVE
                yield Described(name, value, source, read_only, setting.kind, setting.doc, synonyms)

    def describe_topic(self, overrides: Mapping[str, str]) -> Iterator[Described]:
        topic = self.topic(overrides)
        for name, setting in TOPIC_SETTINGS.items():
            synonyms = [Synonym(name, overrides[name], Source.TOPIC)] if name in overrides else []
            for inherited in setting.broker:
                synonyms += self._synonyms(inherited)
            value = setting.format(getattr(topic, setting.attribute))
            source = synonyms[0].source if synonyms else Source.DEFAULT
            if setting.internal and source is Source.DEFAULT:
                continue
            yield Described(name, value, source, False, setting.kind, setting.doc, tuple(synonyms))

    def _synonyms(self, name: str) -> Iterator[Synonym]:
        for source, layer in self._layers.items():
            if name in layer:
                yield Synonym(name, layer[name], source)
        setting = BROKER_SETTINGS[name]
        if setting.default is not None:
            yield Synonym(name, setting.format(setting.default), Source.DEFAULT)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        for name, setting in BROKER_SETTINGS.items():
            value = setting.default
            for layer in self._layers.values():
                if name in layer:
                    value = setting.parse(layer[name])
                    break
            self.__dict__[setting.attribute] = value
        for feature, level in self._features.items():
            self.__dict__[BROKER_SETTINGS[feature].attribute] = level
        if "node.id" not in self._layers[Source.STATIC] and self.broker_id >= 0:
            self.__dict__["node_id"] = self.broker_id
        self.__dict__["broker_id"] = self.node_id

    def _inherited(self, setting: Setting[Any]) -> Any:
        for name in setting.broker:
            source = BROKER_SETTINGS[name]
            value = self.__dict__[source.attribute]
            if value is not None:
                if source.unit == 1:
                    return value
                return -1 if value < 0 else min(value * source.unit, LONG_MAX)
        return setting.default

    def _check_together(self) -> None:
        given = self._layers[Source.STATIC]
        if "broker.id" in given and BROKER_SETTINGS["broker.id"].parse(given["broker.id"]) not in (-1, self.node_id):
            raise ConfigError(f"broker.id and node.id must be equal, but are {given['broker.id']} and {self.node_id}")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError("group.min.session.timeout.ms must not exceed group.max.session.timeout.ms")
        parse_overrides(self.max_connections_per_ip_overrides)
        self.check_topic({})


def _of_listener(name: str) -> "Setting[Any] | None":
    """The setting that `listener.name.NAME.SETTING` or `listener.name.NAME.MECHANISM.SETTING` gives."""
    _, _, rest = name[len(OF_LISTENER) :].partition(".")
    found = settings_of(SecuritySettings)
    return found.get(rest) or found.get(rest.partition(".")[2])


def _unknown(name: str) -> str:
    """The message for an unknown name, with a hint to the setting that the user may have meant."""
    if name in ELSEWHERE:
        return f"Unknown setting {name}: {ELSEWHERE[name]}"
    topic_setting = TOPIC_SETTINGS.get(name)
    if topic_setting is not None and topic_setting.broker:
        brokers = " or ".join(topic_setting.broker)
        return f"Unknown setting {name}: it belongs to a topic; the broker's own is {brokers}"
    import difflib

    near = difflib.get_close_matches(name.lower().replace("_", "."), BROKER_SETTINGS, n=1, cutoff=0.5)
    return f"Unknown setting {name}: did you mean {near[0]}?" if near else f"Unknown setting {name}"
