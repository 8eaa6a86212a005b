import pytest

from fencepost.coordinator.txn.producer_ids import BLOCK_SIZE, ProducerIds
from fencepost.errors import ErrorCode, KafkaError


class Reservations:
    def __init__(self) -> None:
        self.blocks: list[range] = []
        self.fails = False

    def reserve(self, count: int) -> range:
        if self.fails:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        first = self.blocks[-1].stop if self.blocks else 0
        self.blocks.append(range(first, first + count))
        return self.blocks[-1]


def test_every_id_is_given_once_and_blocks_are_reserved_when_needed():
    reservations = Reservations()
    ids = ProducerIds(reservations.reserve)
    assert [ids.take() for _ in range(2 * BLOCK_SIZE + 1)] == list(range(2 * BLOCK_SIZE + 1))
    assert len(reservations.blocks) == 3


def test_looking_takes_nothing():
    ids = ProducerIds(Reservations().reserve)
    assert ids.peek() == ids.peek() == ids.take()
    assert ids.take() == 1


def test_a_block_that_cannot_be_reserved_is_asked_for_again():
    reservations = Reservations()
    ids = ProducerIds(reservations.reserve)
    reservations.fails = True
    with pytest.raises(KafkaError):
        ids.take()
    reservations.fails = False
    assert ids.take() == 0
