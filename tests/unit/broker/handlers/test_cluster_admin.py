"""What one broker has to say about clusters, replicas, quorums and features, in Apache Kafka's terms."""

import pytest

from tests.unit.broker.admin_world import NULL, error


@pytest.fixture
def world(world):
    world.topics.create("shop", 3, {})
    return world


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_broker(world, version):
    answer = world.ask(60, version, include_cluster_authorized_operations=version == 0)
    assert error(answer) == ("NONE", None)
    assert (answer.cluster_id, answer.controller_id) == (world.topics.cluster_id, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [(1, "127.0.0.1", 9092, None)]
    assert answer.cluster_authorized_operations == (8096 if version == 0 else -(2**31))


def test_controllers_have_no_endpoint(world):
    assert error(world.ask(60, endpoint_type=2))[0] == "MISMATCHED_ENDPOINT_TYPE"
    assert error(world.ask(60, endpoint_type=9)) == ("UNSUPPORTED_ENDPOINT_TYPE", "Unsupported endpoint type 9")


def test_there_is_no_access_control(world):
    answer = world.ask(
        29, resource_type_filter=1, resource_name_filter=None, principal_filter=None, host_filter=None,
        operation=1, permission_type=1,
    )  # fmt: skip
    assert error(answer) == ("SECURITY_DISABLED", "No Authorizer is configured on the broker")


def sizes(answer):
    (directory,) = answer.results
    return {(t.name, p.partition_index): p.partition_size for t in directory.topics for p in t.partitions}


@pytest.mark.parametrize("version", range(1, 6))
def test_the_data_directory_is_described_with_the_size_of_every_partition(world, version):
    size = world.append("shop", 1, 4).size_bytes()
    answer = world.ask(35, version, topics=None)
    assert sizes(answer) == {("shop", 0): 0, ("shop", 1): size, ("shop", 2): 0}
    assert answer.results[0].log_dir == str(world.directory)
    if version >= 4:
        assert 0 < answer.results[0].usable_bytes <= answer.results[0].total_bytes


def test_only_partitions_that_exist_are_described(world):
    asked = [{"topic": "shop", "partitions": [1, 9, -1]}, {"topic": "nope", "partitions": [0]}]
    assert sizes(world.ask(35, topics=asked)) == {("shop", 1): 0}


def test_a_replica_can_be_moved_to_where_it_is(world):
    here = {"path": str(world.directory), "topics": [{"name": "shop", "partitions": [0, 9]}]}
    there = {"path": "/elsewhere", "topics": [{"name": "shop", "partitions": [1]}, {"name": "nope", "partitions": [0]}]}
    answer = world.ask(34, dirs=[here, there])
    found = {(t.topic_name, p.partition_index): p.error_code for t in answer.results for p in t.partitions}
    assert found == {("shop", 0): 0, ("shop", 9): 3, ("shop", 1): 57, ("nope", 0): 57}


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_ever_needed(world, version):
    asked = [{"topic": "shop", "partitions": [0, 7]}, {"topic": "nope", "partitions": [1]}]
    answer = world.ask(43, version, election_type=0, topic_partitions=asked, timeout_ms=1000)
    assert [[error(p) for p in t.partition_result] for t in answer.replica_election_results] == [
        [
            ("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."),
            ("UNKNOWN_TOPIC_OR_PARTITION", "No such partition as shop-7"),
        ],
        [("UNKNOWN_TOPIC_OR_PARTITION", "No such topic as nope")],
    ]
    everything = world.ask(43, version, election_type=0, topic_partitions=None, timeout_ms=1000)
    assert [(t.topic, t.partition_result) for t in everything.replica_election_results] == [("shop", [])]


def test_an_unknown_kind_of_election_is_refused(world):
    assert world.ask(43, election_type=9, topic_partitions=[], timeout_ms=1).error_code == 42


@pytest.mark.parametrize("version", range(2))
def test_partitions_can_be_assigned_to_this_broker_only(world, version):
    wanted = [(0, [1]), (1, [2]), (2, None), (7, [1])]
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in wanted]
    topics = [{"name": "shop", "partitions": partitions}, {"name": "nope", "partitions": partitions[:1]}]
    answer = world.ask(45, version, topics=topics, timeout_ms=1000)
    assert [[error(p) for p in t.partitions] for t in answer.responses] == [
        [
            ("NONE", None),
            (
                "INVALID_REPLICA_ASSIGNMENT",
                "The manual partition assignment includes broker 2, but no such broker is registered.",
            ),
            ("NO_REASSIGNMENT_IN_PROGRESS", None),
            ("UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition shop:7."),
        ],
        [("UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named nope.")],
    ]
    assert world.ask(46, topics=None, timeout_ms=1000).topics == []


