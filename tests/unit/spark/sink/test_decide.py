"""Run, skip or refuse: the whole table."""

import itertools

import pytest

from fencepost.client.cluster import TopicPartition
from fencepost.errors import BatchRefused
from fencepost.spark.sink.decide import SHOWN_MAX, Decision, decide
from fencepost.spark.sink.microbatch import MicroBatch

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
OTHER = ("another query", 7)


def batch(start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> MicroBatch:
    return MicroBatch("query", "run", 7, start, end)


ME = ("query", 7)
ONE = batch({A: 10, B: 20}, {A: 15, B: 25})


def test_a_batch_that_begins_where_the_pipeline_stopped_is_run() -> None:
    assert decide(ONE, {A: 10, B: 20}, OTHER) is Decision.RUN


def test_a_batch_that_ends_where_the_pipeline_stopped_is_skipped() -> None:
    assert decide(ONE, {A: 15, B: 25}, OTHER) is Decision.SKIP


def test_a_pipeline_without_any_commit_begins_anywhere() -> None:
    assert decide(ONE, {}, None) is Decision.RUN


def test_a_partition_without_a_commit_fits_a_beginning_only() -> None:
    assert decide(ONE, {A: 10}, OTHER) is Decision.RUN
    with pytest.raises(BatchRefused):
        decide(ONE, {A: 15}, OTHER)


def test_a_partition_that_is_new_in_the_batch_has_no_start() -> None:
    assert decide(batch({A: 10}, {A: 15, B: 25}), {A: 10}, OTHER) is Decision.RUN
    assert decide(batch({A: 10}, {A: 15, B: 25}), {A: 15, B: 25}, OTHER) is Decision.SKIP
    with pytest.raises(BatchRefused):
        decide(batch({A: 10}, {A: 15, B: 25}), {A: 10, B: 3}, OTHER)


@pytest.mark.parametrize("last", [None, OTHER, ("query", 6), ("another query", 8)])
def test_a_batch_that_moves_no_offset_is_run_unless_it_was_the_last(last: tuple[str, int] | None) -> None:
    still = batch({A: 10}, {A: 10})
    assert decide(still, {A: 10}, last) is Decision.RUN
    assert decide(still, {A: 10}, ME) is Decision.SKIP


def test_a_batch_without_kafka_offsets_is_known_by_its_number_alone() -> None:
    assert decide(batch({}, {}), {A: 3}, ("query", 6)) is Decision.RUN
    assert decide(batch({}, {}), {A: 3}, ME) is Decision.SKIP


def test_partitions_that_the_batch_does_not_read_do_not_matter() -> None:
    assert decide(batch({A: 10}, {A: 15}), {A: 10, B: 99}, OTHER) is Decision.RUN


def test_a_partition_that_stands_still_fits_either_way() -> None:
    some = batch({A: 10, B: 20}, {A: 15, B: 20})
    assert decide(some, {A: 10, B: 20}, OTHER) is Decision.RUN
    assert decide(some, {A: 15, B: 20}, OTHER) is Decision.SKIP
    assert decide(some, {A: 15}, OTHER) is Decision.SKIP


def test_it_runs_only_what_begins_and_skips_only_what_ends_everywhere() -> None:
    """Every place that two partitions can stand at: before, at the start, between, at the end, behind, nowhere."""
    places = [None, 5, 10, 12, 15, 30]
    for a, b in itertools.product(places, places):
        committed = {where: offset for where, offset in ((A, a), (B, b)) if offset is not None}
        two = batch({A: 10, B: 10}, {A: 15, B: 15})
        if {a, b} <= {None, 10}:
            assert decide(two, committed, OTHER) is Decision.RUN
        elif {a, b} == {15}:
            assert decide(two, committed, OTHER) is Decision.SKIP
        else:
            with pytest.raises(BatchRefused):
                decide(two, committed, OTHER)


def test_a_refusal_says_what_was_seen_and_what_to_do() -> None:
    with pytest.raises(BatchRefused) as refused:
        decide(ONE, {A: 30, B: 20}, OTHER)
    said = str(refused.value)
    assert "batch 7 of query query" in said
    assert f"{A}: the batch is 10 to 15, committed is 30" in said
    assert "would repeat records" in said
    assert "Nothing was written" in said
    assert "startingOffsets=committed" in said


def test_a_gap_is_told_from_a_repetition() -> None:
    with pytest.raises(BatchRefused, match="would leave out records"):
        decide(ONE, {A: 3, B: 20}, OTHER)


def test_a_refusal_of_many_partitions_stays_short() -> None:
    places = [TopicPartition("a", number) for number in range(20)]
    many = batch(dict.fromkeys(places, 1), dict.fromkeys(places, 2))
    with pytest.raises(BatchRefused, match=f"and {20 - SHOWN_MAX} more partitions"):
        decide(many, dict.fromkeys(places, 9), OTHER)
