"""kafka-python: the behaviours that all clients share, and its admin client, which knows transactions (KIP-664)."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import kafka.errors
import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import (
    AbortTransactionSpec,
    ConfigResource,
    MemberToRemove,
    OffsetSpec,
    OffsetTimestamp,
    TransactionState,
)
from kafka.protocol.consumer import IsolationLevel

from tests.clients.behaviour import *  # noqa: F403 - tests, which pytest finds here
from tests.clients.facade import Client, Message, Spot, refused
from tests.clients.kafka_python import KafkaPython, named_errors
from tests.conftest import MakeTopic, unique, wait_until

CLIENT = KafkaPython


@pytest.fixture(scope="module")
def manager(client_config: Callable[[str], dict[str, Any]]) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client."""
    with contextlib.closing(KafkaAdminClient(**client_config("kafka-python"))) as opened:
        yield opened


class TestTopicAdmin:
    def test_topics_are_created_described_grown_and_deleted(self, manager: KafkaAdminClient) -> None:
        name = unique("made")
        manager.create_topics(
            {name: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "5000"}}},
            wait_for_metadata=True,
        )
        (described,) = manager.describe_topics([name])
        assert sorted(p["partition_index"] for p in described["partitions"]) == [0, 1, 2]
        assert name in manager.list_topics()
        manager.create_partitions({name: 5})
        wait_until(lambda: len(manager.describe_topics([name])[0]["partitions"]) == 5, "there are five")
        with refused("INVALID_PARTITIONS"), named_errors():
            manager.create_partitions({name: 2})
        manager.delete_topics([name])
        wait_until(lambda: name not in manager.list_topics(), "it is gone")

    def test_a_topic_with_nothing_said_of_it_has_the_brokers_defaults(self, manager: KafkaAdminClient) -> None:
        name = unique("made")
        manager.create_topics([name], wait_for_metadata=True)
        (described,) = manager.describe_topics([name])
        assert len(described["partitions"]) == 1

    def test_a_topic_is_deleted_by_its_id(self, manager: KafkaAdminClient, topic: MakeTopic) -> None:
        name = topic()
        (described,) = manager.describe_topics([name])
        topic_id = uuid.UUID(str(described["topic_id"]))
        answer = manager.delete_topics([topic_id])
        assert answer["topics"][0]["name"] == name
        wait_until(lambda: name not in manager.list_topics(), "it is gone")
        with refused("UNKNOWN_TOPIC_ID"), named_errors():
            manager.delete_topics([topic_id])

    def test_partitions_are_described_page_by_page(self, manager: KafkaAdminClient, topic: MakeTopic) -> None:
        name = topic(partitions=5)
        first = manager.describe_topic_partitions([name], response_partition_limit=3)
        (described,) = first["topics"]
        assert [p["partition_index"] for p in described["partitions"]] == [0, 1, 2]
        second = manager.describe_topic_partitions([name], response_partition_limit=3, cursor=first["next_cursor"])
        (described,) = second["topics"]
        assert [p["partition_index"] for p in described["partitions"]] == [3, 4]
        assert second["next_cursor"] is None

    def test_settings_are_described_altered_and_reset(self, manager: KafkaAdminClient, topic: MakeTopic) -> None:
        name = topic()

        def modified() -> dict[str, Any]:
            found = manager.describe_configs([ConfigResource("TOPIC", name)])["topic"][name]
            return {key: entry["value"] for key, entry in found.items()}

        assert modified() == {}
        answer = manager.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "777", "segment.ms": "99999"})])
        assert answer == {"topic": {name: "OK"}}
        wait_until(lambda: modified() == {"retention.ms": "777", "segment.ms": "99999"}, "both are set")
        found = manager.describe_configs(
            [ConfigResource("TOPIC", name, ["retention.ms"])], include_synonyms=True, config_filter="all"
        )
        synonyms = found["topic"][name]["retention.ms"]["synonyms"]
        assert next(synonym["name"] for synonym in synonyms) == "retention.ms"
        manager.reset_configs([ConfigResource("TOPIC", name, {"retention.ms": None})])
        wait_until(lambda: modified() == {"segment.ms": "99999"}, "one is reset")

    def test_records_are_deleted(self, manager: KafkaAdminClient, topic: MakeTopic, client: Client) -> None:
        name = topic()
        client.producer().put(name, b"a", b"b", b"c")
        answer = manager.delete_records({TopicPartition(name, 0): 2})
        assert answer[TopicPartition(name, 0)]["low_watermark"] == 2
        assert client.values(name) == [b"c"]

    def test_offsets_are_listed_by_every_way_to_ask(
        self, manager: KafkaAdminClient, topic: MakeTopic, client: Client
    ) -> None:
        name, base = topic(), int(time.time() * 1000) - 10_000
        producer = client.producer()
        for at in (0, 5000, 2000):
            producer.deliver(Message(name, b"v", timestamp=base + at))

        def offset(spec: Any) -> int:
            spot = TopicPartition(name, 0)
            return manager.list_partition_offsets({spot: spec}, IsolationLevel.READ_COMMITTED)[spot].offset

        assert offset(OffsetSpec.EARLIEST) == 0
        assert offset(OffsetSpec.LATEST) == 3
        assert offset(OffsetSpec.MAX_TIMESTAMP) == 1
        assert offset(OffsetTimestamp(base + 1)) == 1
        assert offset(OffsetTimestamp(base + 6000)) == -1

    def test_resources_with_settings_are_listed(self, manager: KafkaAdminClient, topic: MakeTopic) -> None:
        name = topic(config={"retention.ms": 777})
        assert name in manager.list_config_resources(["TOPIC"])["topic"]


