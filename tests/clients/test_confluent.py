"""confluent-kafka (librdkafka): the behaviours that all clients share, and its admin client."""

from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.clients.behaviour import *  # noqa: F403 - tests, which pytest finds here
from tests.clients.confluent import Confluent, named_errors
from tests.clients.facade import Client, Message, Spot, refused
from tests.conftest import WAIT_TIMEOUT_S, MakeTopic, unique, wait_until

CLIENT = Confluent


def result_of(futures: dict[Any, Any]) -> Any:
    """Of the only future among them; what it was refused for has Kafka's name."""
    (future,) = futures.values()
    with named_errors():
        return future.result(WAIT_TIMEOUT_S)


def config_of(admin: AdminClient, name: str) -> dict[str, ConfigEntry]:
    return result_of(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))


def alter(admin: AdminClient, topic: str, name: str, value: str | None, operation: AlterConfigOpType) -> None:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    result_of(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))


def partitions_of(admin: AdminClient, name: str) -> int:
    return len(admin.list_topics(name, timeout=WAIT_TIMEOUT_S).topics[name].partitions)


class TestTopicAdmin:
    def test_topics_are_created_with_settings_described_grown_and_deleted(self, admin: AdminClient) -> None:
        name, settings = unique("made"), {"retention.ms": "1234567", "cleanup.policy": "compact"}
        result_of(admin.create_topics([NewTopic(name, 3, 1, config=settings)], operation_timeout=10))
        wait_until(lambda: name in admin.list_topics(timeout=WAIT_TIMEOUT_S).topics, "it is there")
        described = result_of(admin.describe_topics(TopicCollection([name])))
        assert [p.id for p in described.partitions] == [0, 1, 2]
        assert all(p.leader is not None and len(p.replicas) == len(p.isr) == 1 for p in described.partitions)
        assert not described.is_internal
        config = config_of(admin, name)
        assert config["retention.ms"].value == "1234567"
        assert config["cleanup.policy"].value == "compact"
        result_of(admin.create_partitions([NewPartitions(name, 5)]))
        wait_until(lambda: partitions_of(admin, name) == 5, "there are five")
        with refused("INVALID_PARTITIONS"):
            result_of(admin.create_partitions([NewPartitions(name, 3)]))
        result_of(admin.delete_topics([name]))
        wait_until(lambda: name not in admin.list_topics(timeout=WAIT_TIMEOUT_S).topics, "it is gone")
        for asked in (admin.delete_topics([name]), admin.describe_topics(TopicCollection([name]))):
            with refused("UNKNOWN_TOPIC_OR_PARTITION"):
                result_of(asked)

    def test_settings_are_described_with_their_source(self, admin: AdminClient, topic: MakeTopic) -> None:
        config = config_of(admin, topic(config={"segment.bytes": 2_000_000}))
        assert config["segment.bytes"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        assert config["segment.bytes"].value == "2000000"
        assert config["retention.ms"].is_default
        assert config["retention.ms"].value == "604800000"
        assert {"cleanup.policy", "max.message.bytes", "min.insync.replicas", "compression.type"} <= config.keys()
        assert not any(entry.is_read_only or entry.is_sensitive for entry in config.values())

    def test_the_only_replica_is_enough_for_any_minimum(self, topic: MakeTopic, client: Client) -> None:
        name = topic(config={"min.insync.replicas": 2})
        client.producer().deliver(Message(name, b"value"))
        assert client.values(name) == [b"value"]

    def test_a_brokers_settings_are_described(self, admin: AdminClient) -> None:
        node = next(iter(admin.list_topics(timeout=WAIT_TIMEOUT_S).brokers))
        config = result_of(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]))
        assert config["num.partitions"].value == "1"
        assert config["auto.create.topics.enable"].value == "true"
        assert config["node.id"].is_read_only
        assert config["node.id"].value == str(node)

    def test_settings_are_set_appended_subtracted_and_deleted_one_by_one(
        self, admin: AdminClient, topic: MakeTopic
    ) -> None:
        name = topic(config={"retention.ms": 1000})
        alter(admin, name, "max.message.bytes", "5000", AlterConfigOpType.SET)
        alter(admin, name, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
        wait_until(lambda: config_of(admin, name)["cleanup.policy"].value == "delete,compact", "it is appended")
        alter(admin, name, "cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
        wait_until(lambda: config_of(admin, name)["cleanup.policy"].value == "compact", "it is subtracted")
        alter(admin, name, "retention.ms", None, AlterConfigOpType.DELETE)
        wait_until(lambda: config_of(admin, name)["retention.ms"].is_default, "it is the default")
        assert config_of(admin, name)["max.message.bytes"].value == "5000"
        with refused("INVALID_CONFIG"):
            alter(admin, name, "max.message.bytes", "many", AlterConfigOpType.SET)

    def test_a_setting_takes_effect_at_once(self, admin: AdminClient, topic: MakeTopic, client: Client) -> None:
        name = topic()
        producer = client.producer()
        producer.put(name, b"x" * 3000)
        alter(admin, name, "max.message.bytes", "1000", AlterConfigOpType.SET)
        wait_until(lambda: config_of(admin, name)["max.message.bytes"].value == "1000", "it is set")
        with refused("MESSAGE_TOO_LARGE"):
            producer.put(name, b"x" * 3000)

    def test_deleted_records_are_gone_and_the_log_begins_later(
        self, admin: AdminClient, topic: MakeTopic, client: Client
    ) -> None:
        name = topic()
        client.producer().put(name, *(b"%d" % n for n in range(10)))
        assert result_of(admin.delete_records([TopicPartition(name, 0, 4)])).low_watermark == 4
        assert [m.offset for m in client.read_all(name)] == [4, 5, 6, 7, 8, 9]
        with refused("OFFSET_OUT_OF_RANGE"):
            result_of(admin.delete_records([TopicPartition(name, 0, 11)]))
        assert result_of(admin.delete_records([TopicPartition(name, 0, -1)])).low_watermark == 10
        assert client.read_all(name) == []
        assert client.producer().put(name, b"after")[0].offset == 10

    def test_a_reader_below_the_new_beginning_is_reset(
        self, admin: AdminClient, topic: MakeTopic, client: Client
    ) -> None:
        name = topic()
        client.producer().put(name, *(b"%d" % n for n in range(10)))
        consumer = client.consumer()
        consumer.assign([Spot(name, 0)])
        consumer.read(10)
        result_of(admin.delete_records([TopicPartition(name, 0, 7)]))
        consumer.seek(Spot(name, 0), 2)
        assert [m.offset for m in consumer.read(3)] == [7, 8, 9]


class TestGroupAdmin:
    def test_a_live_group_is_listed_and_described_but_neither_altered_nor_deleted(
        self, admin: AdminClient, client: Client, group: tuple[str, str]
    ) -> None:
        def states(*wanted: ConsumerGroupState) -> dict[str, Any]:
            options: dict[str, Any] = {"states": set(wanted)} if wanted else {}
            found = admin.list_consumer_groups(request_timeout=WAIT_TIMEOUT_S, **options).result(WAIT_TIMEOUT_S)
            assert found.errors == []
            return {each.group_id: each.state for each in found.valid}

        name, topic = group
        assert states()[name] == ConsumerGroupState.EMPTY
        client.consumer(topic, group=name, instance_id="me").until_assigned([Spot(topic, 0)])
        assert states()[name] == ConsumerGroupState.STABLE
        assert name in states(ConsumerGroupState.STABLE)
        assert name not in states(ConsumerGroupState.EMPTY)
        found = result_of(admin.describe_consumer_groups([name]))
        assert (found.state, found.partition_assignor) == (ConsumerGroupState.STABLE, "range")
        (member,) = found.members
        assert (member.group_instance_id, member.client_id, member.host) == ("me", "rdkafka", "/127.0.0.1")
        assert [(p.topic, p.partition) for p in member.assignment.topic_partitions] == [(topic, 0)]
        wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 1)])
        answer = result_of(admin.alter_consumer_group_offsets([wanted]))
        assert answer.topic_partitions[0].error.name() == "UNKNOWN_MEMBER_ID"
        with refused("NON_EMPTY_GROUP"):
            result_of(admin.delete_consumer_groups([name]))

    def test_a_group_that_is_not_there_is_described_as_dead(self, admin: AdminClient) -> None:
        found = result_of(admin.describe_consumer_groups([unique("unknown")]))
        assert found.state == ConsumerGroupState.DEAD

    def test_the_offsets_of_an_empty_group_are_listed_and_altered_and_go_with_the_group(
        self, admin: AdminClient, client: Client, group: tuple[str, str]
    ) -> None:
        name, topic = group

        def committed() -> list[tuple[str, int, int]]:
            found = result_of(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))
            return [(p.topic, p.partition, p.offset) for p in found.topic_partitions]

        assert committed() == [(topic, 0, 2)]
        wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 1)])
        result_of(admin.alter_consumer_group_offsets([wanted]))
        assert committed() == [(topic, 0, 1)]
        result_of(admin.delete_consumer_groups([name]))
        with refused("GROUP_ID_NOT_FOUND"):
            result_of(admin.delete_consumer_groups([name]))
        assert client.consumer(group=name).committed(Spot(topic, 0)) is None


class TestClusterAdmin:
    def test_the_cluster_names_itself_its_brokers_and_its_controller(self, admin: AdminClient, bootstrap: str) -> None:
        found = admin.describe_cluster(request_timeout=WAIT_TIMEOUT_S).result(WAIT_TIMEOUT_S)
        (node,) = found.nodes
        assert f"{node.host}:{node.port}" == bootstrap
        assert found.controller.id == node.id
        assert found.cluster_id == admin.list_topics(timeout=WAIT_TIMEOUT_S).cluster_id != ""

    def test_an_election_is_not_needed(self, admin: AdminClient, topic: MakeTopic) -> None:
        spot = TopicPartition(topic(), 0)
        found = admin.elect_leaders(ElectionType.PREFERRED, [spot]).result(WAIT_TIMEOUT_S)
        (error,) = found.values()
        assert error.name() == "ELECTION_NOT_NEEDED"
