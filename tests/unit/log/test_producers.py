"""Duplicates, gaps, epochs: the sequence rules, alone and against a model."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.producers import BATCHES_KEPT, Producers
from fencepost.log.txn_index import AbortedTransaction
from fencepost.wire.batch import TRANSACTIONAL_FLAG
from tests.unit.log.support import Fixture, batch

LAST_SEQUENCE = 2**31 - 1


def send(home: Fixture, sequence: int, count: int = 1, epoch: int = 0) -> tuple[int, bool] | ErrorCode:
    """The offset and whether it is a duplicate, or why it is refused."""
    try:
        appended = home.log.append(batch(*[b"x"] * count, producer_id=7, producer_epoch=epoch, base_sequence=sequence))
    except KafkaError as error:
        return error.code
    return appended.base_offset, appended.duplicate


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_sequences_and_epochs_follow_the_model(data: st.DataObject) -> None:
    """Repeated, next and wrong sequences, near the point where they wrap, under old and new epochs, with restarts.

    A duplicate is one of the last five batches of the epoch, range for range. A producer that is not known may begin
    anywhere; a new epoch begins at 0 and ends the old one.
    """
    home = Fixture()
    kept: list[tuple[int, int, int]] = []  #: first and last sequence, offset
    epoch, end, next_sequence = 1, 0, data.draw(st.sampled_from([0, 5, LAST_SEQUENCE - 3, LAST_SEQUENCE]))
    first = next_sequence
    for _ in range(data.draw(st.integers(1, 20))):
        count = data.draw(st.integers(1, 3))
        wrong = [first, 0, (next_sequence + 1) % 2**31, *[old[0] for old in kept]]
        sequence = data.draw(st.sampled_from([next_sequence] * len(wrong) + wrong))
        sent_epoch = data.draw(st.sampled_from([epoch] * 8 + [epoch - 1, epoch + 1])) if end else epoch
        last = (sequence + count - 1) % 2**31
        repeated = next((old[2] for old in kept if old[:2] == (sequence, last) and sent_epoch == epoch), None)
        in_order = sequence == (next_sequence if sent_epoch == epoch else 0) or not end
        answer = send(home, sequence, count, sent_epoch)
        if sent_epoch < epoch:
            assert answer == ErrorCode.INVALID_PRODUCER_EPOCH
        elif repeated is not None:
            assert answer == (repeated, True)
        elif not in_order:
            assert answer == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            assert answer == (end, False)
            kept = [*(kept if sent_epoch == epoch else []), (sequence, last, end)][-BATCHES_KEPT:]
            epoch, end, next_sequence = sent_epoch, end + count, (last + 1) % 2**31
        assert (home.log.log_end_offset, home.log.active_producers()[0].last_sequence) == (end, kept[-1][1])
        if data.draw(st.integers(0, 5)) == 0:
            home.worker.run()
            data.draw(st.sampled_from([home.restart, home.kill, home.power_failure]))()


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
    assert send(home, 1) == ErrorCode.INVALID_TXN_STATE


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
