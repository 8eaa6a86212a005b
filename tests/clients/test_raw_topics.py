"""Topics by hand: what Metadata, CreateTopics and their kin tell, and the rebalances that clients do not wait for."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.raw import Key, Wire, batch, errors
from tests.clients.raw_groups import Member
from tests.clients.raw_records import NOWHERE, id_of, produce
from tests.conftest import unique, wait_until

MakeTopic = Callable[..., str]


def new(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **options}


class TestMetadata:
    def test_all_topics_some_topics_and_none(self, wire: Wire, topic: MakeTopic) -> None:
        one, two = topic(), topic()
        everything = wire.call(Key.METADATA, 12, topics=None)
        assert {one, two} <= {each.name for each in everything.topics}
        some = wire.call(Key.METADATA, 12, topics=[{"name": one}])
        assert [each.name for each in some.topics] == [one]
        assert wire.call(Key.METADATA, 12, topics=[]).topics == ()
        # In version 0 an empty list asks for all.
        assert {one, two} <= {each.name for each in wire.call(Key.METADATA, 0, topics=[]).topics}

    def test_a_topic_is_found_by_its_id(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        (found,) = wire.call(Key.METADATA, 12, topics=[{"name": None, "topic_id": id_of(wire, name)}]).topics
        assert (found.name, errors(found)) == (name, set())
        (unknown,) = wire.call(Key.METADATA, 12, topics=[{"name": None, "topic_id": NOWHERE}]).topics
        assert errors(unknown) == {"UNKNOWN_TOPIC_ID"}

    def test_an_unknown_topic_is_created_only_when_that_is_allowed(self, wire: Wire) -> None:
        name = unique("auto")
        for _ in range(2):
            answer = wire.call(Key.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False)
            assert errors(answer) == {"UNKNOWN_TOPIC_OR_PARTITION"}
        wait_until(lambda: not errors(wire.call(Key.METADATA, 12, topics=[{"name": name}])), "it is created")

    def test_a_name_that_no_topic_can_have_is_refused(self, wire: Wire) -> None:
        for name in ("no spaces", "", "x" * 300):
            assert errors(wire.call(Key.METADATA, 12, topics=[{"name": name}])) == {"INVALID_TOPIC_EXCEPTION"}

    def test_a_partition_has_a_leader_that_is_its_only_replica(self, wire: Wire, topic: MakeTopic) -> None:
        answer = wire.call(Key.METADATA, 12, topics=[{"name": topic(partitions=2)}])
        (node,) = answer.brokers
        for partition in answer.topics[0].partitions:
            assert partition.leader_id == node.node_id
            assert partition.replica_nodes == partition.isr_nodes == (node.node_id,)
            assert partition.offline_replicas == ()
            assert partition.leader_epoch == 0

    @pytest.fixture
    def offsets_topic(self, wire: Wire, topic: MakeTopic) -> str:
        """The first committed offset makes it."""
        name, group = topic(), unique("group")
        wire.call(Key.FIND_COORDINATOR, 2, key=group, key_type=0)
        wait_until(lambda: not Member(wire, group).commit(name, 1), "it is committed")
        return "__consumer_offsets"

    def test_internal_topics_are_marked(self, wire: Wire, offsets_topic: str, topic: MakeTopic) -> None:
        plain = topic()
        marked = {each.name: each.is_internal for each in wire.call(Key.METADATA, 12, topics=None).topics}
        assert (marked[offsets_topic], marked[plain]) == (True, False)

    def test_no_client_writes_to_an_internal_topic(self, wire: Wire, offsets_topic: str) -> None:
        found = produce(wire, offsets_topic, batch(b"v", key=b"k"))
        assert errors(found) == {"INVALID_TOPIC_EXCEPTION"}


class TestCreating:
    def test_the_answer_tells_what_was_created(self, wire: Wire) -> None:
        name = unique("made")
        wanted = new(name, num_partitions=-1, replication_factor=-1, configs=[{"name": "retention.ms", "value": "7"}])
        (made,) = wire.call(Key.CREATE_TOPICS, 7, topics=[wanted], timeout_ms=5000).topics
        assert errors(made) == set()
        assert (made.num_partitions, made.replication_factor) == (1, 1)
        assert {each.name: each.value for each in made.configs}["retention.ms"] == "7"
        assert made.topic_id.bytes == wait_until(lambda: id_of(wire, name), "it is there")

    def test_a_name_that_comes_twice_is_refused_and_the_others_are_created(self, wire: Wire) -> None:
        twice, once = unique("twice"), unique("once")
        answer = wire.call(Key.CREATE_TOPICS, 7, topics=[new(twice), new(once), new(twice)], timeout_ms=5000)
        told = {each.name: errors(each) for each in answer.topics}
        assert told == {twice: {"INVALID_REQUEST"}, once: set()}

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ({"num_partitions": 0}, "INVALID_PARTITIONS"),
            ({"num_partitions": -2}, "INVALID_PARTITIONS"),
            ({"replication_factor": 0}, "INVALID_REPLICATION_FACTOR"),
            ({"replication_factor": 2}, "INVALID_REPLICATION_FACTOR"),
            ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, "INVALID_REQUEST"),
            ({"configs": [{"name": "retention.ms", "value": None}]}, "INVALID_CONFIG"),
            ({"configs": [{"name": "cleanup.policy", "value": "burn"}]}, "INVALID_CONFIG"),
        ],
    )
    def test_nonsense_is_refused(self, wire: Wire, options: dict[str, Any], code: str) -> None:
        answer = wire.call(Key.CREATE_TOPICS, 7, topics=[new(unique("made"), **options)], timeout_ms=5000)
        assert errors(answer) == {code}

    def test_a_topic_is_deleted_by_name_or_id_but_not_by_both(self, wire: Wire, topic: MakeTopic) -> None:
        one, two = topic(), topic()
        two_id = id_of(wire, two)
        asked = [{"name": one}, {"name": None, "topic_id": two_id}, {"name": None, "topic_id": NOWHERE}]
        told = [
            (each.name, errors(each))
            for each in wire.call(Key.DELETE_TOPICS, 6, topics=asked, timeout_ms=5000).responses
        ]
        assert sorted(told, key=lambda each: each[0] or "") == [
            (None, {"UNKNOWN_TOPIC_ID"}),
            *sorted([(one, set()), (two, set())]),
        ]
        three = topic()
        both = [{"name": three, "topic_id": id_of(wire, three)}]
        assert errors(wire.call(Key.DELETE_TOPICS, 6, topics=both, timeout_ms=5000)) == {"INVALID_REQUEST"}

    def test_records_of_a_compacted_topic_are_not_deleted_by_offset(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic(config={"cleanup.policy": "compact"})
        partition = {"partition_index": 0, "offset": -1}
        answer = wire.call(Key.DELETE_RECORDS, 2, topics=[{"name": name, "partitions": [partition]}], timeout_ms=5000)
        assert errors(answer) == {"POLICY_VIOLATION"}


class TestDescribing:
    def test_only_the_settings_asked_for_are_described(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic(config={"retention.ms": 777})
        wanted = {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms", "no.such.setting"]}
        answer = wire.call(
            Key.DESCRIBE_CONFIGS, 4, resources=[wanted], include_synonyms=True, include_documentation=True
        )
        (found,) = answer.results
        (entry,) = found.configs
        assert (entry.name, entry.value, entry.config_source) == ("retention.ms", "777", 1)
        assert [each.name for each in entry.synonyms][:1] == ["retention.ms"]
        assert entry.documentation

    def test_a_resource_of_no_known_kind_is_refused(self, wire: Wire) -> None:
        wanted = {"resource_type": 99, "resource_name": "x", "configuration_keys": None}
        assert errors(wire.call(Key.DESCRIBE_CONFIGS, 4, resources=[wanted])) == {"INVALID_REQUEST"}

    def test_partitions_are_described_from_a_cursor_on(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic(partitions=4)
        asked = {"topics": [{"name": name}], "response_partition_limit": 2}
        first = wire.call(Key.DESCRIBE_TOPIC_PARTITIONS, 0, **asked)
        assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == (name, 2)
        cursor = {"topic_name": name, "partition_index": 3}
        rest = wire.call(Key.DESCRIBE_TOPIC_PARTITIONS, 0, **asked, cursor=cursor)
        assert [each.partition_index for each in rest.topics[0].partitions] == [3]
        assert rest.next_cursor is None


class TestRebalanceTimeout:
    def test_a_member_that_does_not_join_again_in_time_is_left_behind(self, bootstrap: str, wire: Wire) -> None:
        group = unique("group")
        slow = Member(wire, group)
        wait_until(lambda: not slow.join(rebalance_timeout_ms=300), "it has joined")
        slow.sync(assignments={slow.member_id: b"all"})
        with Wire(bootstrap) as other:
            quick = Member(other, group)
            assert quick.join(rebalance_timeout_ms=300) == set()  # nobody answers for the slow one
            assert [each.member_id for each in quick.joined.members] == [quick.member_id]
        assert slow.heartbeat() == {"UNKNOWN_MEMBER_ID"}
