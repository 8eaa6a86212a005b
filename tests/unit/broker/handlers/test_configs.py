"""Settings are described with their sources and altered as Apache Kafka 4.1 does, word for word."""

import logging

import pytest

from tests.unit.broker.admin_world import error

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OK = ("NONE", None)
UNKNOWN_LEVEL = (
    "Cannot set the log level of root to FOO as it is not a supported log level. "
    "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
)


@pytest.fixture
def world(world):
    world.topics.create("shop", 1, {})
    return world


def describe(world, kind, name, *keys, version=None, **options):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    (result,) = world.ask(32, version, resources=[resource], **options).results
    return result


def values(result):
    return {config.name: config.value for config in result.configs}


def alter(world, kind, name, *changes, validate_only=False):
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    (result,) = world.ask(44, resources=[resource], validate_only=validate_only).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return error(result)


def replace(world, kind, name, configs, validate_only=False):
    entries = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    return error(world.ask(33, resources=[resource], validate_only=validate_only).responses[0])


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings_are_described_in_every_version(world, version):
    result = describe(world, TOPIC, "shop", "retention.ms", "nope", version=version, include_synonyms=True)
    assert error(result) == ("NONE", "")
    (config,) = result.configs
    assert (config.name, config.value, config.config_source) == ("retention.ms", "604800000", 5)
    assert (config.read_only, config.is_sensitive) == (False, False)
    if version >= 3:
        assert config.config_type == 5


def test_types_synonyms_and_documentation_come_when_asked_for(world):
    world.topics.set_config("shop", {"cleanup.policy": "compact"})
    key = "cleanup.policy"
    (config,) = describe(world, TOPIC, "shop", key, include_synonyms=True, include_documentation=True).configs
    assert (config.value, config.config_source, config.config_type) == ("compact", 1, 7)
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert config.documentation
    (config,) = describe(world, TOPIC, "shop", key).configs
    assert (config.synonyms, config.documentation) == ([], None)


def test_an_empty_list_of_keys_means_all(world):
    resource = {"resource_type": TOPIC, "resource_name": "shop", "configuration_keys": []}
    (result,) = world.ask(32, resources=[resource]).results
    assert len(result.configs) == len(describe(world, TOPIC, "shop").configs) > 20


def test_the_broker_is_described_with_what_is_read_only(world):
    result = describe(world, BROKER, "1")
    configs = {config.name: config for config in result.configs}
    assert configs["num.partitions"].read_only
    assert (configs["log.retention.ms"].read_only, configs["log.retention.ms"].value) == (False, None)
    assert configs["log.flush.interval.messages"].value == "1"
    assert configs["node.id"].value == "1"


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", "UNKNOWN_TOPIC_OR_PARTITION", ""),
        (TOPIC, "", "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "7", "INVALID_REQUEST", "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "x", "INVALID_REQUEST", "Broker id must be an integer, but it is: x"),
        (LOGGER, "3", "INVALID_REQUEST", "Unexpected broker id, expected 1 but received 3"),
        (LOGGER, "", "INVALID_REQUEST", "Broker id must not be empty"),
        (METRICS, "", "INVALID_REQUEST", "Client metrics subscription name must not be empty"),
        (GROUP, "", "INVALID_REQUEST", "Group name must not be empty"),
        (3, "x", "INVALID_REQUEST", "Unsupported resource type 3"),
    ],
)
def test_what_is_not_there_cannot_be_described(world, kind, name, code, message):
    result = describe(world, kind, name)
    assert error(result) == (code, message)
    assert result.configs == []


def test_groups_and_client_metrics_have_no_settings_here(world):
    assert values(describe(world, GROUP, "g")) == values(describe(world, METRICS, "m")) == {}


def test_single_settings_are_set_and_removed_and_take_effect_at_once(world):
    log = world.topics.log("shop", 0)
    assert alter(world, TOPIC, "shop", ("retention.ms", SET, "9"), ("segment.ms", SET, "8")) == OK
    assert (log.config.retention_ms, log.config.segment_ms) == (9, 8)
    assert alter(world, TOPIC, "shop", ("retention.ms", DELETE, None)) == OK
    assert (log.config.retention_ms, log.config.segment_ms) == (604_800_000, 8)
    world.restart()
    assert world.topics.get("shop").config == {"segment.ms": "8"}


