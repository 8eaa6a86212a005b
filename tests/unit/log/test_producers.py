"""Duplicates, gaps, epochs: the sequence rules, alone and against a model."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.origin import Origin
from fencepost.log.producers import BATCHES_KEPT, Producers
from fencepost.log.txn_index import AbortedTransaction
from fencepost.wire.batch import TRANSACTIONAL_FLAG
from tests.unit.log.support import Fixture, batch

LAST_SEQUENCE = 2**31 - 1


def send(home: Fixture, sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 7) -> tuple[int, bool]:
    encoded = batch(*[b"x"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    appended = home.log.append(encoded)
    return appended.base_offset, appended.duplicate


def code(home: Fixture, sequence: int, **options: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        send(home, sequence, **options)
    return refused.value.code


def test_any_of_the_last_five_batches_is_answered_with_its_offset(home: Fixture) -> None:
    for number in range(7):
        send(home, number)
    for number in range(2, 7):
        assert send(home, number) == (number, True)
    assert code(home, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert home.log.log_end_offset == 7


def test_a_duplicate_has_to_be_the_same_range(home: Fixture) -> None:
    send(home, 0, count=3)
    assert code(home, 0, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(home, 1, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(home, 0, count=3) == (0, True)


def test_a_gap_is_refused(home: Fixture) -> None:
    send(home, 0)
    assert code(home, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(home, 1) == (1, False)


def test_a_producer_that_is_not_known_may_begin_anywhere(home: Fixture) -> None:
    assert send(home, 42) == (0, False)
    assert code(home, 42 + 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(home, 43) == (1, False)


def test_sequences_wrap(home: Fixture) -> None:
    send(home, LAST_SEQUENCE - 1, count=3)
    assert home.log.active_producers()[0].last_sequence == 0
    assert send(home, LAST_SEQUENCE - 1, count=3) == (0, True)
    assert send(home, 1) == (3, False)
    send(home, 0, producer_id=8)
    send(home, LAST_SEQUENCE, producer_id=9)
    assert send(home, 0, producer_id=9)[1] is False


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one(home: Fixture) -> None:
    send(home, 0)
    assert code(home, 1, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(home, 0, epoch=1) == (1, False)
    assert code(home, 1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(home, 0, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(home, 0, epoch=1) == (1, True)


def test_state_survives_restarts_kills_and_power_failures(home: Fixture) -> None:
    for number in range(6):
        send(home, number)
    home.worker.run()
    for restart in (home.restart, home.kill, home.power_failure):
        restart()
        assert send(home, 5) == (5, True)
        assert code(home, 7) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_all_five_are_known_again_after_a_kill(home: Fixture) -> None:
    for number in range(6):
        send(home, number)
    home.worker.run()
    home.kill()
    assert [send(home, number) for number in range(1, 6)] == [(number, True) for number in range(1, 6)]


def test_idle_producers_expire_but_not_with_an_open_transaction(home: Fixture) -> None:
    home.configure(producer_id_expiration_ms=1000)
    send(home, 0)
    home.log.append(batch(b"x", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
    home.clock.advance(999)
    home.maintain()
    assert len(home.log.active_producers()) == 2
    home.clock.advance(1)
    home.maintain()
    assert [state.producer_id for state in home.log.active_producers()] == [8]


def test_writing_old_records_does_not_make_a_producer_idle(home: Fixture) -> None:
    home.configure(producer_id_expiration_ms=1000)
    home.append(b"x", producer_id=7, producer_epoch=0, base_sequence=0, timestamps=[5])
    home.maintain()
    assert send(home, 0) == (0, True)
    home.restart()
    home.maintain()
    assert send(home, 0) == (0, True)


def test_the_open_transaction_keeps_other_batches_of_its_producer_out(home: Fixture) -> None:
    home.log.append(batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    assert code(home, 1) == ErrorCode.INVALID_TXN_STATE


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_window_follows_the_model(data: st.DataObject) -> None:
    """Any mixture of repeated, next and wrong sequences, near the point where they wrap."""
    producers = Producers()
    kept: list[tuple[int, int, int]] = []
    next_sequence = first = data.draw(st.sampled_from([0, 5, LAST_SEQUENCE - 3, LAST_SEQUENCE]))
    offset = 0
    for _ in range(data.draw(st.integers(1, 20))):
        count = data.draw(st.integers(1, 3))
        choices = [next_sequence, first, (next_sequence + 1) % 2**31, *[old[0] for old in kept]]
        sequence = data.draw(st.sampled_from(choices))
        last = (sequence + count - 1) % 2**31
        expected = next((old[2] for old in kept if old[:2] == (sequence, last)), None)
        try:
            found = producers.check(1, 0, sequence, last, 0, Origin.CLIENT)
        except KafkaError:
            assert expected is None and sequence != next_sequence and kept
            continue
        assert (found[2] if found else None) == expected
        if expected is None:
            assert sequence == next_sequence or not kept
            producers.add_data(1, 0, sequence, last, offset, offset + count - 1, 0, 0, 0)
            kept = [*kept, (sequence, last, offset)][-BATCHES_KEPT:]
            next_sequence = (last + 1) % 2**31
            offset += count


def test_first_unstable_offset_is_the_oldest_that_is_open_or_not_settled() -> None:
    producers = Producers()
    for number in range(3):
        producers.add_data(number, 0, 0, 0, 10 * number, 10 * number, 0, TRANSACTIONAL_FLAG, 0)
    assert producers.first_unstable_offset() == 0
    aborted = producers.add_marker(0, 0, 0, 30, 0, 0, commit=False)
    assert aborted == AbortedTransaction(producer_id=0, first_offset=0, last_offset=30, last_stable_offset=10)
    assert producers.first_unstable_offset() == 0, "its marker may still be lost"
    producers.settle(30)
    assert producers.first_unstable_offset() == 0
    producers.settle(31)
    assert producers.first_unstable_offset() == 10
