"""Metadata by hand: which topics and partitions it shows, which it creates, and which are internal."""

import pytest

from tests.clients.raw import Key, Wire, batch, errors
from tests.clients.raw_groups import Member
from tests.clients.raw_records import NOWHERE, id_of, produce
from tests.conftest import MakeTopic, unique, wait_until


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
