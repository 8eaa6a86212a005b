"""Reading ranges: all of a range or an error, of any writer and with any outcome of its transactions."""

import itertools
import logging
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Spot

from fencepost.client import Cluster
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.offsets import latest
from fencepost.client.reading import OnDataLoss, read_range
from fencepost.errors import GaveUp, OffsetsOutOfRange
from fencepost.lab.kit.servers import Ours
from fencepost.wire.compression import Compression
from fencepost.wire.terms import Isolation, TopicPartition
from tests.client.support import read_all, read_settled, settle, started, values, write
from tests.conftest import unique


def commit(cluster: Cluster, topic: str, items: list[str], **more) -> None:
    transaction = started(cluster)
    write(cluster, transaction.begin(), topic, items, **more)
    transaction.commit()
    settle(cluster, topic)


@pytest.mark.parametrize("compression", list(Compression), ids=lambda codec: codec.name)
def test_what_we_wrote_is_read_by_others_and_by_us(cluster, bootstrap, topic, compression):
    name = topic(partitions=3)
    items = [f"{index} {'x' * 50}" for index in range(3000)]
    commit(cluster, name, items, compression=compression)
    assert read_all(cluster, name) == sorted(items)

    options = {"bootstrap.servers": bootstrap, "group.id": unique("group"), "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "isolation.level": "read_committed"})
    consumer.subscribe([name])
    got = []
    while len(got) < len(items):
        got += [message for message in consumer.consume(500, 5) if message.error() is None]
    consumer.close()
    assert sorted(message.value().decode() for message in got) == sorted(items)
    assert {message.key(): message.value() for message in got} == {item.encode(): item.encode() for item in items}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_others_wrote_is_read(cluster, bootstrap, topic, codec):
    name = topic()
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
    for index in range(2000):
        headers = [("h", b"x"), ("h", None)] if index % 2 else None
        producer.produce(name, f"{index}".encode() * 3, key=None if index % 3 else b"k", headers=headers)
    producer.flush(20)
    where = TopicPartition(name, 0)
    end = latest(cluster, [where])[where]
    rows = [row for part in read_range(cluster, where, 0, end, include_headers=True) for row in part.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(2000))
    assert [row["value"] for row in rows] == [f"{index}".encode() * 3 for index in range(2000)]
    assert [row["key"] for row in rows[:4]] == [b"k", None, None, b"k"]
    assert rows[1]["headers"] == [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    assert rows[0]["headers"] is None


def test_a_range_is_read_exactly(cluster, topic):
    name = topic()
    commit(cluster, name, [str(index) for index in range(1000)], target_bytes=2048)
    where = TopicPartition(name, 0)
    for start, end in [(0, 1000), (1, 2), (333, 777), (999, 1000), (10, 10), (20, 10)]:
        assert values(read_range(cluster, where, start, end)) == [str(index) for index in range(start, end)]


@pytest.mark.parametrize(("fetch_bytes", "batch_bytes"), [(1, 1), (3000, 1 << 20), (1 << 20, 5000)])
def test_any_size_of_fetches_and_batches_gives_the_same(cluster, topic, fetch_bytes, batch_bytes):
    name = topic()
    items = [str(index) for index in range(3000)]
    commit(cluster, name, items, target_bytes=2048)
    parts = list(
        read_range(cluster, TopicPartition(name, 0), 0, 3000, fetch_bytes=fetch_bytes, batch_bytes=batch_bytes)
    )
    assert values(parts) == items
    assert batch_bytes > 5000 or len(parts) > 5


def test_markers_at_the_end_of_a_range_do_not_hold_it_up(cluster, topic):
    name = topic()
    transaction = started(cluster)
    for batch in range(3):
        write(cluster, transaction.begin(), name, [str(batch)])
        transaction.abort() if batch == 1 else transaction.commit()
    where = TopicPartition(name, 0)
    settle(cluster, name)
    end = latest(cluster, [where])[where]
    assert end == 6, "three records and their markers"
    assert values(read_range(cluster, where, 0, end)) == ["0", "2"]
    assert values(read_range(cluster, where, 5, end)) == []
    assert values(read_range(cluster, where, 0, end, isolation=Isolation.READ_UNCOMMITTED)) == ["0", "1", "2"]


def test_transactions_of_several_producers_are_told_apart(cluster, topic):
    name = topic()
    writers = [started(cluster) for _ in range(4)]
    expected = []
    for index, transaction in enumerate(writers):
        transaction.begin()
        write(cluster, transaction.identity, name, [f"{index}-{item}" for item in range(20)])
    for index, transaction in enumerate(writers):
        if index % 2:
            transaction.abort()
        else:
            transaction.commit()
            expected += [f"{index}-{item}" for item in range(20)]
    commit(cluster, name, ["last"])
    assert read_settled(cluster, name) == [*expected, "last"]


def test_a_range_that_an_open_transaction_holds_up_is_an_error_and_not_a_shorter_range(bootstrap, cluster, topic):
    name = topic()
    commit(cluster, name, ["a"])
    transaction = started(cluster)
    write(cluster, transaction.begin(), name, ["open"])
    where = TopicPartition(name, 0)
    with Cluster({"bootstrap.servers": bootstrap, "default.api.timeout.ms": 300}) as impatient:
        parts = read_range(impatient, where, 0, 3)
        assert values([next(parts)]) == ["a"]
        with pytest.raises(GaveUp, match="up to offset 3, but what can be read ends at 2"):
            next(parts)
    transaction.commit()
    assert values(read_range(cluster, where, 0, 3)) == ["a", "open"]


def test_records_that_are_gone_are_an_error_with_what_is_left(cluster, admin, topic, caplog):
    name = topic()
    commit(cluster, name, [str(index) for index in range(100)])
    where = TopicPartition(name, 0)
    before = Spot(name, 0, 40)
    admin.delete_records([before])[before].result(20)
    with pytest.raises(OffsetsOutOfRange, match=f"{name}-0: records from offset 10 on are gone.*offsets 40 to 101"):
        list(read_range(cluster, where, 10, 100))
    with caplog.at_level(logging.WARNING):
        got = values(read_range(cluster, where, 10, 100, on_data_loss=OnDataLoss.SKIP))
    assert got == [str(index) for index in range(40, 100)]
    assert "they are skipped" in caplog.text


def test_a_range_beyond_the_end_is_out_of_range(cluster, topic):
    name = topic()
    commit(cluster, name, ["a"])
    with pytest.raises(OffsetsOutOfRange):
        list(read_range(cluster, TopicPartition(name, 0), 50, 60))
    assert list(read_range(cluster, TopicPartition(name, 0), 50, 60, on_data_loss=OnDataLoss.SKIP)) == []


def test_a_reader_that_is_left_early_leaves_nothing_behind(cluster, topic):
    name = topic()
    commit(cluster, name, [str(index) for index in range(2000)], target_bytes=2048)
    where = TopicPartition(name, 0)
    for _ in range(3):
        parts = read_range(cluster, where, 0, 2000, fetch_bytes=2048)
        next(parts)
        parts.close()
    assert len(values(read_range(cluster, where, 0, 2000))) == 2000


def test_a_broker_that_is_killed_in_the_middle_is_waited_for(start_broker: Callable[..., Ours], is_original):
    if is_original:
        pytest.skip("needs a broker that may be killed")
    broker = start_broker()
    with Cluster(broker.bootstrap) as cluster:
        create_topics(cluster, {"t": NewTopic(1)})
        items = [str(index) for index in range(2000)]
        commit(cluster, "t", items, target_bytes=2048)
        parts = read_range(cluster, TopicPartition("t", 0), 0, 2000, fetch_bytes=4096)
        first = list(itertools.islice(parts, 2))
        broker.kill()
        broker.start()
        assert values(first) + values(parts) == items