class TestGroupAdmin:
    def test_a_live_group_is_listed_and_described_but_not_deleted_nor_its_offsets(
        self, manager: KafkaAdminClient, client: Client, group: tuple[str, str]
    ) -> None:
        name, topic = group
        client.consumer(topic, group=name).until_assigned([Spot(topic, 0)])
        (listed,) = [each for each in manager.list_groups(states_filter=["Stable"]) if each["group_id"] == name]
        assert (listed["protocol_type"], listed["group_type"]) == ("consumer", "classic")
        assert name not in [each["group_id"] for each in manager.list_groups(types_filter=["consumer"])]
        described = manager.describe_groups([name])[name]
        assert described["error"] is None
        assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
        assert len(described["members"]) == 1
        spot = TopicPartition(topic, 0)
        assert manager.delete_group_offsets(name, [spot])[spot].errno == 86  # GROUP_SUBSCRIBED_TO_TOPIC
        assert manager.delete_groups([name])[name] != "OK"

    def test_an_unknown_group_is_said_to_be_unknown(self, manager: KafkaAdminClient) -> None:
        name = unique("unknown")
        described = manager.describe_groups([name])[name]
        assert "69" in described["error"]  # GROUP_ID_NOT_FOUND, since DescribeGroups v6
        assert described["group_state"] == "Dead"

    def test_the_offsets_of_an_empty_group_are_listed_altered_reset_and_deleted_and_so_is_the_group(
        self, manager: KafkaAdminClient, group: tuple[str, str]
    ) -> None:
        name, topic = group
        spot = TopicPartition(topic, 0)

        def committed() -> dict[Any, int]:
            return {each: found.offset for each, found in manager.list_group_offsets({name: None})[name].items()}

        assert committed() == {spot: 2}
        manager.alter_group_offsets(name, {spot: OffsetAndMetadata(1, "note", -1)})
        assert manager.list_group_offsets({name: [spot]})[name][spot].metadata == "note"
        assert committed() == {spot: 1}
        manager.reset_group_offsets(name, {spot: OffsetSpec.LATEST})
        assert committed() == {spot: 3}
        assert manager.delete_group_offsets(name, [spot]) == {spot: kafka.errors.NoError}
        assert committed() == {}
        assert manager.delete_groups([name])[name] == "OK"
        assert name not in [each["group_id"] for each in manager.list_groups()]

    def test_a_member_is_removed_by_its_instance_id(
        self, manager: KafkaAdminClient, client: Client, group: tuple[str, str]
    ) -> None:
        name, topic = group
        consumer = client.consumer(topic, group=name, instance_id="me")
        consumer.until_assigned([Spot(topic, 0)])
        client.close_one(consumer)
        assert len(manager.describe_groups([name])[name]["members"]) == 1
        answer = manager.remove_group_members(name, [MemberToRemove(group_instance_id="me", reason="a test")])
        assert set(answer.values()) == {kafka.errors.NoError}
        assert manager.describe_groups([name])[name]["group_state"] == "Empty"


