"""What counts as a small batch."""

import pytest

from fencepost.spark.sink.small import BYTES_MAX, SizeGuess

#: What was learned so far (input records, written bytes), the next batch's input records, and whether it is small.
GUESSES = {
    "the first batch": ([], 1, False),
    "a batch after another": ([(10, 1000)], 1, True),
    "as many records as the limit": ([(10, 0)], 1000, True),
    "more records than the limit": ([(10, 0)], 1001, False),
    "an unknown number of records": ([(10, 0)], None, False),
    "as many bytes as the limit": ([(100, BYTES_MAX)], 100, True),
    "more bytes than the limit": ([(100, BYTES_MAX)], 101, False),
    "smaller records after larger ones": ([(100, BYTES_MAX), (10, 10)], 101, False),
    "a batch after one of unknown size": ([(None, 1000), (0, 1000)], 1, False),
}


@pytest.mark.parametrize(("learned", "records", "is_small"), GUESSES.values(), ids=GUESSES)
def test_the_largest_records_so_far_decide(
    learned: list[tuple[int | None, int]], records: int | None, is_small: bool
) -> None:
    guess = SizeGuess(1000)
    for each in learned:
        guess.learn(*each)
    assert guess.is_small(records) is is_small


def test_no_batch_is_small_when_that_is_turned_off() -> None:
    guess = SizeGuess(0)
    guess.learn(10, 10)
    assert not guess.is_small(1)
