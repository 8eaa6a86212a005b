"""How much of what is there a batch takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.spark.source.admission import Gate, backlog, limited
from fencepost.wire.terms import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
spans = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=20)


LIMITS = {
    "in proportion to the backlog": ({A: 0, B: 100, C: 7}, {A: 300, B: 200, C: 7}, 100, {A: 75, B: 125, C: 7}),
    "at least one record of a small partition": ({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10, {A: 9, B: 1}),
    "everything within the limit": ({A: 0, B: 5}, {A: 60, B: 45}, 100, {A: 60, B: 45}),
}


@pytest.mark.parametrize(("start", "end", "most", "expected"), LIMITS.values(), ids=LIMITS)
def test_each_partition_gets_its_share_of_the_limit(start, end, most, expected):
    assert limited(start, end, most) == expected


@given(spans, st.integers(1, 10**6))
def test_a_limited_end_lies_between_and_gets_there(spans, most):
    where = [TopicPartition("t", index) for index in range(len(spans))]
    start = {w: first for w, (first, _) in zip(where, spans, strict=True)}
    goal = {w: first + size for w, (first, size) in zip(where, spans, strict=True)}
    end = limited(start, goal, most)
    taken = backlog(start, end)
    with_records = [w for w in where if goal[w] > start[w]]
    assert all(start[w] <= end[w] <= goal[w] for w in where)
    assert all(taken[w] > 0 for w in with_records)
    assert sum(taken.values()) <= most + len(with_records)


def test_a_batch_waits_until_there_is_enough_and_no_longer_than_the_delay():
    gate = Gate(least=10, max_delay_ms=1000, opened_ms=0)
    assert not gate.opens(9, now_ms=1)
    assert gate.opens(10, now_ms=2)
    assert not gate.opens(9, now_ms=1001)
    assert gate.opens(1, now_ms=1002)
    assert not gate.opens(1, now_ms=2001)


def test_the_first_batch_is_not_held_back_and_an_empty_one_does_not_count():
    gate = Gate(least=10, max_delay_ms=1000)
    assert not gate.opens(0, now_ms=5)
    assert gate.opens(1, now_ms=6)
    assert not gate.opens(1, now_ms=7)