@pytest.mark.parametrize("version", range(3))
def test_the_broker_is_the_only_voter_on_its_metadata(world, version):
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]
    (topic,) = world.ask(55, version, topics=asked).topics
    mine, other = topic.partitions
    assert (mine.error_code, mine.leader_id, [v.replica_id for v in mine.current_voters]) == (0, 1, [1])
    assert mine.high_watermark == mine.current_voters[0].log_end_offset > 0
    assert other.error_code == 3


def pages(world, limit, *names):
    """Topics and partitions, page by page until the last."""
    cursor, found = None, []
    while True:
        topics = [{"name": name} for name in names]
        answer = world.ask(75, topics=topics, response_partition_limit=limit, cursor=cursor)
        found.append([(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics])
        if answer.next_cursor is None:
            return found
        cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": answer.next_cursor.partition_index}


def test_topics_are_described_a_page_at_a_time(world):
    world.topics.create("bag", 2, {})
    assert pages(world, 100) == [[("bag", [0, 1]), ("shop", [0, 1, 2])]]
    assert pages(world, 3) == [[("bag", [0, 1]), ("shop", [0])], [("shop", [1, 2])]]
    assert pages(world, 2) == [[("bag", [0, 1])], [("shop", [0, 1])], [("shop", [2])]]
    assert pages(world, 100, "shop") == [[("shop", [0, 1, 2])]]


def test_the_broker_limits_a_page_as_well(open_world):
    world = open_world({"max.request.partition.size.limit": "1"})
    world.topics.create("shop", 2, {})
    assert pages(world, 100) == [[("shop", [0])], [("shop", [1])]]


def test_described_topics_have_leaders_ids_and_rights(world):
    answer = world.ask(75, topics=[{"name": "shop"}, {"name": "nope"}, {"name": "a b"}], response_partition_limit=9)
    illegal, unknown, shop = answer.topics
    assert (illegal.error_code, unknown.error_code, unknown.topic_id) == (17, 3, NULL)
    assert (shop.topic_id, shop.topic_authorized_operations) == (world.topics.get("shop").id, 3576)
    partition = shop.partitions[0]
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])


def test_a_page_without_room_or_a_cursor_before_the_start_is_refused(world):
    topics = [{"name": "shop"}]
    cursor = {"topic_name": "shop", "partition_index": -1}
    assert world.ask(75, topics=topics, response_partition_limit=0).topics[0].error_code == 42
    assert world.ask(75, topics=topics, response_partition_limit=5, cursor=cursor).topics[0].error_code == 42


UPGRADE, SAFE, UNSAFE = 1, 2, 3
NO_DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)


def update(world, *updates, version=1, **options):
    asked = [{"feature": f, "max_version_level": level, "upgrade_type": kind} for f, level, kind in updates]
    return world.ask(57, version, feature_updates=asked, **options)


def test_the_transaction_protocol_is_a_feature_that_survives_a_restart(world):
    answer = update(world, ("transaction.version", 1, SAFE))
    assert error(answer) == ("NONE", None)
    assert [(r.feature, r.error_code) for r in answer.results] == [("transaction.version", 0)]
    assert (world.settings.transaction_version, world.topics.catalogue.features_epoch) == (1, 1)
    world.restart()
    assert (world.settings.transaction_version, world.topics.catalogue.features_epoch) == (1, 1)
    assert error(update(world, ("transaction.version", 2, UPGRADE), version=2)) == ("NONE", None)
    assert (world.settings.transaction_version, world.topics.catalogue.features_epoch) == (2, 2)
    assert error(update(world, ("transaction.version", 0, SAFE), version=2)) == ("NONE", None)
    assert world.settings.transaction_version == 0


def test_validating_a_feature_changes_nothing(world):
    assert error(update(world, ("transaction.version", 1, SAFE), validate_only=True)) == ("NONE", None)
    assert world.settings.transaction_version == 2


@pytest.mark.parametrize(
    ("feature", "level", "kind", "why"),
    [
        ("foo", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("metadata.version", 20, UPGRADE, "Local controller 1 does not support this feature."),
        ("transaction.version", 9, UPGRADE, "Local controller 1 only supports versions 0-2"),
        ("transaction.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("transaction.version", 1, 7, "The controller does not support the given upgrade type."),
        ("transaction.version", 1, UPGRADE, NO_DOWNGRADE),
    ],
)  # fmt: skip
def test_features_that_cannot_be_updated_leave_all_of_them_as_they_are(world, feature, level, kind, why):
    answer = update(world, ("transaction.version", 1, SAFE), (feature, level, kind))
    code, message = error(answer)
    assert code == "INVALID_UPDATE_VERSION"
    assert message.startswith("The update failed for all features since the following feature had an error: ")
    assert message.endswith(f"Invalid update version {level} for feature {feature}. {why}")
    assert world.settings.transaction_version == 2
