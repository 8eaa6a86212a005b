"""Records: every client reads what was produced. What is refused gets the error that Kafka gives."""

import time
from collections.abc import Callable
from typing import ClassVar

import pytest

from tests.clients.facade import APPEND_TIME, COMPRESSIONS, CREATE_TIME, Client, Message, Spot, refused
from tests.clients.registry import CLIENTS
from tests.conftest import MakeTopic

OpenClient = Callable[[str], Client]
HEADERS = (
    ("plain", b"value"),
    ("twice", b"first"),
    ("twice", b"second"),
    ("höhe/高さ", "größe ☃".encode()),
    ("empty", b""),
    ("binary", bytes(range(256))),
)


class TestRecords:
    #: What has been written already, so that the readers share it: (client, compression) to topic and messages.
    written: ClassVar[dict[tuple[str, str], tuple[str, list[Message]]]] = {}

    def write_once(self, client: Client, compression: str, topic: MakeTopic) -> tuple[str, list[Message]]:
        if (client.name, compression) not in self.written:
            name = topic(partitions=2, prefix=f"{client.name}-{compression}")
            now = int(time.time() * 1000)
            messages = [
                Message(name, b"value %d " % n * 20, b"key %d" % n, (("n", b"%d" % n),), n % 2, now + n)
                for n in range(100)
            ]
            client.producer(compression=compression).deliver(*messages)
            self.written[client.name, compression] = (name, messages)
        return self.written[client.name, compression]

    @pytest.mark.parametrize("compression", COMPRESSIONS)
    @pytest.mark.parametrize("reader", sorted(CLIENTS))
    def test_every_client_reads_what_is_written_with_every_compression(
        self, client: Client, open_client: OpenClient, topic: MakeTopic, compression: str, reader: str
    ) -> None:
        name, messages = self.write_once(client, compression, topic)
        found = open_client(reader).read_all(name, partitions=2)
        assert [(m.partition, m.key, m.value, m.headers, m.timestamp) for m in found] == [
            (m.partition, m.key, m.value, m.headers, m.timestamp) for m in sorted(messages, key=lambda m: m.partition)
        ]
        assert [m.offset for m in found] == [*range(50), *range(50)]

    @pytest.mark.parametrize("reader", sorted(CLIENTS))
    def test_headers_keep_their_order_their_repeats_and_their_bytes(
        self, client: Client, open_client: OpenClient, topic: MakeTopic, reader: str
    ) -> None:
        name = topic()
        headers = (*HEADERS, ("null", None)) if client.writes_null_headers else HEADERS
        client.producer().deliver(Message(name, b"v", headers=headers), Message(name, b"no headers"))
        first, second = open_client(reader).read_all(name)
        assert first.headers == headers
        assert second.headers == ()

    @pytest.mark.parametrize("reader", sorted(CLIENTS))
    def test_null_and_empty_keys_and_values_stay_apart(
        self, client: Client, open_client: OpenClient, topic: MakeTopic, reader: str
    ) -> None:
        name = topic()
        pairs = [(b"k", None), (None, b"v"), (b"", b""), (b"k", b""), (b"", None)]
        if client.writes_empty_records:
            pairs.append((None, None))
        client.producer().deliver(*(Message(name, value, key) for key, value in pairs))
        assert [(m.key, m.value) for m in open_client(reader).read_all(name)] == pairs

    def test_a_topic_with_create_time_keeps_the_producers_timestamps(self, client: Client, topic: MakeTopic) -> None:
        name = topic(config={"message.timestamp.type": "CreateTime", "retention.ms": -1})
        times = [1, 1_600_000_000_000, int(time.time() * 1000)]
        client.producer().deliver(*(Message(name, b"v", timestamp=at) for at in times))
        found = client.read_all(name)
        assert [(m.timestamp, m.timestamp_type) for m in found] == [(at, CREATE_TIME) for at in times]

    @pytest.mark.parametrize("compression", ["none", "zstd"])
    def test_a_topic_with_append_time_stamps_records_with_the_brokers_clock(
        self, client: Client, topic: MakeTopic, compression: str
    ) -> None:
        name = topic(config={"message.timestamp.type": "LogAppendTime"})
        before = int(time.time() * 1000)
        sent = client.producer(compression=compression).deliver(
            *(Message(name, b"v", timestamp=1_600_000_000_000 + n) for n in range(3))
        )
        after = int(time.time() * 1000)
        found = client.read_all(name)
        assert [m.timestamp_type for m in found] == [APPEND_TIME] * 3
        assert all(before <= m.timestamp <= after for m in found)
        assert [s.timestamp for s in sent] == [m.timestamp for m in found]

    def test_a_timestamp_too_far_from_the_brokers_clock_is_refused(self, client: Client, topic: MakeTopic) -> None:
        name = topic(config={"message.timestamp.before.max.ms": 1000, "message.timestamp.after.max.ms": 1000})
        producer, now = client.producer(), int(time.time() * 1000)
        with refused("INVALID_TIMESTAMP"):
            producer.deliver(Message(name, b"old", timestamp=now - 100_000))
        with refused("INVALID_TIMESTAMP"):
            producer.deliver(Message(name, b"early", timestamp=now + 100_000))
        producer.deliver(Message(name, b"right"))
        assert client.values(name) == [b"right"]

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_records_arrive_with_every_kind_of_acknowledgement(
        self, client: Client, topic: MakeTopic, acks: str
    ) -> None:
        name = topic()
        sent = client.producer(acks=acks).put(name, b"a", b"b", b"c")
        if acks != "0":
            assert [s.offset for s in sent] == [0, 1, 2]
        reader = client.consumer()
        reader.assign([Spot(name, 0)])
        assert [m.value for m in reader.read(3)] == [b"a", b"b", b"c"]

    def test_an_idempotent_producer_writes_each_record_once_and_in_order(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name = topic(partitions=3)
        values = [b"%d" % n for n in range(600)]
        producer = client.producer(idempotent=True)
        sent = producer.deliver(*(Message(name, value, partition=n % 3) for n, value in enumerate(values)))
        assert [s.offset for s in sent] == [n // 3 for n in range(600)]
        for partition in range(3):
            found = [m.value for m in client.read_all(name, partitions=3) if m.partition == partition]
            assert found == values[partition::3]

    @pytest.mark.parametrize("compression", ["none", "lz4"])
    def test_a_record_of_some_megabytes_makes_the_round_trip(
        self, client: Client, topic: MakeTopic, compression: str
    ) -> None:
        name = topic(config={"max.message.bytes": 5_000_000})
        value = b"".join(b"%d," % n for n in range(400_000))
        client.producer(max_bytes=4_500_000, compression=compression).put(name, b"small", value, b"after")
        assert client.values(name) == [b"small", value, b"after"]

    def test_a_record_over_max_message_bytes_is_refused_and_the_producer_goes_on(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name = topic(config={"max.message.bytes": 2000})
        producer = client.producer()
        producer.put(name, b"before")
        with refused("MESSAGE_TOO_LARGE"):
            producer.put(name, b"x" * 3000)
        producer.put(name, b"after")
        assert client.values(name) == [b"before", b"after"]

    def test_a_compacted_topic_refuses_a_record_without_a_key(self, client: Client, topic: MakeTopic) -> None:
        name = topic(config={"cleanup.policy": "compact"})
        producer = client.producer()
        with refused(client.invalid_record):
            producer.deliver(Message(name, b"no key"))
        producer.deliver(Message(name, b"v", b"k"), Message(name, None, b"k"))
        assert [(m.key, m.value) for m in client.read_all(name)] == [(b"k", b"v"), (b"k", None)]

    def test_a_topic_of_120_partitions_takes_and_gives_records_in_each(self, client: Client, topic: MakeTopic) -> None:
        name = topic(partitions=120)
        client.producer().deliver(*(Message(name, b"%d" % n, partition=n) for n in range(120)))
        found = client.read_all(name, partitions=120)
        assert [(m.partition, m.offset, m.value) for m in found] == [(n, 0, b"%d" % n) for n in range(120)]

    def test_an_empty_topic_begins_and_ends_at_offset_zero(self, client: Client, topic: MakeTopic) -> None:
        name = topic(partitions=2)
        consumer = client.consumer()
        consumer.assign([Spot(name, 0), Spot(name, 1)])
        assert consumer.poll() == []
        assert [consumer.bounds(Spot(name, partition)) for partition in range(2)] == [(0, 0), (0, 0)]
        assert client.read_all(name, partitions=2) == []