class TestTransactionAdmin:
    def test_a_transaction_is_listed_and_described_from_open_to_committed(
        self, manager: KafkaAdminClient, topic: MakeTopic, client: Client
    ) -> None:
        name, transactional_id = topic(partitions=2), unique("tx")
        producer = client.producer(transactional_id=transactional_id, transaction_timeout_ms=54_321)

        def listed(**filters: Any) -> dict[str, Any]:
            (found,) = manager.list_transactions(**filters).values()
            return {each.transactional_id: each.state for each in found}

        def described() -> Any:
            return manager.describe_transactions([transactional_id])[transactional_id]

        assert listed()[transactional_id] == TransactionState.EMPTY
        before = int(time.time() * 1000)
        producer.begin()
        producer.put(name, b"a", partition=1)
        assert listed(state_filters=["Ongoing"])[transactional_id] == TransactionState.ONGOING
        assert transactional_id not in listed(state_filters=["Empty"])
        assert transactional_id not in listed(duration_filter_ms=100_000)
        assert listed(producer_id_filters=[described().producer_id]) == {transactional_id: TransactionState.ONGOING}
        found = described()
        assert found.state == TransactionState.ONGOING
        assert found.topic_partitions == {TopicPartition(name, 1)}
        assert found.transaction_timeout_ms == 54_321
        assert before <= found.transaction_start_time_ms <= time.time() * 1000
        producer.commit()
        wait_until(lambda: described().state == TransactionState.COMPLETE_COMMIT, "it is complete")
        assert described().topic_partitions == set()

    def test_an_unknown_transactional_id_is_said_to_be_unknown(self, manager: KafkaAdminClient) -> None:
        with refused("TRANSACTIONAL_ID_NOT_FOUND"), named_errors():
            manager.describe_transactions([unique("tx")])

    def test_the_producers_of_a_partition_are_described(
        self, manager: KafkaAdminClient, topic: MakeTopic, client: Client
    ) -> None:
        name = topic()
        client.producer().put(name, b"unknown to all")
        client.producer(idempotent=True).put(name, b"a", b"b")
        producer = client.producer(transactional_id=unique("tx"))
        producer.begin()
        producer.put(name, b"c")
        found = manager.describe_producers([TopicPartition(name, 0)])[TopicPartition(name, 0)].active_producers
        assert sorted((p.last_sequence, p.current_transaction_start_offset) for p in found) == [(0, 3), (1, -1)]
        producer.abort()

    def test_a_hanging_transaction_is_aborted_from_outside(
        self, manager: KafkaAdminClient, topic: MakeTopic, client: Client
    ) -> None:
        name = topic()
        producer = client.producer(transactional_id=unique("tx"))
        producer.begin()
        producer.put(name, b"hanging")
        client.producer().put(name, b"behind")
        assert client.values(name) == []
        spot = TopicPartition(name, 0)
        (open_one,) = [
            each
            for each in manager.describe_producers([spot])[spot].active_producers
            if each.current_transaction_start_offset >= 0
        ]
        manager.abort_transaction(
            AbortTransactionSpec(spot, open_one.producer_id, open_one.producer_epoch, open_one.coordinator_epoch)
        )
        assert client.values(name) == [b"behind"]


class TestClusterAdmin:
    def test_the_cluster_is_described(self, manager: KafkaAdminClient, bootstrap: str) -> None:
        found = manager.describe_cluster()
        (node,) = found["brokers"]
        assert f"{node['host']}:{node['port']}" == bootstrap
        assert found["controller_id"] == node["broker_id"]
        assert found["cluster_id"]

    def test_the_second_transaction_protocol_is_announced(self, manager: KafkaAdminClient) -> None:
        features = manager.describe_features()
        assert features["transaction.version"]["finalized"][1] == 2

    def test_log_directories_are_described_with_their_sizes(
        self, manager: KafkaAdminClient, topic: MakeTopic, client: Client
    ) -> None:
        name = topic()
        client.producer().put(name, b"x" * 1000)
        (answer,) = manager.describe_log_dirs({name: [0]})
        (directory,) = answer["log_dirs"]
        assert directory["error_code"] == 0
        (described,) = directory["topics"]
        assert described["partitions"][0]["partition_size"] > 1000
