"""Ranges of offsets to tasks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fencepost.spark.source.splitting import SMALL_BATCH_OFFSETS, OffsetRange, divide, plan_tasks
from fencepost.wire.terms import TopicPartition

LARGE = SMALL_BATCH_OFFSETS


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", index), 10, 10 + size) for index, size in enumerate(sizes)]


def sizes(tasks: list[list[OffsetRange]]) -> list[list[int]]:
    return [[each.size for each in task] for task in tasks]


def test_each_partition_is_a_task():
    assert sizes(plan_tasks(ranges(LARGE, 5, LARGE))) == [[LARGE], [5], [LARGE]]


def test_a_small_batch_is_one_task():
    assert sizes(plan_tasks(ranges(100, 0, 100, 1))) == [[100, 100, 1]]


def test_nothing_to_read_is_no_task():
    assert plan_tasks(ranges(0, 0)) == []
    assert plan_tasks([]) == []


def test_a_minimum_of_partitions_splits_large_ranges_only():
    assert sizes(plan_tasks(ranges(3000, 10, 1000), min_partitions=5)) == [[1000], [1000], [1000], [10], [1000]]


def test_a_minimum_that_is_met_splits_nothing():
    assert sizes(plan_tasks(ranges(50, 10, 20), min_partitions=3)) == [[50], [10], [20]]


def test_a_maximum_of_records_splits_what_is_larger():
    assert sizes(plan_tasks(ranges(25, 10), max_records=10)) == [[8], [8], [9], [10]]


def test_both_limits_hold_together():
    found = sizes(plan_tasks(ranges(40), min_partitions=8, max_records=20))
    assert found == [[5]] * 8


def test_a_range_is_not_divided_into_empty_parts():
    assert [each.size for each in divide(ranges(3)[0], 10)] == [1, 1, 1]


@given(
    st.lists(st.integers(0, 10_000), max_size=12),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 5000),
)
def test_every_offset_is_read_by_exactly_one_task(given_sizes, min_partitions, max_records):
    wanted = ranges(*given_sizes)
    parts = [each for task in plan_tasks(wanted, min_partitions, max_records) for each in task]
    for whole in wanted:
        mine = sorted((part.start, part.end) for part in parts if part.where == whole.where)
        if whole.size:
            assert (mine[0][0], mine[-1][1]) == (whole.start, whole.end)
            assert all(first[1] == second[0] for first, second in pairwise(mine))
        else:
            assert not mine
    if max_records is not None:
        assert all(part.size <= max_records for part in parts)
