"""Counting records by their lengths: the quick way agrees with the plain one on any bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.log.validation import count_lengths, has_equal_lengths
from fencepost.wire.records import count_records
from fencepost.wire.varint import write_signed


def outcome(count: object, body: bytes) -> object:
    try:
        return count(memoryview(body))  # type: ignore[operator]
    except Malformed:
        return "malformed"


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=12), st.integers(0, 30), st.binary(max_size=3)
)
def test_runs_of_equal_lengths_are_counted_exactly(runs: list[tuple[int, int]], cut: int, tail: bytes) -> None:
    body = bytearray()
    for length, count in runs:
        for _ in range(count):
            write_signed(body, length)
            body += bytes(length)
    whole = bytes(body)
    assert outcome(count_lengths, whole) == sum(count for _, count in runs)
    damaged = whole[: max(0, len(whole) - cut)] + tail
    assert outcome(count_lengths, damaged) == outcome(count_records, damaged)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 3000))
def test_repeated_bytes_are_counted_alike(first: int, second: int, times: int) -> None:
    body = bytes((first, second)) * times
    assert outcome(count_lengths, body) == outcome(count_records, body)


@settings(max_examples=300)
@given(st.integers(0, 300), st.integers(1, 40), st.integers(-2, 2), st.binary(max_size=3), st.booleans())
def test_equal_lengths_are_recognised_and_nothing_else(
    length: int, count: int, wrong: int, tail: bytes, whole: bool
) -> None:
    body = bytearray()
    for _ in range(count):
        write_signed(body, length)
        body += bytes(length)
    if len(body) < 2:
        return
    assert has_equal_lengths(memoryview(body), count)
    other = bytes(body) if whole else bytes(body) + tail
    if has_equal_lengths(memoryview(other), count + wrong):
        assert outcome(count_records, other) == count + wrong
