"""What is taken for a small batch."""

from fencepost.spark.sink.small import BYTES_MAX, SizeGuess


def test_the_first_batch_is_not_taken_for_small() -> None:
    guess = SizeGuess(1000)
    assert not guess.is_small(1)
    guess.learn(10, 1000)
    assert guess.is_small(1)


def test_a_batch_with_too_many_records_or_nobody_knows_how_many_is_not_small() -> None:
    guess = SizeGuess(1000)
    guess.learn(10, 0)
    assert guess.is_small(1000)
    assert not guess.is_small(1001)
    assert not guess.is_small(None)


def test_the_largest_records_so_far_count() -> None:
    guess = SizeGuess(1000)
    guess.learn(10, 10 * BYTES_MAX // 100)
    assert guess.is_small(100)
    assert not guess.is_small(101)
    guess.learn(10, 10)
    assert not guess.is_small(101)


def test_a_batch_of_unknown_size_teaches_nothing() -> None:
    guess = SizeGuess(1000)
    guess.learn(None, 1000)
    guess.learn(0, 1000)
    assert guess.bytes_per_record is None


def test_nothing_is_small_when_that_is_turned_off() -> None:
    guess = SizeGuess(0)
    guess.learn(10, 10)
    assert not guess.is_small(1)
