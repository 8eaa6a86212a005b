"""Readers of the board get what changed, and its memory is bounded."""

import pytest

from fencepost.console.board import HEALTH, KEPT, Board, Condition


def test_a_new_reader_gets_everything_and_an_old_one_what_changed():
    board = Board()
    board.publish("x", {"a": {"n": 1}, "b": {"n": 1}}, {"sum": 2})
    first = board.since("x", 0)
    assert first is not None and first.is_whole and first.rows.keys() == {"a", "b"}
    board.publish("x", {"a": {"n": 1}, "c": {"n": 1}}, {"sum": 3})
    next_one = board.since("x", first.version)
    assert next_one is not None and not next_one.is_whole
    assert (next_one.rows.keys(), next_one.gone, next_one.head) == ({"c"}, {"b"}, {"sum": 3})
    assert board.since("x", next_one.version) is None


def test_the_same_again_is_no_change():
    board = Board()
    board.publish("x", {"a": {"n": 1}}, {})
    board.publish("x", {"a": {"n": 1}}, {})
    found = board.since("x", 0)
    assert found is not None and found.version == 1


def test_an_empty_channel_is_known_too():
    board = Board()
    assert board.since("x", 0) is None
    board.publish("x", {}, {})
    found = board.since("x", 0)
    assert found is not None and found.is_whole and not found.rows


@pytest.mark.parametrize("missed", [1, KEPT, KEPT + 1, 5 * KEPT])
def test_a_reader_ends_with_the_same_rows_however_late_it_is(missed: int):
    board = Board()
    board.publish("x", {"0": {"n": 0}, "stays": {}}, {})
    known = dict(board.rows("x"))
    for number in range(1, missed + 1):
        board.publish("x", {str(number): {"n": number}, "stays": {}}, {})
    found = board.since("x", 1)
    assert found is not None and found.is_whole == (missed > KEPT)
    merged = {**({} if found.is_whole else known), **found.rows}
    assert {key: row for key, row in merged.items() if key not in found.gone} == board.rows("x")


def test_a_failure_keeps_the_time_of_the_last_success():
    board = Board()
    board.report("x", Condition.GOOD, took_ms=3)
    board.report("x", Condition.FAILING, "gone")
    row = board.rows(HEALTH)["x"]
    assert row["condition"] == "failing" and row["problem"] == "gone" and row["good_ms"] and row["took_ms"] == 3
