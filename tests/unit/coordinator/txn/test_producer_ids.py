import pytest

from fencepost.coordinator.txn.producer_ids import BLOCK_SIZE, ProducerIds
from fencepost.errors import ErrorCode, KafkaError


class Reservations:
    def __init__(self) -> None:
        self.next_id = 0
        self.fails = False

    def reserve(self, count: int) -> range:
        if self.fails:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.next_id += count
        return range(self.next_id - count, self.next_id)


def test_every_id_is_given_once_and_a_block_is_reserved_when_it_is_needed():
    reservations = Reservations()
    ids = ProducerIds(reservations.reserve)
    reservations.fails = True
    with pytest.raises(KafkaError):
        ids.take()
    reservations.fails = False
    assert ids.peek() == ids.peek() == 0
    assert [ids.take() for _ in range(2 * BLOCK_SIZE + 1)] == list(range(2 * BLOCK_SIZE + 1))
    assert reservations.next_id == 3 * BLOCK_SIZE
