"""Topics that change while clients use them: created by use, found by pattern, grown, deleted and created again."""

import re

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.clients.facade import Client, Message, Refused, Spot, refused, settle
from tests.conftest import WAIT_TIMEOUT_S, MakeTopic, unique, wait_until

#: How often clients ask for metadata in these tests.
QUICK_METADATA_MS = 200

#: What may be said of a topic that is gone.
GONE = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")


def create_again(admin: AdminClient, name: str) -> None:
    """Delete a topic and create it again. A client that still asks for metadata may be the one that creates it."""

    def topic_id() -> str:
        (described,) = admin.describe_topics(TopicCollection([name])).values()
        try:
            return str(described.result(WAIT_TIMEOUT_S).topic_id)
        except KafkaException:
            return ""

    before = topic_id()
    admin.delete_topics([name], operation_timeout=10)[name].result(WAIT_TIMEOUT_S)
    try:
        admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=10)[name].result(WAIT_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    wait_until(lambda: topic_id() not in ("", before), f"{name} is a new topic")


class TestTopics:
    def test_a_topic_is_created_by_the_first_record_for_it(self, client: Client) -> None:
        name = unique("auto")
        client.producer().put(name, b"a")
        assert client.values(name) == [b"a"]

    def test_no_topic_is_created_by_use_where_that_is_switched_off(
        self, strict_client: Client, strict_admin: AdminClient
    ) -> None:
        name = unique("auto")
        with refused(*strict_client.no_such_topic):
            strict_client.producer(patience_ms=1000).put(name, b"a")
        assert name not in strict_admin.list_topics(timeout=WAIT_TIMEOUT_S).topics

    def test_a_pattern_takes_in_topics_that_are_created_later(self, client: Client, topic: MakeTopic) -> None:
        prefix = unique("pattern")
        one, other = topic(name=f"{prefix}.one"), topic(name=f"other.{prefix}")
        producer = client.producer()
        producer.deliver(Message(one, b"one"), Message(other, b"other"))
        consumer = client.consumer(
            pattern=f"{re.escape(prefix)}\\..*", group=unique("group"), metadata_max_age_ms=QUICK_METADATA_MS
        )
        assert [m.value for m in consumer.read(1)] == [b"one"]
        consumer.commit()
        two = topic(name=f"{prefix}.two")
        producer.put(two, b"two")
        assert [m.value for m in consumer.read(1)] == [b"two"]
        assert consumer.assignment() == {Spot(one, 0), Spot(two, 0)}

    def test_a_group_takes_up_partitions_that_are_added(
        self, client: Client, topic: MakeTopic, admin: AdminClient
    ) -> None:
        name = topic(partitions=2)
        consumer = client.consumer(name, group=unique("group"), metadata_max_age_ms=QUICK_METADATA_MS)
        consumer.until_assigned([Spot(name, 0), Spot(name, 1)])
        admin.create_partitions([NewPartitions(name, 4)])[name].result(WAIT_TIMEOUT_S)
        settle([consumer], lambda: len(consumer.assignment()) == 4, "all four are assigned")
        client.producer().deliver(*(Message(name, b"%d" % n, partition=n) for n in range(4)))
        assert sorted(m.value for m in consumer.read(4)) == [b"0", b"1", b"2", b"3"]

    def test_a_live_producer_writes_on_after_its_topic_was_created_again(
        self, client: Client, topic: MakeTopic, admin: AdminClient
    ) -> None:
        name = topic()
        producer = client.producer(metadata_max_age_ms=QUICK_METADATA_MS)
        producer.put(name, b"a", b"b")
        create_again(admin, name)

        def is_written() -> bool:
            # Between the two topics a client may be told that there is none; what it does then is its own affair.
            try:
                return producer.put(name, b"c") != []
            except Refused as error:
                if error.code not in (*GONE, *client.no_such_topic):
                    raise
                return False

        wait_until(is_written, "a record is in the new topic")
        assert client.read_all(name)[0].offset == 0
        assert set(client.values(name)) == {b"c"}

    def test_a_live_consumer_reads_on_after_its_topic_was_created_again(
        self, client: Client, topic: MakeTopic, admin: AdminClient
    ) -> None:
        name = topic()
        client.producer().put(name, *(b"old %d" % n for n in range(5)))
        consumer = client.consumer(metadata_max_age_ms=QUICK_METADATA_MS)
        consumer.assign([Spot(name, 0)])
        consumer.read(5)
        create_again(admin, name)
        producer, found = client.producer(), list[Message]()

        def is_read() -> bool:
            # It stands at offset 5 of a shorter log: it is reset, or goes on from where the logs part.
            producer.put(name, b"new")
            try:
                found.extend(consumer.poll())
            except Refused as error:
                if error.code not in (*GONE, *client.no_such_topic):
                    raise
            return bool(found)

        wait_until(is_read, "a record of the new topic is read")
        assert {m.value for m in found} == {b"new"}

    def test_a_producer_meets_no_trace_of_a_deleted_topic_in_the_new_one(
        self, client: Client, topic: MakeTopic, admin: AdminClient
    ) -> None:
        name = topic()
        transactional_id = unique("tx")
        producer = client.producer(transactional_id=transactional_id)
        producer.transact(name, b"old")
        create_again(admin, name)
        successor = client.producer(transactional_id=transactional_id)
        successor.transact(name, b"new")
        assert client.values(name) == [b"new"]
