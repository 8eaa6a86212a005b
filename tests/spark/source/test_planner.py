"""A stream's offsets, on a real broker and without Spark: where it begins, what a batch takes, what is lost."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.client import Cluster
from fencepost.client import cluster as client_cluster
from fencepost.client.admin import NewTopic as Shape
from fencepost.client.admin import create_topics, delete_topics
from fencepost.errors import ConfigError, OffsetsOutOfRange, TopicNotFound
from fencepost.spark import ledger
from fencepost.spark.offsets_json import SourceOffset, parse
from fencepost.spark.source.planner import StreamPlanner, lag_of
from fencepost.spark.source.splitting import OffsetRange
from fencepost.wire.terms import TopicPartition
from tests.conftest import grow_topic, unique, wait_until
from tests.spark.source.support import abort, begin, commit, commit_offsets, delete_records, fill, options

Topic = Callable[..., str]


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def planner(cluster: Cluster, bootstrap: str, clock: Clock | None = None, **given: object) -> StreamPlanner:
    return StreamPlanner(cluster, options(bootstrap, **given), clock or Clock())


def spans(ranges: list[OffsetRange]) -> dict[int, tuple[int, int]]:
    return {each.where.partition: (each.start, each.end) for each in ranges}


def numbers(offset: SourceOffset) -> dict[int, int]:
    return {where.partition: number for where, number in offset.offsets.items()}


def values(count: int) -> list[str]:
    return [str(index) for index in range(count)]


# -- beginning -------------------------------------------------------------------------------------------------------


def test_a_query_begins_at_either_end(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(2)
    fill(bootstrap, name, values(5), 1)
    assert numbers(planner(cluster, bootstrap, subscribe=name).initial()) == {0: 0, 1: 5}
    assert numbers(planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest").initial()) == {0: 0, 1: 0}


def test_a_query_begins_at_given_offsets(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(3)
    for partition in range(3):
        fill(bootstrap, name, values(5), partition)
    wanted = json.dumps({name: {"0": 3, "1": -1, "2": -2}})
    assert numbers(planner(cluster, bootstrap, subscribe=name, startingOffsets=wanted).initial()) == {0: 3, 1: 5, 2: 0}


def test_given_offsets_must_be_of_all_partitions(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(2)
    wanted = json.dumps({name: {"0": 3}})
    with pytest.raises(ConfigError, match="you must specify all TopicPartitions"):
        planner(cluster, bootstrap, subscribe=name, startingOffsets=wanted).initial()


def test_a_given_offset_that_is_not_there_is_data_loss(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, values(5))
    given: dict[str, Any] = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 30}})}
    with pytest.raises(OffsetsOutOfRange, match=r"from offset 30 on, but holds offsets 0 to 5.*failOnDataLoss"):
        planner(cluster, bootstrap, **given).initial()
    assert numbers(planner(cluster, bootstrap, failOnDataLoss="false", **given).initial()) == {0: 5}


def test_a_query_begins_at_a_time(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(2)
    for time_ms in (1000, 2000, 3000):
        fill(bootstrap, name, [str(time_ms)], 0, timestamp_ms=time_ms)
    fill(bootstrap, name, ["x"], 1, timestamp_ms=5000)
    assert numbers(planner(cluster, bootstrap, subscribe=name, startingTimestamp=1500).initial()) == {0: 1, 1: 0}
    each = json.dumps({name: {"0": 3000, "1": 0}})
    found = planner(cluster, bootstrap, subscribe=name, startingOffsetsByTimestamp=each).initial()
    assert numbers(found) == {0: 2, 1: 0}


def test_a_time_after_the_last_record_is_an_error_or_the_end(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, ["x"], timestamp_ms=1000)
    with pytest.raises(ConfigError, match=r"no offset matched .* timestamp 1001"):
        planner(cluster, bootstrap, subscribe=name, startingTimestamp=1001).initial()
    late = {"startingTimestamp": 1001, "startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(planner(cluster, bootstrap, subscribe=name, **late).initial()) == {0: 1}


def test_a_query_begins_where_its_group_has_committed(cluster: Cluster, bootstrap: str, topic: Topic):
    name, group = topic(3), unique("group")
    for partition in range(3):
        fill(bootstrap, name, values(5), partition)
    commit_offsets(bootstrap, group, name, {0: 2, 1: 5})
    given = {"subscribe": name, "startingOffsets": "committed", "kafka.group.id": group}
    assert numbers(planner(cluster, bootstrap, **given).initial()) == {0: 2, 1: 5, 2: 0}
    late = planner(cluster, bootstrap, startingOffsetsIfNone="latest", **given).initial()
    assert numbers(late) == {0: 2, 1: 5, 2: 5}


def test_offsets_that_have_expired_are_in_the_ledger(cluster: Cluster, bootstrap: str, topic: Topic):
    name, pipeline = topic(2), unique("pipeline")
    for partition in range(2):
        fill(bootstrap, name, values(5), partition)
    ledger.ensure(cluster)
    entry = ledger.LedgerEntry("query", 7, {TopicPartition(name, 0): 4, TopicPartition(name, 1): 3})
    producer = begin(bootstrap, ledger.TOPIC, [])
    producer.produce(ledger.TOPIC, key=pipeline, value=entry.to_json(), partition=ledger.place(pipeline).partition)
    producer.commit_transaction(20)
    given = {"subscribe": name, "startingOffsets": "committed", "pipeline": pipeline}
    assert numbers(planner(cluster, bootstrap, **given).initial()) == {0: 4, 1: 3}
    commit_offsets(bootstrap, pipeline, name, {0: 5})
    assert numbers(planner(cluster, bootstrap, **given).initial()) == {0: 5, 1: 3}


def test_a_topic_that_does_not_exist_is_named(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    with pytest.raises(TopicNotFound, match=r"'no-such-topic' does not exist: create it, or correct .*'subscribe'"):
        planner(cluster, bootstrap, subscribe=f"{name},no-such-topic").initial()
    with pytest.raises(TopicNotFound, match=f"{name}-7 does not exist.*'assign'"):
        planner(cluster, bootstrap, assign=json.dumps({name: [0, 7]})).initial()


def test_a_pattern_finds_its_topics_also_later(cluster: Cluster, bootstrap: str, topic: Topic):
    prefix = unique("pattern")
    plan = planner(cluster, bootstrap, subscribePattern=f"{prefix}-.*")
    start = plan.initial()
    assert start.offsets == {}
    assert plan.next_end(start) is start
    first = topic(1, name=f"{prefix}-a")
    fill(bootstrap, first, values(3))
    end = plan.next_end(start)
    assert end.offsets == {TopicPartition(first, 0): 3}
    assert [(each.start, each.end) for each in plan.ranges(start, end)] == [(0, 3)]


# -- from batch to batch ---------------------------------------------------------------------------------------------


def test_the_first_end_says_where_the_query_began_and_later_ones_do_not(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, values(3))
    plan = planner(cluster, bootstrap, subscribe=name)
    start = plan.initial()
    assert plan.next_end(start) is start
    fill(bootstrap, name, values(4))
    first = plan.next_end(start)
    assert (numbers(first), first.start) == ({0: 7}, {TopicPartition(name, 0): 3})
    assert plan.next_end(first) is first
    fill(bootstrap, name, values(1))
    second = plan.next_end(first)
    assert (numbers(second), second.start) == ({0: 8}, None)


def test_a_replayed_first_batch_reads_the_same_although_the_query_would_begin_elsewhere_now(
    cluster: Cluster, bootstrap: str, topic: Topic
):
    name = topic(1)
    plan = planner(cluster, bootstrap, subscribe=name)
    start = plan.initial()
    fill(bootstrap, name, values(4))
    logged = json.dumps(plan.next_end(start).as_dict())
    again = planner(cluster, bootstrap, subscribe=name)
    moved = again.initial()
    assert numbers(moved) == {0: 4}
    assert spans(again.ranges(moved, parse(logged))) == {0: (0, 4)}
    assert again.ranges(parse(logged), parse(logged)) == []


def test_a_source_without_news_in_the_first_batch_replays_as_nothing(cluster: Cluster, bootstrap: str, topic: Topic):
    """Its log entry is its beginning; by the time of the replay `latest` lies further on."""
    name = topic(1)
    logged = planner(cluster, bootstrap, subscribe=name).initial()
    fill(bootstrap, name, values(4))
    again = planner(cluster, bootstrap, subscribe=name)
    assert again.ranges(again.initial(), logged) == []


def test_a_partition_that_is_added_is_read_from_its_first_record(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    plan = planner(cluster, bootstrap, subscribe=name)
    start = plan.initial()
    grow_topic(cluster, name, 3)
    fill(bootstrap, name, values(2), 2)
    end = plan.next_end(start)
    assert numbers(end) == {0: 0, 1: 0, 2: 2}
    assert spans(plan.ranges(SourceOffset(start.offsets), SourceOffset(end.offsets))) == {2: (0, 2)}
    assert spans(plan.ranges(start, end)) == {2: (0, 2)}


def test_a_batch_ends_before_an_open_transaction(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest")
    all_of_it = planner(cluster, bootstrap, subscribe=name, **{"kafka.isolation.level": "read_uncommitted"})
    start = plan.initial()
    fill(bootstrap, name, values(2))
    producer = begin(bootstrap, name, ["open"])
    assert numbers(plan.next_end(start)) == {0: 2}
    assert numbers(all_of_it.next_end(start)) == {0: 3}
    producer.commit_transaction(20)
    wait_until(lambda: numbers(plan.next_end(start)) == {0: 4}, "the marker is counted")


def test_a_position_inside_an_open_transaction_waits_for_it(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, values(2))
    producer = begin(bootstrap, name, values(3))
    start = SourceOffset({TopicPartition(name, 0): 4})
    plan = planner(cluster, bootstrap, subscribe=name)
    assert plan.next_end(start) is start
    producer.abort_transaction(20)
    wait_until(lambda: numbers(plan.next_end(start)) == {0: 6}, "the transaction has ended")


def test_a_limit_is_shared_by_the_partitions(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(2)
    fill(bootstrap, name, values(30), 0)
    fill(bootstrap, name, values(10), 1)
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    start = plan.initial()
    first = plan.next_end(start)
    assert numbers(first) == {0: 15, 1: 5}
    assert numbers(plan.next_end(first)) == {0: 30, 1: 10}
    assert numbers(plan.next_end(start, unlimited=True)) == {0: 30, 1: 10}


def test_what_is_left_is_reported_as_lag(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(2)
    fill(bootstrap, name, values(30), 0)
    fill(bootstrap, name, values(10), 1)
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    end = plan.next_end(plan.initial())
    report = plan.report()
    assert parse(report).offsets == {TopicPartition(name, 0): 30, TopicPartition(name, 1): 10}
    assert lag_of(json.dumps(report)) == {TopicPartition(name, 0): 15, TopicPartition(name, 1): 5}
    plan.next_end(end)
    assert set(lag_of(plan.report()).values()) == {0}


def test_markers_leave_no_lag_behind(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    commit(bootstrap, name, values(2))
    abort(bootstrap, name, values(2))
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest")
    start = plan.initial()
    wait_until(lambda: numbers(plan.next_end(start)) == {0: 6}, "both transactions have ended")
    assert lag_of(plan.report()) == {TopicPartition(name, 0): 0}


def test_a_batch_waits_for_enough_and_no_longer_than_its_delay(cluster: Cluster, bootstrap: str, topic: Topic):
    name, clock = topic(1), Clock()
    fill(bootstrap, name, values(1))
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 12, "maxTriggerDelay": "5s"}
    plan = planner(cluster, bootstrap, clock, subscribe=name, startingOffsets="earliest", **limits)
    first = plan.next_end(plan.initial())
    assert numbers(first) == {0: 1}, "the first batch is not held back"
    fill(bootstrap, name, values(9))
    assert plan.next_end(first) is first
    assert lag_of(plan.report()) == {TopicPartition(name, 0): 9}
    fill(bootstrap, name, values(4))
    second = plan.next_end(first)
    assert numbers(second) == {0: 13}, "enough for a batch, and not more than the most"
    clock.now_ms += 4_999
    assert plan.next_end(second) is second
    clock.now_ms += 1
    assert numbers(plan.next_end(second)) == {0: 14}


def test_available_now_ends_where_it_was_frozen_in_limited_steps(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(2)
    fill(bootstrap, name, values(25), 0)
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 10}
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest", **limits)
    plan.freeze()
    fill(bootstrap, name, values(50), 0)
    grow_topic(cluster, name, 3)
    fill(bootstrap, name, values(5), 2)
    ends = []
    offset = plan.initial()
    while (end := plan.next_end(SourceOffset({w: n for w, n in offset.offsets.items() if w.partition < 2}))) != offset:
        offset = SourceOffset(end.offsets)
        ends.append(numbers(offset)[0])
    assert ends == [10, 20, 25]


# -- losses ----------------------------------------------------------------------------------------------------------


def test_records_that_were_deleted_before_they_were_read_are_data_loss(
    cluster: Cluster, bootstrap: str, topic: Topic, caplog: pytest.LogCaptureFixture
):
    name = topic(1)
    fill(bootstrap, name, values(10))
    delete_records(bootstrap, name, before=6)
    start = SourceOffset({TopicPartition(name, 0): 2})
    with pytest.raises(
        OffsetsOutOfRange, match=f"{name}-0: the records from offset 2 to 6 were deleted.*failOnDataLoss"
    ):
        planner(cluster, bootstrap, subscribe=name).next_end(start)
    assert numbers(planner(cluster, bootstrap, subscribe=name, failOnDataLoss="false").next_end(start)) == {0: 10}
    assert "the records from offset 2 to 6 were deleted" in caplog.text


def test_a_deleted_topic_is_data_loss(cluster: Cluster, bootstrap: str, topic: Topic, caplog: pytest.LogCaptureFixture):
    kept, gone = topic(1), topic(1)
    start = SourceOffset({TopicPartition(kept, 0): 0, TopicPartition(gone, 0): 0})
    delete_topics(cluster, [gone])
    wait_until(lambda: not cluster.refresh([gone], missing_ok=True), "the topic is gone")
    given = {"subscribe": f"{kept},{gone}"}
    with pytest.raises(OffsetsOutOfRange, match=f"{gone}-0: gone"):
        planner(cluster, bootstrap, **given).next_end(start)
    end = planner(cluster, bootstrap, failOnDataLoss="false", **given).next_end(start)
    assert end.offsets == {TopicPartition(kept, 0): 0}
    assert f"{gone}-0: gone" in caplog.text


def test_a_topic_that_was_made_anew_is_data_loss(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    start = SourceOffset({TopicPartition(name, 0): 10})
    delete_topics(cluster, [name])
    wait_until(lambda: not cluster.refresh([name], missing_ok=True), "the topic is gone")
    create_topics(cluster, {name: Shape(1)})
    fill(bootstrap, name, values(3))
    with pytest.raises(OffsetsOutOfRange, match="was read up to offset 10 and ends at 3 now"):
        planner(cluster, bootstrap, subscribe=name).next_end(start)
    skipping = planner(cluster, bootstrap, subscribe=name, failOnDataLoss="false")
    end = skipping.next_end(start)
    assert numbers(end) == {0: 3}
    assert skipping.ranges(start, end) == []


def test_a_logged_batch_of_a_deleted_topic_is_data_loss(cluster: Cluster, bootstrap: str, topic: Topic):
    kept, gone = topic(1), topic(1)
    for name in (kept, gone):
        fill(bootstrap, name, values(3))
    start = SourceOffset({TopicPartition(kept, 0): 0, TopicPartition(gone, 0): 0})
    end = SourceOffset({TopicPartition(kept, 0): 3, TopicPartition(gone, 0): 3})
    delete_topics(cluster, [gone])
    wait_until(lambda: not cluster.refresh([gone], missing_ok=True), "the topic is gone")
    with pytest.raises(OffsetsOutOfRange, match=f"{gone}-0: deleted"):
        planner(cluster, bootstrap, subscribe=kept).ranges(start, end)
    left = planner(cluster, bootstrap, subscribe=kept, failOnDataLoss="false").ranges(start, end)
    assert [(each.where.topic, each.start, each.end) for each in left] == [(kept, 0, 3)]


def test_a_new_partition_whose_first_records_are_gone_is_data_loss(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest")
    start = plan.initial()
    grow_topic(cluster, name, 2)
    wait_until(lambda: len(cluster.refresh([name])[name].partitions) == 2, f"{name} has grown")
    fill(bootstrap, name, values(5), 1)
    end = plan.next_end(start)
    assert spans(plan.ranges(start, end)) == {1: (0, 5)}
    delete_records(bootstrap, name, 3, 1)
    with pytest.raises(OffsetsOutOfRange, match=f"{name}-1 is new, and its first 3 records were deleted"):
        plan.next_end(start)
    with pytest.raises(OffsetsOutOfRange, match=f"{name}-1 is new, and its first 3 records were deleted"):
        plan.ranges(start, SourceOffset(end.offsets))
    tolerant = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    assert spans(tolerant.ranges(start, tolerant.next_end(start))) == {1: (3, 5)}


# -- topics that were created again ------------------------------------------------------------------------------------


def create_again(cluster: Cluster, name: str) -> None:
    delete_topics(cluster, [name])
    wait_until(lambda: not cluster.refresh([name], missing_ok=True), f"{name} is gone")
    create_topics(cluster, {name: Shape(1)})


def test_a_topic_that_was_created_again_is_data_loss_or_read_from_its_first_record(
    cluster: Cluster, bootstrap: str, topic: Topic
):
    """Also when it has grown beyond the offsets of the old one."""
    name = topic(1)
    fill(bootstrap, name, values(5))
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest")
    start = plan.next_end(plan.initial())
    create_again(cluster, name)
    fill(bootstrap, name, values(9))
    with pytest.raises(OffsetsOutOfRange, match=f"topic '{name}' was deleted and created again .*failOnDataLoss"):
        plan.next_end(start)
    tolerant = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    end = tolerant.next_end(start)
    assert numbers(end) == {0: 9}
    assert end.replaced == start.topics != end.topics
    assert spans(tolerant.ranges(start, end)) == {0: (0, 9)}
    assert spans(tolerant.ranges(start, parse(end.json()))) == {0: (0, 9)}
    fill(bootstrap, name, values(2))
    after = plan.next_end(end)
    assert numbers(after) == {0: 11}
    assert not after.replaced
    assert spans(plan.ranges(end, after)) == {0: (9, 11)}


def test_a_topic_that_was_away_for_some_batches_is_known_to_be_another(cluster: Cluster, bootstrap: str, topic: Topic):
    kept, name = topic(1), topic(1)
    for each in (kept, name):
        fill(bootstrap, each, values(5))
    plan = planner(cluster, bootstrap, subscribe=f"{kept},{name}", startingOffsets="earliest", failOnDataLoss="false")
    first = plan.next_end(plan.initial())
    delete_topics(cluster, [name])
    wait_until(lambda: not cluster.refresh([name], missing_ok=True), f"{name} is gone")
    fill(bootstrap, kept, values(1))
    second = parse(plan.next_end(first).json())
    assert {where.topic for where in second.offsets} == {kept}
    create_topics(cluster, {name: Shape(1)})
    fill(bootstrap, name, values(9))
    third = plan.next_end(second)
    assert third.replaced == {name: first.topics[name]}
    assert third.offsets[TopicPartition(name, 0)] == 9


def test_a_logged_batch_of_a_topic_that_is_another_now_cannot_be_read(cluster: Cluster, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, values(5))
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest")
    start = plan.initial()
    end = plan.next_end(start)
    create_again(cluster, name)
    fill(bootstrap, name, values(9))
    with pytest.raises(OffsetsOutOfRange, match="deleted, with records of a batch that has not been read yet"):
        plan.ranges(start, end)


def test_what_the_ledger_knows_of_an_old_topic_does_not_count_for_the_new_one(
    cluster: Cluster, bootstrap: str, topic: Topic
):
    name, pipeline = topic(1), unique("pipeline")
    ledger.ensure(cluster)
    entry = ledger.LedgerEntry("query", 7, {TopicPartition(name, 0): 4}, topics={name: "an old one"})
    producer = begin(bootstrap, ledger.TOPIC, [])
    producer.produce(ledger.TOPIC, key=pipeline, value=entry.to_json(), partition=ledger.place(pipeline).partition)
    producer.commit_transaction(20)
    fill(bootstrap, name, values(9))
    given = {"subscribe": name, "startingOffsets": "committed", "pipeline": pipeline}
    with pytest.raises(OffsetsOutOfRange, match="was deleted and created again"):
        planner(cluster, bootstrap, **given).initial()
    begins = planner(cluster, bootstrap, failOnDataLoss="false", startingOffsetsIfNone="latest", **given).initial()
    assert numbers(begins) == {0: 0}
    assert begins.replaced == {name: "an old one"}
    commit_offsets(bootstrap, pipeline, name, {0: 6})  # by hand, so it is meant for this one
    begins = planner(cluster, bootstrap, **given).initial()
    assert numbers(begins) == {0: 6}
    assert begins.replaced == {name: "an old one"}


def test_without_topic_ids_a_lower_leader_epoch_gives_a_topic_away(
    cluster: Cluster, bootstrap: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client_cluster, "FIRST_METADATA_WITH_IDS", 1000)
    name = topic(1)
    fill(bootstrap, name, values(5))
    plan = planner(cluster, bootstrap, subscribe=name, startingOffsets="earliest")
    end = plan.next_end(plan.initial())
    epoch = end.topics[name]
    assert isinstance(epoch, dict)
    fill(bootstrap, name, values(2))
    assert numbers(plan.next_end(end)) == {0: 7}
    with pytest.raises(OffsetsOutOfRange, match="was deleted and created again"):
        plan.next_end(replace(end, topics={name: {0: epoch[0] + 1}}))
