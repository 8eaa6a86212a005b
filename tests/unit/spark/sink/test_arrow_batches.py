"""How many rows are sent to Python at a time."""

from typing import Any

import pytest

from fencepost.spark.sink.arrow_batches import AVERAGE_MAX, BATCH_ROWS, ROWS_MAX, ArrowBatches
from fencepost.spark.sink.column_types import ANY_SIZE, BATCH_BYTES


class Settings(dict[str, str]):
    """Of a session, as Spark's `session.conf` has them."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


class Session:
    def __init__(self, **given: str) -> None:
        self.conf = Settings(given)


def batches(session: Any, *row_bytes: int) -> ArrowBatches:
    made = ArrowBatches(session)
    for size in row_bytes:
        made.learn(size)
    return made


@pytest.mark.parametrize(
    ("row_bytes", "are_by_rows"),
    [
        ([], False),
        ([10], True),
        ([AVERAGE_MAX], True),
        ([AVERAGE_MAX + 1], False),
        ([10, 3000, 10], False),
        ([0], True),
    ],
)
def test_the_largest_rows_so_far_decide(row_bytes: list[int], are_by_rows: bool) -> None:
    assert batches(Session(), *row_bytes).are_by_rows is are_by_rows


def test_settings_are_as_before_afterwards() -> None:
    session: Any = Session(**{BATCH_ROWS: "77"})
    with batches(session).settings(session):
        assert session.conf == {BATCH_BYTES: ANY_SIZE, BATCH_ROWS: str(ROWS_MAX)}
    assert session.conf == {BATCH_ROWS: "77"}
    session = Session()
    with pytest.raises(ZeroDivisionError), batches(session).settings(session):
        raise ZeroDivisionError
    assert session.conf == {}


def test_a_bound_that_the_user_has_set_stays() -> None:
    session: Any = Session(**{BATCH_BYTES: "1000000"})
    assert not batches(session, 100).are_by_rows


def test_after_a_large_row_rows_are_bounded_in_bytes() -> None:
    made = batches(Session(), 100)
    made.forbid()
    made.learn(100)
    assert not made.are_by_rows
