"""Making topics, finding partitions, and where they begin and end."""

import time

import pytest
from confluent_kafka import Producer

from fencepost.client.admin import (
    NewTopic,
    create_topics,
    delete_topics,
    topic_configs,
)
from fencepost.client.offsets import (
    at_times,
    earliest,
    latest,
    partitions_of,
    topics_matching,
)
from fencepost.client.shapes import TopicShape, shape_of, shapes_of
from fencepost.errors import Refused, TopicNotFound
from fencepost.wire.terms import Isolation, TopicPartition
from tests.client.support import read, started, write
from tests.conftest import grow_topic, unique, wait_until

#: Kafka's default of message.timestamp.after.max.ms.
HOUR_MS = 3_600_000


def test_topics_are_made_once_with_their_settings(cluster):
    first, second = unique("a"), unique("b")
    wanted = {first: NewTopic(3, configs={"max.message.bytes": "5000"}), second: NewTopic()}
    assert create_topics(cluster, wanted) == {first, second}
    assert create_topics(cluster, {**wanted, first: NewTopic(7)}) == set()
    assert partitions_of(cluster, [first]) == [TopicPartition(first, index) for index in range(3)]
    assert shape_of(cluster, first) == TopicShape(3, 5000, future_max_ms=HOUR_MS)
    assert shapes_of(cluster, [second, "not-there", "no/name"]) == {
        second: TopicShape(1, 1_048_588, future_max_ms=HOUR_MS)
    }
    assert topic_configs(cluster, first, ["cleanup.policy"]) == {"cleanup.policy": "delete"}


def test_the_shape_of_a_topic_says_which_records_it_takes(cluster, topic):
    compacted = topic(2, config={"cleanup.policy": "compact,delete", "message.timestamp.before.max.ms": "1000"})
    assert shape_of(cluster, compacted) == TopicShape(2, needs_key=True, past_max_ms=1000, future_max_ms=HOUR_MS)
    with_append_time = topic(1, config={"message.timestamp.type": "LogAppendTime"})
    assert shape_of(cluster, with_append_time) == TopicShape(1)


def test_a_topic_that_cannot_be_made_says_why(cluster):
    with pytest.raises(Refused, match="INVALID_TOPIC_EXCEPTION"):
        create_topics(cluster, {"no/slash": NewTopic(1)})
    with pytest.raises(Refused, match="INVALID_REPLICATION_FACTOR"):
        create_topics(cluster, {unique("a"): NewTopic(1, replication_factor=9)})


def test_topics_are_removed_and_missing_ones_do_not_matter(cluster, topic):
    name = topic()
    assert delete_topics(cluster, [name, unique("never")]) == {name}
    wait_until(lambda: name not in cluster.refresh([name], missing_ok=True), "it is gone")
    with pytest.raises(TopicNotFound):
        partitions_of(cluster, [name])
    with pytest.raises(TopicNotFound):
        topic_configs(cluster, name)


def test_new_partitions_are_seen(cluster, topic):
    name = topic(partitions=1)
    assert len(partitions_of(cluster, [name])) == 1
    grow_topic(cluster, name, 4)
    assert len(partitions_of(cluster, [name])) == 4


def test_a_pattern_matches_whole_names_and_nothing_internal(cluster, topic):
    prefix = unique("shop")
    names = {topic(name=f"{prefix}.{part}") for part in ("purchases", "invoices")}
    topic(name=f"other.{prefix}.purchases")
    assert set(topics_matching(cluster, rf"{prefix}\..*")) == names
    started(cluster)
    assert not any(name.startswith("__") for name in topics_matching(cluster, ".*"))


def test_the_end_is_the_lso_or_the_high_watermark(cluster, topic):
    name = topic(partitions=2)
    where = TopicPartition(name, 0)
    assert earliest(cluster, [where]) == latest(cluster, [where]) == {where: 0}
    transaction = started(cluster)
    write(cluster, transaction.begin(), name, ["a", "b"], 0)
    assert latest(cluster, [where]) == {where: 0}
    assert latest(cluster, [where], Isolation.READ_UNCOMMITTED) == {where: 2}
    assert read(cluster, name) == []
    assert read(cluster, name, isolation=Isolation.READ_UNCOMMITTED) == ["a", "b"]
    transaction.commit()
    wait_until(lambda: latest(cluster, [where]) == {where: 3}, "the marker is written")
    assert latest(cluster, [TopicPartition(name, 1), where]) == {TopicPartition(name, 1): 0, where: 3}


def test_a_time_is_found_or_not(cluster, bootstrap, topic):
    name = topic()
    producer = Producer({"bootstrap.servers": bootstrap})

    base_ms = int(time.time() * 1000) - 1000
    for index in range(5):
        producer.produce(name, b"v", timestamp=base_ms + 10 * index)
        producer.flush(10)
    where = TopicPartition(name, 0)
    assert at_times(cluster, {where: base_ms + 15}) == {where: 2}
    assert at_times(cluster, {where: 0}) == {where: 0}
    assert at_times(cluster, {where: base_ms + 1000}) == {where: None}
    assert list(at_times(cluster, {})) == []
