"""A stream's offsets, on a real broker and without Spark: where it begins, what a batch takes, what is lost."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from fencepost.client import Cluster
from fencepost.client import cluster as client_cluster
from fencepost.errors import ConfigError, OffsetsOutOfRange, TopicNotFound
from fencepost.spark import ledger
from fencepost.spark.offsets_json import SourceOffset, parse
from fencepost.spark.source.planner import StreamPlanner, lag_of
from fencepost.spark.source.splitting import OffsetRange
from fencepost.wire.terms import TopicPartition
from tests.conftest import grow_topic, unique, wait_until
from tests.spark.source.support import (
    abort,
    begin,
    commit,
    commit_offsets,
    create_again,
    delete_records,
    delete_topic,
    fill,
    options,
)

Topic = Callable[..., str]
Filled = Callable[..., str]
Plan = Callable[..., StreamPlanner]


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def plan(cluster: Cluster, bootstrap: str) -> Plan:
    """`plan(subscribe="purchases", startingOffsets="earliest")`."""

    def make(clock: Clock | None = None, **given: object) -> StreamPlanner:
        return StreamPlanner(cluster, options(bootstrap, **given), clock or Clock())

    return make


@pytest.fixture
def filled(topic: Topic, bootstrap: str) -> Filled:
    """`filled(5, 0)`: a topic with five records in its first partition and none in its second."""

    def make(*counts: int) -> str:
        name = topic(len(counts))
        for partition, count in enumerate(counts):
            fill(bootstrap, name, values(count), partition)
        return name

    return make


def spans(ranges: list[OffsetRange]) -> dict[int, tuple[int, int]]:
    return {each.where.partition: (each.start, each.end) for each in ranges}


def numbers(offset: SourceOffset) -> dict[int, int]:
    return {where.partition: number for where, number in offset.offsets.items()}


def values(count: int) -> list[str]:
    return [str(index) for index in range(count)]


def commit_entry(bootstrap: str, pipeline: str, entry: ledger.LedgerEntry) -> None:
    producer = begin(bootstrap, ledger.TOPIC, [])
    producer.produce(ledger.TOPIC, key=pipeline, value=entry.to_json(), partition=ledger.place(pipeline).partition)
    producer.commit_transaction(20)


# -- beginning -------------------------------------------------------------------------------------------------------


def test_a_query_begins_at_either_end_or_at_given_offsets(plan: Plan, filled: Filled):
    name = filled(5, 4, 3)
    assert numbers(plan(subscribe=name).initial()) == {0: 5, 1: 4, 2: 3}
    assert numbers(plan(subscribe=name, startingOffsets="earliest").initial()) == {0: 0, 1: 0, 2: 0}
    wanted = json.dumps({name: {"0": 3, "1": -1, "2": -2}})
    assert numbers(plan(subscribe=name, startingOffsets=wanted).initial()) == {0: 3, 1: 4, 2: 0}
    with pytest.raises(ConfigError, match="you must specify all TopicPartitions"):
        plan(subscribe=name, startingOffsets=json.dumps({name: {"0": 3}})).initial()


def test_a_given_offset_that_is_not_there_is_data_loss(plan: Plan, filled: Filled):
    name = filled(5)
    given = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 30}})}
    with pytest.raises(OffsetsOutOfRange, match=r"from offset 30 on, but holds offsets 0 to 5.*failOnDataLoss"):
        plan(**given).initial()
    assert numbers(plan(failOnDataLoss="false", **given).initial()) == {0: 5}


def test_a_query_begins_at_a_time(plan: Plan, bootstrap: str, topic: Topic):
    name = topic(2)
    for time_ms in (1000, 2000, 3000):
        fill(bootstrap, name, [str(time_ms)], 0, timestamp_ms=time_ms)
    fill(bootstrap, name, ["x"], 1, timestamp_ms=5000)
    assert numbers(plan(subscribe=name, startingTimestamp=1500).initial()) == {0: 1, 1: 0}
    each = json.dumps({name: {"0": 3000, "1": 0}})
    assert numbers(plan(subscribe=name, startingOffsetsByTimestamp=each).initial()) == {0: 2, 1: 0}


def test_a_time_after_the_last_record_is_an_error_or_the_end(plan: Plan, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, ["x"], timestamp_ms=1000)
    with pytest.raises(ConfigError, match=r"no offset matched .* timestamp 1001"):
        plan(subscribe=name, startingTimestamp=1001).initial()
    late = {"startingTimestamp": 1001, "startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(plan(subscribe=name, **late).initial()) == {0: 1}


def test_a_query_begins_where_its_group_has_committed(plan: Plan, bootstrap: str, filled: Filled):
    name, group = filled(5, 5, 5), unique("group")
    commit_offsets(bootstrap, group, name, {0: 2, 1: 5})
    given = {"subscribe": name, "startingOffsets": "committed", "kafka.group.id": group}
    assert numbers(plan(**given).initial()) == {0: 2, 1: 5, 2: 0}
    assert numbers(plan(startingOffsetsIfNone="latest", **given).initial()) == {0: 2, 1: 5, 2: 5}


def test_offsets_that_have_expired_are_in_the_ledger(plan: Plan, cluster: Cluster, bootstrap: str, filled: Filled):
    name, pipeline = filled(5, 5), unique("pipeline")
    ledger.ensure(cluster)
    entry = ledger.LedgerEntry("query", 7, {TopicPartition(name, 0): 4, TopicPartition(name, 1): 3})
    commit_entry(bootstrap, pipeline, entry)
    given = {"subscribe": name, "startingOffsets": "committed", "pipeline": pipeline}
    assert numbers(plan(**given).initial()) == {0: 4, 1: 3}
    commit_offsets(bootstrap, pipeline, name, {0: 5})
    assert numbers(plan(**given).initial()) == {0: 5, 1: 3}


def test_a_topic_that_does_not_exist_is_named(plan: Plan, topic: Topic):
    name = topic(1)
    with pytest.raises(TopicNotFound, match=r"'no-such-topic' does not exist: create it, or correct .*'subscribe'"):
        plan(subscribe=f"{name},no-such-topic").initial()
    with pytest.raises(TopicNotFound, match=f"{name}-7 does not exist.*'assign'"):
        plan(assign=json.dumps({name: [0, 7]})).initial()


def test_a_pattern_finds_its_topics_also_later(plan: Plan, bootstrap: str, topic: Topic):
    prefix = unique("pattern")
    planner = plan(subscribePattern=f"{prefix}-.*")
    start = planner.initial()
    assert start.offsets == {}
    assert planner.next_end(start) is start
    first = topic(1, name=f"{prefix}-a")
    fill(bootstrap, first, values(3))
    end = planner.next_end(start)
    assert end.offsets == {TopicPartition(first, 0): 3}
    assert spans(planner.ranges(start, end)) == {0: (0, 3)}


# -- from batch to batch ---------------------------------------------------------------------------------------------


def test_the_first_end_says_where_the_query_began_and_later_ones_do_not(plan: Plan, bootstrap: str, filled: Filled):
    name = filled(3)
    planner = plan(subscribe=name)
    start = planner.initial()
    assert planner.next_end(start) is start
    fill(bootstrap, name, values(4))
    first = planner.next_end(start)
    assert (numbers(first), first.start) == ({0: 7}, {TopicPartition(name, 0): 3})
    assert planner.next_end(first) is first
    fill(bootstrap, name, values(1))
    second = planner.next_end(first)
    assert (numbers(second), second.start) == ({0: 8}, None)


def test_a_replayed_first_batch_reads_the_same_although_the_query_would_begin_elsewhere_now(
    plan: Plan, bootstrap: str, topic: Topic
):
    """Also one without news, whose log entry is its beginning: it replays as nothing."""
    name = topic(1)
    planner = plan(subscribe=name)
    start = planner.initial()
    fill(bootstrap, name, values(4))
    logged = json.dumps(planner.next_end(start).as_dict())
    again = plan(subscribe=name)
    moved = again.initial()
    assert numbers(moved) == {0: 4}
    assert spans(again.ranges(moved, parse(logged))) == {0: (0, 4)}
    assert again.ranges(parse(logged), parse(logged)) == []
    assert again.ranges(moved, start) == []


def test_a_partition_that_is_added_is_read_from_its_first_record(
    plan: Plan, cluster: Cluster, bootstrap: str, topic: Topic
):
    name = topic(1)
    planner = plan(subscribe=name)
    start = planner.initial()
    grow_topic(cluster, name, 3)
    fill(bootstrap, name, values(2), 2)
    end = planner.next_end(start)
    assert numbers(end) == {0: 0, 1: 0, 2: 2}
    assert spans(planner.ranges(SourceOffset(start.offsets), SourceOffset(end.offsets))) == {2: (0, 2)}
    assert spans(planner.ranges(start, end)) == {2: (0, 2)}


def test_a_batch_ends_before_an_open_transaction(plan: Plan, bootstrap: str, topic: Topic):
    name = topic(1)
    planner = plan(subscribe=name, startingOffsets="earliest")
    start = planner.initial()
    fill(bootstrap, name, values(2))
    producer = begin(bootstrap, name, ["open"])
    assert numbers(planner.next_end(start)) == {0: 2}
    assert numbers(plan(subscribe=name, **{"kafka.isolation.level": "read_uncommitted"}).next_end(start)) == {0: 3}
    producer.commit_transaction(20)
    wait_until(lambda: numbers(planner.next_end(start)) == {0: 4}, "the marker is counted")


def test_a_position_inside_an_open_transaction_waits_for_it(plan: Plan, bootstrap: str, filled: Filled):
    name = filled(2)
    producer = begin(bootstrap, name, values(3))
    start = SourceOffset({TopicPartition(name, 0): 4})
    planner = plan(subscribe=name)
    assert planner.next_end(start) is start
    producer.abort_transaction(20)
    wait_until(lambda: numbers(planner.next_end(start)) == {0: 6}, "the transaction has ended")


def test_a_limit_is_shared_by_the_partitions_and_the_rest_is_reported_as_lag(plan: Plan, filled: Filled):
    name = filled(30, 10)
    planner = plan(subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    start = planner.initial()
    first = planner.next_end(start)
    assert numbers(first) == {0: 15, 1: 5}
    report = planner.report()
    assert parse(report).offsets == {TopicPartition(name, 0): 30, TopicPartition(name, 1): 10}
    assert lag_of(json.dumps(report)) == {TopicPartition(name, 0): 15, TopicPartition(name, 1): 5}
    assert numbers(planner.next_end(first)) == {0: 30, 1: 10}
    assert set(lag_of(planner.report()).values()) == {0}
    assert numbers(planner.next_end(start, unlimited=True)) == {0: 30, 1: 10}


def test_markers_leave_no_lag_behind(plan: Plan, bootstrap: str, topic: Topic):
    name = topic(1)
    commit(bootstrap, name, values(2))
    abort(bootstrap, name, values(2))
    planner = plan(subscribe=name, startingOffsets="earliest")
    start = planner.initial()
    wait_until(lambda: numbers(planner.next_end(start)) == {0: 6}, "both transactions have ended")
    assert lag_of(planner.report()) == {TopicPartition(name, 0): 0}


def test_a_batch_waits_for_enough_and_no_longer_than_its_delay(plan: Plan, bootstrap: str, filled: Filled):
    name, clock = filled(1), Clock()
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 12, "maxTriggerDelay": "5s"}
    planner = plan(clock, subscribe=name, startingOffsets="earliest", **limits)
    first = planner.next_end(planner.initial())
    assert numbers(first) == {0: 1}, "the first batch is not held back"
    fill(bootstrap, name, values(9))
    assert planner.next_end(first) is first
    assert lag_of(planner.report()) == {TopicPartition(name, 0): 9}
    fill(bootstrap, name, values(4))
    second = planner.next_end(first)
    assert numbers(second) == {0: 13}, "enough for a batch, and not more than the most"
    clock.now_ms += 4_999
    assert planner.next_end(second) is second
    clock.now_ms += 1
    assert numbers(planner.next_end(second)) == {0: 14}


def test_available_now_ends_where_it_was_frozen_in_limited_steps(
    plan: Plan, cluster: Cluster, bootstrap: str, filled: Filled
):
    name = filled(25, 0)
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 10}
    planner = plan(subscribe=name, startingOffsets="earliest", **limits)
    planner.freeze()
    fill(bootstrap, name, values(50), 0)
    grow_topic(cluster, name, 3)
    fill(bootstrap, name, values(5), 2)
    ends = []
    offset = planner.initial()
    while (
        end := planner.next_end(SourceOffset({w: n for w, n in offset.offsets.items() if w.partition < 2}))
    ) != offset:
        offset = SourceOffset(end.offsets)
        ends.append(numbers(offset)[0])
    assert ends == [10, 20, 25]


# -- losses ----------------------------------------------------------------------------------------------------------


def test_records_that_were_deleted_before_they_were_read_are_data_loss(
    plan: Plan, bootstrap: str, filled: Filled, caplog: pytest.LogCaptureFixture
):
    name = filled(10)
    delete_records(bootstrap, name, before=6)
    start = SourceOffset({TopicPartition(name, 0): 2})
    deleted = f"{name}-0: the records from offset 2 to 6 were deleted"
    with pytest.raises(OffsetsOutOfRange, match=f"{deleted}.*failOnDataLoss"):
        plan(subscribe=name).next_end(start)
    assert numbers(plan(subscribe=name, failOnDataLoss="false").next_end(start)) == {0: 10}
    assert deleted in caplog.text


def test_a_deleted_topic_is_data_loss_also_for_a_logged_batch(
    plan: Plan, bootstrap: str, filled: Filled, caplog: pytest.LogCaptureFixture
):
    kept, gone = filled(3), filled(3)
    start, end = (SourceOffset({TopicPartition(kept, 0): n, TopicPartition(gone, 0): n}) for n in (0, 3))
    delete_topic(bootstrap, gone)
    failing, tolerant = (plan(subscribe=f"{kept},{gone}", failOnDataLoss=loss) for loss in ("true", "false"))
    with pytest.raises(OffsetsOutOfRange, match=f"{gone}-0: gone"):
        failing.next_end(start)
    with pytest.raises(OffsetsOutOfRange, match=f"{gone}-0: deleted"):
        failing.ranges(start, end)
    assert tolerant.next_end(start).offsets == {TopicPartition(kept, 0): 3}
    assert f"{gone}-0: gone" in caplog.text
    assert [(each.where.topic, each.start, each.end) for each in tolerant.ranges(start, end)] == [(kept, 0, 3)]


def test_a_topic_that_ends_before_the_position_is_data_loss(plan: Plan, filled: Filled):
    """It was created again, and the position does not say of which topic it is."""
    name = filled(3)
    start = SourceOffset({TopicPartition(name, 0): 10})
    with pytest.raises(OffsetsOutOfRange, match="was read up to offset 10 and ends at 3 now"):
        plan(subscribe=name).next_end(start)
    skipping = plan(subscribe=name, failOnDataLoss="false")
    end = skipping.next_end(start)
    assert numbers(end) == {0: 3}
    assert skipping.ranges(start, end) == []


def test_a_new_partition_whose_first_records_are_gone_is_data_loss(
    plan: Plan, cluster: Cluster, bootstrap: str, topic: Topic
):
    name = topic(1)
    planner = plan(subscribe=name, startingOffsets="earliest")
    start = planner.initial()
    grow_topic(cluster, name, 2)
    fill(bootstrap, name, values(5), 1)
    end = planner.next_end(start)
    assert spans(planner.ranges(start, end)) == {1: (0, 5)}
    delete_records(bootstrap, name, 3, 1)
    with pytest.raises(OffsetsOutOfRange, match=f"{name}-1 is new, and its first 3 records were deleted"):
        planner.next_end(start)
    with pytest.raises(OffsetsOutOfRange, match=f"{name}-1 is new, and its first 3 records were deleted"):
        planner.ranges(start, SourceOffset(end.offsets))
    tolerant = plan(subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    assert spans(tolerant.ranges(start, tolerant.next_end(start))) == {1: (3, 5)}


# -- topics that were created again ------------------------------------------------------------------------------------


def test_a_topic_that_was_created_again_is_data_loss_or_read_from_its_first_record(
    plan: Plan, bootstrap: str, filled: Filled
):
    """Also when it has grown beyond the offsets of the old one."""
    name = filled(5)
    planner = plan(subscribe=name, startingOffsets="earliest")
    before = planner.initial()
    start = planner.next_end(before)
    create_again(bootstrap, name)
    fill(bootstrap, name, values(9))
    with pytest.raises(OffsetsOutOfRange, match=f"topic '{name}' was deleted and created again .*failOnDataLoss"):
        planner.next_end(start)
    with pytest.raises(OffsetsOutOfRange, match="deleted, with records of a batch that has not been read yet"):
        planner.ranges(before, start)
    tolerant = plan(subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    end = tolerant.next_end(start)
    assert numbers(end) == {0: 9}
    assert end.replaced == start.topics != end.topics
    assert spans(tolerant.ranges(start, end)) == {0: (0, 9)}
    assert spans(tolerant.ranges(start, parse(end.json()))) == {0: (0, 9)}
    fill(bootstrap, name, values(2))
    after = planner.next_end(end)
    assert numbers(after) == {0: 11}
    assert not after.replaced
    assert spans(planner.ranges(end, after)) == {0: (9, 11)}


def test_a_topic_that_was_away_for_some_batches_is_known_to_be_another(
    plan: Plan, bootstrap: str, topic: Topic, filled: Filled
):
    kept, name = filled(5), filled(5)
    planner = plan(subscribe=f"{kept},{name}", startingOffsets="earliest", failOnDataLoss="false")
    first = planner.next_end(planner.initial())
    delete_topic(bootstrap, name)
    fill(bootstrap, kept, values(1))
    second = parse(planner.next_end(first).json())
    assert {where.topic for where in second.offsets} == {kept}
    topic(1, name=name)
    fill(bootstrap, name, values(9))
    third = planner.next_end(second)
    assert third.replaced == {name: first.topics[name]}
    assert third.offsets[TopicPartition(name, 0)] == 9


def test_what_the_ledger_knows_of_an_old_topic_does_not_count_for_the_new_one(
    plan: Plan, cluster: Cluster, bootstrap: str, filled: Filled
):
    name, pipeline = filled(9), unique("pipeline")
    ledger.ensure(cluster)
    entry = ledger.LedgerEntry("query", 7, {TopicPartition(name, 0): 4}, topics={name: "an old one"})
    commit_entry(bootstrap, pipeline, entry)
    given = {"subscribe": name, "startingOffsets": "committed", "pipeline": pipeline}
    with pytest.raises(OffsetsOutOfRange, match="was deleted and created again"):
        plan(**given).initial()
    begins = plan(failOnDataLoss="false", startingOffsetsIfNone="latest", **given).initial()
    assert numbers(begins) == {0: 0}
    assert begins.replaced == {name: "an old one"}
    commit_offsets(bootstrap, pipeline, name, {0: 6})  # by hand, so it is meant for this one
    begins = plan(**given).initial()
    assert numbers(begins) == {0: 6}
    assert begins.replaced == {name: "an old one"}


def test_without_topic_ids_a_lower_leader_epoch_gives_a_topic_away(
    plan: Plan, bootstrap: str, filled: Filled, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client_cluster, "FIRST_METADATA_WITH_IDS", 1000)
    name = filled(5)
    planner = plan(subscribe=name, startingOffsets="earliest")
    end = planner.next_end(planner.initial())
    epoch = end.topics[name]
    assert isinstance(epoch, dict)
    fill(bootstrap, name, values(2))
    assert numbers(planner.next_end(end)) == {0: 7}
    with pytest.raises(OffsetsOutOfRange, match="was deleted and created again"):
        planner.next_end(replace(end, topics={name: {0: epoch[0] + 1}}))
