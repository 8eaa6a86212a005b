"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords answer as Apache Kafka 4.1 does, word for word."""

import pytest

from tests.unit.broker.admin_world import NULL, error

OK = ("NONE", None)


def wanted(name, partitions=-1, factor=-1, assignments=(), **config):
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in config.items()],
    }


def create(world, *topics, version=None, validate_only=False):
    answer = world.ask(19, version, topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return {topic.name: topic for topic in answer.topics}


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(world, version):
    result = create(world, wanted("shop", 2, 1), version=version)["shop"]
    assert error(result) == OK
    topic = world.topics.get("shop")
    assert topic.partitions == 2
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
    if version >= 7:
        assert result.topic_id == topic.id


def test_the_answer_has_every_setting_in_force_and_where_it_comes_from(world):
    result = create(world, wanted("shop", 1, 1, retention_ms="5"))["shop"]
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["flush.messages"].value, configs["flush.messages"].config_source) == ("1", 5)
    assert not configs["retention.ms"].read_only


def test_minus_one_means_the_brokers_default(open_world):
    assert create(open_world({"num.partitions": "6"}), wanted("shop"))["shop"].num_partitions == 6


ILLEGAL = (
    "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
)
TOO_MANY_REPLICAS = (
    "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only "
    "1 broker(s) are registered."
)
CONSECUTIVE = "partitions should be a consecutive 0-based integer sequence"


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (wanted("there", 1, 1), "TOPIC_ALREADY_EXISTS", "Topic 'there' already exists."),
        (wanted("a b", 1, 1), "INVALID_TOPIC_EXCEPTION", ILLEGAL),
        (wanted("x_y", 1, 1), "INVALID_TOPIC_EXCEPTION", "Topic 'x_y' collides with existing topic: x.y"),
        (wanted("__cluster_metadata", 1, 1), "INVALID_REQUEST",
         "Creation of internal topic __cluster_metadata is prohibited."),
        (wanted("t", 0, 1), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (wanted("t", -2, 1), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (wanted("t", 1, 0), "INVALID_REPLICATION_FACTOR",
         "Replication factor must be larger than 0, or -1 to use the default value."),
        (wanted("t", 1, 2), "INVALID_REPLICATION_FACTOR",
         TOO_MANY_REPLICAS),
        (wanted("t", 20_000, 1), "POLICY_VIOLATION", "Excessively large number of partitions per request."),
        (wanted("t", 1, 1, foo="1"), "INVALID_CONFIG", "Unknown topic config name: foo"),
        (wanted("t", 1, 1, retention_ms=None), "INVALID_CONFIG",
         "Null value not supported for topic configs: retention.ms"),
        (wanted("t", 1, 1, retention_ms="x"), "INVALID_CONFIG",
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (wanted("t", 1, 1, retention_ms="-5"), "INVALID_CONFIG",
         "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        (wanted("t", 1, 1, segment_bytes="1048575"), "INVALID_CONFIG",
         "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576"),
        (wanted("t", 1, 1, cleanup_policy="foo"), "INVALID_CONFIG",
         "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
        (wanted("t", 1, 1, min_compaction_lag_ms="10", max_compaction_lag_ms="5"), "INVALID_CONFIG",
         "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"),
        (wanted("t", 2, -1, [(0, [1])]), "INVALID_REQUEST",
         "A manual partition assignment was specified, but numPartitions was not set to -1."),
        (wanted("t", -1, 1, [(0, [1])]), "INVALID_REQUEST",
         "A manual partition assignment was specified, but replication factor was not set to -1."),
        (wanted("t", -1, -1, [(0, [7])]), "INVALID_REPLICA_ASSIGNMENT",
         "The manual partition assignment includes broker 7, but no such broker is registered."),
        (wanted("t", -1, -1, [(0, [])]), "INVALID_REPLICA_ASSIGNMENT",
         "The manual partition assignment includes an empty replica list."),
        (wanted("t", -1, -1, [(0, [1, 1])]), "INVALID_REPLICA_ASSIGNMENT",
         "The manual partition assignment includes the broker 1 more than once."),
        (wanted("t", -1, -1, [(0, [1]), (0, [1])]), "INVALID_REPLICA_ASSIGNMENT",
         "Found multiple manual partition assignments for partition 0"),
        (wanted("t", -1, -1, [(0, [1]), (2, [1])]), "INVALID_REPLICA_ASSIGNMENT", CONSECUTIVE),
        (wanted("t", -1, -1, [(-1, [1])]), "INVALID_REPLICA_ASSIGNMENT", CONSECUTIVE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_cannot_be_created_is_refused_in_kafkas_words(world, topic, code, message, validate_only):
    world.topics.create("there", 1, {})
    world.topics.create("x.y", 1, {})
    result = create(world, topic, validate_only=validate_only)[topic["name"]]
    assert error(result) == (code, message)
    assert (result.num_partitions, result.replication_factor, result.topic_id) == (-1, -1, NULL)
    assert len(world.topics.all()) == 2


def test_partitions_can_be_placed_by_hand_on_this_broker(world):
    assert error(create(world, wanted("shop", -1, -1, [(1, [1]), (0, [1])]))["shop"]) == OK
    assert world.topics.get("shop").partitions == 2


def test_a_name_that_comes_twice_is_refused_and_the_others_are_made(world):
    results = create(world, wanted("twice", 1, 1), wanted("once", 1, 1), wanted("twice", 2, 1))
    assert error(results["twice"]) == ("INVALID_REQUEST", "Duplicate topic name.")
    assert error(results["once"]) == OK
    assert [topic.name for topic in world.topics.all()] == ["once"]


def test_names_that_collide_within_a_request_are_not_both_made(world):
    results = create(world, wanted("a.b", 1, 1), wanted("a_b", 1, 1))
    assert error(results["a.b"]) == OK
    assert results["a_b"].error_code == 17
    world.topics.delete_all(["a.b"])
    assert error(create(world, wanted("a_b", 1, 1))["a_b"]) == OK


def test_validating_creates_nothing_and_tells_what_would_be_made(world):
    result = create(world, wanted("shop", 3, 1), validate_only=True)["shop"]
    assert error(result) == OK
    assert (result.num_partitions, len(result.configs) > 20) == (3, True)
    assert world.topics.get("shop") is None


def delete(world, *topics, version=6):
    return world.ask(20, version, topics=[{"name": n, "topic_id": i} for n, i in topics], timeout_ms=1000).responses


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(world, version):
    world.topics.create("shop", 1, {})
    results = world.ask(20, version, topic_names=["shop", "nope"], timeout_ms=1000).responses
    assert {result.name: result.error_code for result in results} == {"shop": 0, "nope": 3}
    assert world.topics.all() == []


def test_topics_are_deleted_by_id(world):
    topic = world.topics.create("shop", 1, {})
    (result,) = delete(world, (None, topic.id))
    assert (result.name, result.topic_id, error(result)) == ("shop", topic.id, OK)
    assert world.topics.all() == []


def test_what_cannot_be_deleted_is_refused_in_kafkas_words(world):
    topic = world.topics.create("shop", 1, {})
    for asked, code, message in (
        ([("nope", NULL)], "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
        ([(None, b"1" * 16)], "UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        ([("shop", topic.id)], "INVALID_REQUEST", "You may not specify both topic name and topic id."),
        ([(None, NULL)], "INVALID_REQUEST", "Neither topic name nor id were specified."),
        ([("shop", NULL)] * 2, "INVALID_REQUEST", "Duplicate topic name."),
        ([(None, topic.id)] * 2, "INVALID_REQUEST", "Duplicate topic id."),
    ):
        assert [error(result) for result in delete(world, *asked)] == [(code, message)]
    assert world.topics.get("shop") == topic


@pytest.mark.parametrize("by_id_first", [False, True])
def test_a_topic_named_by_name_and_by_id_in_one_request_is_not_deleted(world, by_id_first):
    topic = world.topics.create("shop", 1, {})
    asked = [("shop", NULL), (None, topic.id)]
    (result,) = delete(world, *(reversed(asked) if by_id_first else asked))
    assert error(result) == ("INVALID_REQUEST", "The provided topic name maps to an ID that was already supplied.")
    assert (result.name, result.topic_id) == ("shop", topic.id)
    assert world.topics.get("shop") == topic


def test_the_coordinators_topics_cannot_be_deleted_or_grown(world):
    world.topics.ensure_internal("__consumer_offsets")
    (result,) = delete(world, ("__consumer_offsets", NULL))
    assert result.error_code == 42
    assert error(grow(world, ("__consumer_offsets", 60, None))[0])[0] == "INVALID_REQUEST"
    assert world.topics.get("__consumer_offsets").partitions == 50


def test_deletion_can_be_switched_off(open_world):
    world = open_world({"delete.topic.enable": "false"})
    world.topics.create("shop", 1, {})
    assert [r.error_code for r in world.ask(20, 2, topic_names=["shop"], timeout_ms=1).responses] == [42]
    assert [r.error_code for r in world.ask(20, 3, topic_names=["shop"], timeout_ms=1).responses] == [73]


def grow(world, *topics, validate_only=False):
    asked = [
        {"name": n, "count": c, "assignments": None if a is None else [{"broker_ids": b} for b in a]}
        for n, c, a in topics
    ]
    return world.ask(37, topics=asked, timeout_ms=1000, validate_only=validate_only).results


def test_partitions_are_added(world):
    world.topics.create("shop", 1, {})
    assert error(grow(world, ("shop", 3, None))[0]) == OK
    assert error(grow(world, ("shop", 4, [[1]]))[0]) == OK
    assert error(grow(world, ("shop", 9, None), validate_only=True)[0]) == OK
    world.restart()
    assert world.topics.get("shop").partitions == 4
    assert world.topics.log("shop", 3) is not None


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "message"),
    [
        ("nope", 3, None, "UNKNOWN_TOPIC_OR_PARTITION", None),
        ("shop", 3, None, "INVALID_PARTITIONS", "Topic already has 3 partition(s)."),
        ("shop", 1, None, "INVALID_PARTITIONS",
         "The topic shop currently has 3 partition(s); 1 would not be an increase."),
        ("shop", -1, None, "INVALID_PARTITIONS",
         "The topic shop currently has 3 partition(s); -1 would not be an increase."),
        ("shop", 5, [[1]], "INVALID_REPLICA_ASSIGNMENT",
         "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        ("shop", 4, [[9]], "INVALID_REPLICA_ASSIGNMENT",
         "The manual partition assignment includes broker 9, but no such broker is registered."),
        ("shop", 4, [[]], "INVALID_REPLICA_ASSIGNMENT",
         "The manual partition assignment includes an empty replica list."),
        ("shop", 2**31 - 1, None, "POLICY_VIOLATION", "Excessively large number of partitions per request."),
    ],
)  # fmt: skip
def test_partitions_that_cannot_be_added_are_refused_in_kafkas_words(world, name, count, assignments, code, message):
    world.topics.create("shop", 3, {})
    assert error(grow(world, (name, count, assignments))[0]) == (code, message)
    assert world.topics.get("shop").partitions == 3


def test_a_topic_that_comes_twice_gets_no_partitions(world):
    world.topics.create("shop", 3, {})
    (result,) = grow(world, ("shop", 4, None), ("shop", 5, None))
    assert error(result) == ("INVALID_REQUEST", "Duplicate topic name.")
    assert world.topics.get("shop").partitions == 3


def delete_records(world, topic, partition, offset):
    asked = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    result = world.ask(21, topics=[asked], timeout_ms=1000).topics[0].partitions[0]
    return result.low_watermark, result.error_code


def test_records_are_deleted_up_to_an_offset_or_to_the_high_watermark(world):
    world.topics.create("shop", 1, {})
    world.append("shop", 0, 5)
    assert delete_records(world, "shop", 0, 2) == (2, 0)
    assert delete_records(world, "shop", 0, 1) == (2, 0)
    world.crash()
    world.open()
    assert world.topics.log("shop", 0).log_start_offset == 2
    assert delete_records(world, "shop", 0, -1) == (5, 0)


def test_records_that_cannot_be_deleted_are_refused(world):
    world.topics.create("shop", 1, {})
    world.topics.create("table", 1, {"cleanup.policy": "compact"})
    assert delete_records(world, "shop", 0, 5) == (-1, 1)
    assert delete_records(world, "shop", 0, -2) == (-1, 1)
    assert delete_records(world, "shop", 7, 0) == (-1, 3)
    assert delete_records(world, "nope", 0, 0) == (-1, 3)
    assert delete_records(world, "__consumer_offsets", 0, 0) == (-1, 17)
    assert delete_records(world, "table", 0, 0) == (-1, 44)


def test_a_request_that_deletes_no_record_does_not_touch_the_disk(world, monkeypatch):
    monkeypatch.setattr(world.topics, "checkpoint", lambda: pytest.fail("the disk was written"))
    assert delete_records(world, "nowhere", 0, 1) == (-1, 3)
