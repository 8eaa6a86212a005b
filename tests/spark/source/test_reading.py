"""What a task does, on a real broker and without Spark."""

import threading
from collections.abc import Callable

import pytest

from fencepost.client import Cluster
from fencepost.client.admin import NewTopic, create_topics
from fencepost.errors import OffsetsOutOfRange
from fencepost.lab.kit.servers import Ours
from fencepost.spark.source.planner import StreamPlanner
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.readers import RangesPartition, read_partition
from fencepost.spark.source.splitting import OffsetRange
from tests.spark.source.support import create_again, delete_records, delete_topic, fill, options

Topic = Callable[..., str]


def values(found: SourceOptions, ranges: list[OffsetRange]) -> list[str]:
    batches = read_partition(found, RangesPartition(ranges))
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


def planned(cluster: Cluster, found: SourceOptions) -> list[OffsetRange]:
    plan = StreamPlanner(cluster, found)
    start = plan.initial()
    return plan.ranges(start, plan.next_end(start))


def test_one_task_reads_several_ranges_in_order(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(3)
    for partition in range(3):
        fill(bootstrap, name, [f"{partition}-{index}" for index in range(4)], partition)
    found = options(bootstrap, subscribe=name, startingOffsets="earliest")
    expected = [f"{partition}-{index}" for partition in range(3) for index in range(4)]
    assert values(found, planned(cluster, found)) == expected


def test_a_broker_that_is_restarted_between_planning_and_reading_is_waited_for(
    start_broker: Callable[..., Ours],
):
    broker = start_broker()
    with Cluster(broker.bootstrap) as cluster:
        create_topics(cluster, {"numbers": NewTopic(1)})
        fill(broker.bootstrap, "numbers", ["1"])
        found = options(broker.bootstrap, subscribe="numbers", startingOffsets="earliest")
        ranges = planned(cluster, found)
    broker.kill()
    starting = threading.Timer(0.5, broker.start)
    starting.start()
    assert values(found, ranges) == ["1"]  # this process has not been connected before
    starting.join()


def test_records_deleted_between_planning_and_reading_are_data_loss(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [str(index) for index in range(10)])
    found = options(bootstrap, subscribe=name, startingOffsets="earliest")
    ranges = planned(cluster, found)
    delete_records(bootstrap, name, before=7)
    with pytest.raises(OffsetsOutOfRange, match=r"from offset 0 on are gone.*set the option failOnDataLoss to false"):
        values(found, ranges)
    skipping = options(bootstrap, subscribe=name, failOnDataLoss="false")
    assert values(skipping, ranges) == ["7", "8", "9"]


def test_a_topic_deleted_between_planning_and_reading_is_data_loss(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, ["x"])
    found = options(bootstrap, subscribe=name, startingOffsets="earliest")
    ranges = planned(cluster, found)
    delete_topic(bootstrap, name)
    with pytest.raises(OffsetsOutOfRange, match="does not exist"):
        values(found, ranges)
    assert values(options(bootstrap, subscribe=name, failOnDataLoss="false"), ranges) == []


def test_a_worker_that_knew_an_older_topic_reads_the_new_one(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    found = options(bootstrap, subscribe=name, startingOffsets="earliest")
    fill(bootstrap, name, ["old"])
    assert values(found, planned(cluster, found)) == ["old"]
    create_again(bootstrap, name)
    fill(bootstrap, name, ["new"])
    assert values(found, planned(cluster, found)) == ["new"]


def test_a_range_is_not_read_from_a_later_topic_of_the_same_name(cluster: Cluster, bootstrap: str, topic: Topic):
    """Whatever this worker knew of the topic before, and although the new topic has the same offsets."""
    name = topic(1)
    fill(bootstrap, name, ["old"] * 4)
    found = options(bootstrap, subscribe=name, startingOffsets="earliest")
    ranges = planned(cluster, found)
    assert values(found, ranges) == ["old"] * 4
    create_again(bootstrap, name)
    fill(bootstrap, name, ["new"] * 4)
    for _ in range(2):  # with metadata of the old topic, and of the new one
        with pytest.raises(OffsetsOutOfRange, match=r"created again|does not exist"):
            values(found, ranges)
    lenient = options(bootstrap, subscribe=name, startingOffsets="earliest", failOnDataLoss=False)
    assert values(lenient, ranges) == []
    assert values(found, planned(cluster, found)) == ["new"] * 4
