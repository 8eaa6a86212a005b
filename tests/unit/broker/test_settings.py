"""Settings have Kafka's names, types, ranges and defaults, and say clearly what is wrong with the others."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker.settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    WITHOUT_EFFECT,
    BrokerSettings,
    Settings,
    Source,
)
from fencepost.errors import ConfigError
from fencepost.log.config import LogConfig
from fencepost.setting import LONG_MAX, Kind, settings_of

ROOT = Path(__file__).parents[3]
PACKAGE, GUIDE = ROOT / "src" / "fencepost", ROOT / "docs" / "guide.md"


def refusal(**given_settings):
    with pytest.raises(ConfigError) as raised:
        Settings.parse({name.replace("_", "."): value for name, value in given_settings.items()})
    return str(raised.value)


def test_defaults_are_kafkas_except_that_every_write_is_synced():
    settings = Settings.parse({})
    assert settings.num_partitions == 1
    assert settings.transaction_max_timeout_ms == 900_000
    assert settings.log_segment_bytes == 1024**3
    assert settings.log_cleanup_policy == ("delete",)
    assert settings.log_cleaner_min_cleanable_ratio == 0.5
    assert settings.auto_create_topics_enable is True
    assert settings.log_retention_ms is None
    assert settings.log_flush_interval_messages == 1


@pytest.mark.parametrize("table", [BROKER_SETTINGS, TOPIC_SETTINGS], ids=["broker", "topic"])
def test_every_setting_is_documented_and_has_a_default_that_it_accepts(table):
    for setting in table.values():
        assert setting.doc
        if setting.default is not None and setting.name != "follower.replication.throttled.replicas":
            assert setting.parse(setting.format(setting.default)) == setting.default


def test_a_topic_without_settings_of_its_own_has_the_defaults_by_way_of_the_broker():
    topic, alone = Settings().topic({}), LogConfig()
    for setting in TOPIC_SETTINGS.values():
        assert getattr(topic, setting.attribute) == setting.default, setting.name
        assert getattr(alone, setting.attribute, setting.default) == setting.default, setting.name


def test_segments_below_a_mebibyte_are_refused_unless_they_are_asked_for_as_internal():
    settings = Settings.parse({"internal.segment.bytes": "2000"})
    with pytest.raises(ConfigError, match=r"segment\.bytes: Value must be at least 1048576"):
        settings.check_topic({"segment.bytes": "1048575"})
    settings.check_topic({"segment.bytes": "1048576", "internal.segment.bytes": "3000"})
    assert settings.log_config({}).segment_bytes == 2000
    assert settings.log_config({"segment.bytes": "1048576", "internal.segment.bytes": "3000"}).segment_bytes == 3000
    described = {entry.name: entry.value for entry in settings.describe_topic({"segment.bytes": "1048576"})}
    assert (described["segment.bytes"], described["internal.segment.bytes"]) == ("1048576", "2000")
    assert "internal.segment.bytes" not in {entry.name for entry in Settings().describe_topic({})}
    assert "internal.segment.bytes" not in {entry.name for entry in Settings().describe_broker()}


def test_a_topic_that_was_made_with_a_smaller_segment_keeps_it():
    assert Settings().log_config({"segment.bytes": "2000"}).segment_bytes == 2000


def test_what_is_not_listed_as_without_effect_is_read_somewhere_and_what_is_listed_is_not():
    parts = ("broker", "coordinator", "log", "security")
    source = "".join(path.read_text() for part in parts for path in (PACKAGE / part).rglob("*.py"))
    table = settings_of(BrokerSettings) | settings_of(LogConfig) | WITHOUT_EFFECT["broker"] | WITHOUT_EFFECT["topic"]
    ignored = {*WITHOUT_EFFECT["broker"], *WITHOUT_EFFECT["topic"]}
    read = set(re.findall(r"(?<!log)\.(\w+)", source))
    # Those that may differ from listener to listener are read by their names.
    read |= {
        name.replace(".", "_")
        for name in re.findall(r'for_listener\(.*?"([a-z.]+)"|value\("([a-z.]+)"', source)
        for name in name
    }
    assert {name for name in table if name.replace(".", "_") not in read} == ignored


def test_the_guide_lists_the_defaults_that_differ_from_kafkas_and_no_others():
    rows = re.findall(r"^\| `([a-z.]+)` \| `(.*?)` \| `(.*?)` \|", GUIDE.read_text(), re.MULTILINE)
    assert {row[0]: row[1:] for row in rows} == {
        setting.name: (setting.format(setting.default), setting.kafka)
        for setting in BROKER_SETTINGS.values()
        if setting.kafka is not None
    }


def test_values_are_read_by_type():
    settings = Settings.parse(
        {
            "log.segment.bytes": " 2000000 ",
            "delete.topic.enable": "False",
            "log.cleanup.policy": "compact, delete",
            "log.cleaner.min.cleanable.ratio": "0.25",
        }
    )
    assert settings.log_segment_bytes == 2_000_000
    assert settings.delete_topic_enable is False
    assert settings.log_cleanup_policy == ("compact", "delete")
    assert settings.log_cleaner_min_cleanable_ratio == 0.25


def test_an_unknown_name_suggests_the_nearest():
    assert refusal(log_segment_byte="1") == "Unknown setting log.segment.byte: did you mean log.segment.bytes?"
    assert "transaction.max.timeout.ms" in refusal(transaction_timeout_ms="1")
    assert refusal(xyzzy="1") == "Unknown setting xyzzy"


def test_a_topics_setting_given_to_the_broker_is_answered_with_the_brokers_own():
    assert "the broker's own is log.segment.bytes" in refusal(segment_bytes="1000")


def test_settings_that_have_another_place_say_which():
    assert "argument of `fencepost up`" in refusal(log_dirs="/data")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "3000000000", "Not a number of type INT"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be between 0 and 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "Not a number of type DOUBLE"),
        ("default.replication.factor", "3", "Value must be 1"),
        ("transaction.version", "3", "Value must be between 0 and 2"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.cleanup.policy", "keep", "String must be one of: compact, delete"),
        ("log.cleanup.policy", "", "String must be one of: compact, delete"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(name, value, why):
    assert refusal(**{name: value}) == f"Invalid value {value} for configuration {name}: {why}"


def test_settings_are_checked_against_each_other():
    assert "must be equal" in refusal(broker_id="1", node_id="2")
    assert "must not exceed" in refusal(group_min_session_timeout_ms="9", group_max_session_timeout_ms="8")
    assert "min.compaction.lag.ms" in refusal(
        log_cleaner_min_compaction_lag_ms="9", log_cleaner_max_compaction_lag_ms="8"
    )


def test_broker_id_is_the_older_name_of_node_id():
    assert Settings.parse({"broker.id": "7"}).node_id == 7
    assert Settings.parse({"node.id": "7"}).broker_id == 7
    assert Settings.parse({"node.id": "7", "broker.id": "7"}).node_id == 7


@pytest.mark.parametrize(
    ("given_settings", "expected"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1", "log.retention.ms": "1"}, 1),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_retention_wins(given_settings, expected):
    assert Settings.parse(given_settings).log_config({}).retention_ms == expected


def test_a_log_gets_what_its_topic_says_and_the_brokers_values_for_the_rest():
    settings = Settings.parse({"log.segment.bytes": "5000000", "message.max.bytes": "77"})
    config = settings.log_config({"segment.bytes": "6000000", "cleanup.policy": "compact"})
    assert config.segment_bytes == 6_000_000
    assert config.max_message_bytes == 77
    assert config.cleanup_policy == ("compact",)
    assert config.flush_messages == 1


def test_what_is_altered_on_the_broker_wins_over_all_brokers_and_over_the_start():
    settings = Settings.parse({"log.retention.ms": "1"})
    changes = []
    settings.on_change(lambda: changes.append(settings.log_retention_ms))
    settings.set_dynamic(Source.CLUSTER, {"log.retention.ms": "2"})
    settings.set_dynamic(Source.BROKER, {"log.retention.ms": "3"})
    settings.set_dynamic(Source.BROKER, {})
    settings.set_dynamic(Source.CLUSTER, {})
    assert changes == [2, 3, 2, 1]


def test_a_described_value_names_every_place_that_speaks_of_it():
    settings = Settings.parse({"log.retention.hours": "5"})
    settings.set_dynamic(Source.CLUSTER, {"log.retention.ms": "9"})
    (entry,) = [entry for entry in settings.describe_topic({"retention.ms": "8"}) if entry.name == "retention.ms"]
    assert (entry.value, entry.source, entry.kind, entry.read_only) == ("8", Source.TOPIC, Kind.LONG, False)
    assert [tuple(synonym) for synonym in entry.synonyms] == [
        ("retention.ms", "8", Source.TOPIC),
        ("log.retention.ms", "9", Source.CLUSTER),
        ("log.retention.hours", "5", Source.STATIC),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_a_feature_that_clients_set_is_restored_unless_the_start_says_otherwise():
    settings = Settings()
    settings.restore_feature("transaction.version", 1)
    assert settings.transaction_version == 1
    settings = Settings.parse({"transaction.version": "2"})
    settings.restore_feature("transaction.version", 1)
    assert settings.transaction_version == 2
    settings.set_feature("transaction.version", 1)
    settings.set_dynamic(Source.BROKER, {"log.retention.ms": "5"})
    assert settings.transaction_version == 1


@given(st.dictionaries(st.sampled_from(sorted(BROKER_SETTINGS)), st.text(max_size=20), max_size=3))
def test_any_text_is_a_value_or_a_config_error(values):
    try:
        settings = Settings.parse(values)
    except ConfigError:
        return
    settings.log_config({})
    assert settings.node_id >= 0


@given(st.integers(-LONG_MAX - 1, LONG_MAX), st.sampled_from(sorted(TOPIC_SETTINGS)))
def test_a_number_that_a_topic_setting_takes_reaches_the_log(number, name):
    settings = Settings()
    try:
        settings.check_topic({name: str(number)})
    except ConfigError:
        return
    settings.log_config({name: str(number)})


def test_topics_can_be_given_every_setting_that_kafka_describes_and_only_remote_storage_cannot_be_had():
    """Tools that copy topics read all settings of one cluster and give them to the other."""
    described = {
        "local.retention.ms": "-2",
        "local.retention.bytes": "-2",
        "remote.storage.enable": "false",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false",
    }
    assert {
        name: TOPIC_SETTINGS[name].format(TOPIC_SETTINGS[name].parse(text)) for name, text in described.items()
    } == described
    with pytest.raises(ConfigError, match=r"remote\.storage\.enable"):
        TOPIC_SETTINGS["remote.storage.enable"].parse("true")