def test_lists_are_appended_to_and_subtracted_from(world):
    assert alter(world, TOPIC, "shop", ("cleanup.policy", APPEND, "compact")) == OK
    assert world.topics.get("shop").config == {"cleanup.policy": "delete,compact"}
    assert world.topics.log("shop", 0).config.compacts
    assert alter(world, TOPIC, "shop", ("cleanup.policy", APPEND, "compact")) == OK
    assert alter(world, TOPIC, "shop", ("cleanup.policy", SUBTRACT, "delete")) == OK
    assert world.topics.get("shop").config == {"cleanup.policy": "compact"}
    throttled = "leader.replication.throttled.replicas"
    assert alter(world, TOPIC, "shop", (throttled, APPEND, "0:1")) == OK
    assert alter(world, TOPIC, "shop", (throttled, SUBTRACT, "0:1")) == OK


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "message"),
    [
        (TOPIC, "shop", ("foo", SET, "1"), "INVALID_CONFIG", "Unknown topic config name: foo"),
        (TOPIC, "shop", ("retention.ms", SET, "x"), "INVALID_CONFIG",
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (TOPIC, "shop", ("segment.bytes", SET, "1000"), "INVALID_CONFIG",
         "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576"),
        (TOPIC, "shop", ("retention.ms", SET, None), "INVALID_REQUEST", "Null value not supported for : retention.ms"),
        (TOPIC, "shop", ("retention.ms", APPEND, "1"), "INVALID_CONFIG",
         "Can't APPEND to key retention.ms because its type is not LIST."),
        (TOPIC, "shop", ("retention.ms", 9, "1"), "INVALID_REQUEST", "Unknown config operation 9"),
        (TOPIC, "nope", ("retention.ms", SET, "1"), "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'nope' does not exist."),
        (TOPIC, "", ("retention.ms", SET, "1"), "INVALID_REQUEST", "Default topic resources are not allowed."),
        (BROKER, "1", ("num.partitions", SET, "3"), "INVALID_REQUEST",
         "Cannot update these configs dynamically: Set(num.partitions)"),
        (BROKER, "1", ("log.retention.ms", SET, "zz"), "INVALID_REQUEST",
         "Invalid value zz for configuration log.retention.ms: Not a number of type LONG"),
        (BROKER, "7", ("log.retention.ms", SET, "3"), "INVALID_REQUEST",
         "Unexpected broker id, expected 1, but received 7"),
        (BROKER, "x", ("log.retention.ms", SET, "3"), "INVALID_REQUEST", "Node id must be an integer, but it is: x"),
        (LOGGER, "1", ("root", SET, "FOO"), "INVALID_CONFIG",
         UNKNOWN_LEVEL),
        (LOGGER, "1", ("root", DELETE, None), "INVALID_REQUEST",
         "Removing the log level of the root logger is not allowed"),
        (LOGGER, "1", ("root", APPEND, "INFO"), "INVALID_REQUEST",
         "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (LOGGER, "1", ("root", 9, "INFO"), "INVALID_REQUEST",
         "9 operation is not allowed for the BROKER_LOGGER resource"),
        (LOGGER, "1", ("no.such.logger", SET, "INFO"), "INVALID_CONFIG", "Logger no.such.logger does not exist!"),
        (LOGGER, "4", ("root", SET, "INFO"), "INVALID_REQUEST", "Unexpected node id. Expected 1, but received 4"),
        (GROUP, "g", ("foo", SET, "1"), "INVALID_CONFIG", "Unknown group config name: foo"),
        (METRICS, "m", ("foo", SET, "1"), "INVALID_REQUEST", "Unknown client metrics configuration: foo"),
        (3, "x", ("foo", SET, "1"), "INVALID_REQUEST", "Unknown resource type 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_altered_is_refused_in_kafkas_words(world, kind, name, change, code, message):
    assert alter(world, kind, name, change) == (code, message)


def test_one_wrong_change_leaves_all_of_them_out(world):
    assert alter(world, TOPIC, "shop", ("retention.ms", SET, "7"), ("foo", SET, "1"))[0] == "INVALID_CONFIG"
    assert world.topics.get("shop").config == {}


def test_validating_changes_nothing(world):
    assert alter(world, TOPIC, "shop", ("retention.ms", SET, "7"), validate_only=True) == OK
    assert alter(world, BROKER, "1", ("log.retention.ms", SET, "7"), validate_only=True) == OK
    assert replace(world, TOPIC, "shop", {"retention.ms": "7"}, validate_only=True) == OK
    assert world.topics.get("shop").config == {}
    assert world.settings.log_retention_ms is None


def test_a_resource_or_a_key_that_comes_twice_is_refused(world):
    config = {"name": "retention.ms", "config_operation": SET, "value": "7"}
    resource = {"resource_type": TOPIC, "resource_name": "shop", "configs": [config]}
    results = world.ask(44, resources=[resource, resource]).responses
    assert [error(r) for r in results] == [("INVALID_REQUEST", "Each resource must appear at most once.")] * 2
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert alter(world, TOPIC, "shop", *twice) == ("INVALID_REQUEST", "Error due to duplicate config keys")


def test_the_broker_is_altered_for_itself_and_for_all(world):
    world.topics.create("kept", 1, {"retention.ms": "1"})
    log, kept = (world.topics.log(name, 0) for name in ("shop", "kept"))
    assert alter(world, BROKER, "", ("log.retention.ms", SET, "20")) == OK
    assert (log.config.retention_ms, kept.config.retention_ms) == (20, 1)
    assert alter(world, BROKER, "1", ("log.retention.ms", SET, "10")) == OK
    assert log.config.retention_ms == 10
    assert values(describe(world, BROKER, "")) == {"log.retention.ms": "20"}
    (config,) = describe(world, BROKER, "1", "log.retention.ms", include_synonyms=True).configs
    assert (config.value, config.config_source) == ("10", 2)
    assert [(s.value, s.source) for s in config.synonyms] == [("10", 2), ("20", 3)]
    assert alter(world, BROKER, "1", ("log.retention.ms", DELETE, None)) == OK
    world.restart()
    assert world.topics.log("shop", 0).config.retention_ms == 20


def test_alter_configs_replaces_everything(world):
    assert replace(world, TOPIC, "shop", {"retention.ms": "7"}) == OK
    assert replace(world, TOPIC, "shop", {"segment.ms": "8"}) == OK
    assert world.topics.get("shop").config == {"segment.ms": "8"}
    assert replace(world, TOPIC, "shop", {"retention.ms": None}) == (
        "INVALID_REQUEST",
        "Null value not supported for : retention.ms",
    )
    assert replace(world, LOGGER, "1", {"root": "INFO"}) == ("INVALID_REQUEST", "Unknown resource type 8")
    assert replace(world, TOPIC, "shop", {}) == OK
    assert world.topics.get("shop").config == {}


def test_log_levels_are_described_and_altered(world):
    logger = logging.getLogger("fencepost.test.configs")
    assert values(describe(world, LOGGER, "1"))["root"] in ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
    assert alter(world, LOGGER, "1", (logger.name, SET, "TRACE")) == OK
    assert logger.isEnabledFor(5)
    assert values(describe(world, LOGGER, "1", logger.name)) == {logger.name: "TRACE"}
    assert alter(world, LOGGER, "1", (logger.name, SET, "WARN"), validate_only=True) == OK
    assert logger.isEnabledFor(logging.DEBUG)
    assert alter(world, LOGGER, "1", (logger.name, DELETE, None)) == OK
    assert logger.level == logging.NOTSET


def test_resources_with_settings_are_listed(world):
    listed = world.ask(74, 1, resource_types=[]).config_resources
    assert {(entry.resource_type, entry.resource_name) for entry in listed} == {
        (LOGGER, "1"), (BROKER, "1"), (TOPIC, "shop"),
    }  # fmt: skip
    assert [entry.resource_name for entry in world.ask(74, 1, resource_types=[TOPIC]).config_resources] == ["shop"]
    assert world.ask(74, 0).config_resources == []
    assert world.ask(74, 1, resource_types=[3]).error_code == 35


def test_a_password_is_not_told(open_world):
    world = open_world({"ssl.keystore.password": "hunter2"})
    asked = {"resource_type": 4, "resource_name": "1", "configuration_keys": ["ssl.keystore.password"]}
    answer = world.ask(32, resources=[asked], include_synonyms=True, include_documentation=True)
    (config,) = answer.results[0].configs
    assert (config.value, config.is_sensitive) == (None, True)
    assert "hunter2" not in repr(answer)
