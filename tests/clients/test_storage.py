"""What happens to stored records in time: retention, compaction, and much of everything."""

from collections.abc import Callable
from typing import ClassVar

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.lab.kit.servers import Ours, Server
from fencepost.security.names import Protocol
from tests.clients.confluent import Confluent
from tests.clients.facade import COMMITTED, UNCOMMITTED, Client, Message, Spot
from tests.conftest import BUSY_SETTINGS, MakeTopic, topic_maker, unique, wait_until

CLIENT = Confluent


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, is_original: bool, start_broker: Callable[..., Ours], security: Protocol | None
) -> Server:
    """A broker that looks for something to delete or to compact ten times a second."""
    if is_original:
        return request.getfixturevalue("original")
    return start_broker(BUSY_SETTINGS, security)


@pytest.fixture(scope="module")
def admin(server: Server) -> AdminClient:
    return AdminClient(server.client_config("confluent"))


@pytest.fixture(scope="module")
def topic(admin: AdminClient) -> MakeTopic:
    return topic_maker(admin)


class TestRetention:
    def test_old_segments_go_and_the_log_begins_later(self, client: Client, topic: MakeTopic) -> None:
        name = topic(config={"retention.ms": 500, "segment.ms": 200})
        producer = client.producer()
        producer.put(name, b"old")
        consumer, spot = client.consumer(), Spot(name, 0)
        consumer.assign([spot])

        def is_rolled() -> bool:
            producer.put(name, b"more")
            return consumer.bounds(spot)[0] > 0

        wait_until(is_rolled, "the first segment is deleted")
        assert b"old" not in client.values(name)

    def test_a_log_is_kept_below_its_size(self, client: Client, topic: MakeTopic) -> None:
        name = topic(config={"retention.bytes": 1_500_000, "segment.bytes": 1_048_576})
        client.producer().deliver(*(Message(name, b"x" * 100_000) for _ in range(50)))
        consumer, spot = client.consumer(), Spot(name, 0)
        consumer.assign([spot])
        wait_until(lambda: consumer.bounds(spot)[0] >= 20, "segments are deleted")
        first, end = consumer.bounds(spot)
        assert end == 50
        assert end - first >= 10, "what the limit allows stays"


class TestCompaction:
    CONFIG: ClassVar[dict[str, object]] = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0.01,
        "segment.ms": 100,
        "delete.retention.ms": 100,
    }

    def test_the_last_value_of_each_key_stays_and_tombstones_go(self, client: Client, topic: MakeTopic) -> None:
        name = topic(config=self.CONFIG)
        producer = client.producer()
        for turn in range(3):
            producer.deliver(*(Message(name, b"%d" % turn, b"key %d" % n) for n in range(5)))
        producer.deliver(Message(name, None, b"key 0"))

        def kept() -> dict[bytes | None, list[bytes | None]]:
            producer.deliver(Message(name, b"rolls the segment", b"roller"))
            found: dict[bytes | None, list[bytes | None]] = {}
            for message in client.read_all(name):
                found.setdefault(message.key, []).append(message.value)
            found.pop(b"roller")
            return found

        wanted = {b"key %d" % n: [b"2"] for n in range(1, 5)}
        wait_until(lambda: kept() == wanted, "only the last values are left")

    def test_aborted_records_go_and_committed_ones_stay(self, client: Client, topic: MakeTopic) -> None:
        name = topic(config=self.CONFIG)
        producer = client.producer(transactional_id=unique("tx"))
        for value, commit in ((b"first", True), (b"aborted", False), (b"last", True), (b"aborted", False)):
            producer.begin()
            producer.deliver(*(Message(name, value, b"key %d" % n) for n in range(3)))
            producer.end(commit=commit)
        plain = client.producer()

        def kept(isolation: str) -> list[tuple[bytes | None, bytes | None]]:
            plain.deliver(Message(name, b"rolls the segment", b"roller"))
            found = client.read_all(name, isolation=isolation)
            return [(m.key, m.value) for m in found if m.key != b"roller"]

        wanted = [(b"key %d" % n, b"last") for n in range(3)]
        wait_until(lambda: kept(UNCOMMITTED) == wanted, "only the last committed values are left")
        assert kept(COMMITTED) == wanted


class TestMuch:
    def test_ten_megabytes_come_back_in_order(self, client: Client, topic: MakeTopic) -> None:
        name = topic(partitions=3)
        messages = [Message(name, b"%06d" % n + b"x" * 1000, partition=n % 3) for n in range(10_000)]
        client.producer(compression="lz4").deliver(*messages)
        found = client.read_all(name, partitions=3)
        assert [m.value for m in found] == [m.value for m in sorted(messages, key=lambda m: m.partition or 0)]

    def test_internal_topics_can_be_read(self, client: Client, topic: MakeTopic) -> None:
        consumer = client.consumer(group=unique("group"))
        name = topic()
        consumer.assign([Spot(name, 0)])
        consumer.commit({Spot(name, 0): 1})
        found = client.read_all("__consumer_offsets", partitions=50)
        assert any(name.encode() in (message.key or b"") for message in found)
