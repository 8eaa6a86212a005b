"""Ranges of offsets to tasks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.spark.source.splitting import SMALL_BATCH_OFFSETS, OffsetRange, divide, plan_tasks
from fencepost.wire.terms import TopicPartition

LARGE = SMALL_BATCH_OFFSETS


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", index), 10, 10 + size) for index, size in enumerate(sizes)]


TASKS = {
    "a task for each partition": ((LARGE, 5, LARGE), None, None, [[LARGE], [5], [LARGE]]),
    "one task for a small batch": ((100, 0, 100, 1), None, None, [[100, 100, 1]]),
    "no task for empty ranges": ((0, 0), None, None, []),
    "no task for no ranges": ((), None, None, []),
    "a minimum of partitions splits large ranges only": ((3000, 10, 1000), 5, None, [[1000]] * 3 + [[10], [1000]]),
    "a minimum that is met splits nothing": ((50, 10, 20), 3, None, [[50], [10], [20]]),
    "a maximum of records splits larger ranges": ((25, 10), None, 10, [[8], [8], [9], [10]]),
    "both limits hold together": ((40,), 8, 20, [[5]] * 8),
}


@pytest.mark.parametrize(("given_sizes", "min_partitions", "max_records", "expected"), TASKS.values(), ids=TASKS)
def test_ranges_become_tasks(given_sizes, min_partitions, max_records, expected):
    tasks = plan_tasks(ranges(*given_sizes), min_partitions, max_records)
    assert [[each.size for each in task] for task in tasks] == expected


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
