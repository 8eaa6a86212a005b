"""The raw client: what it repeats, what it never does, and bytes that are no whole request."""

from collections.abc import Iterator

import pytest

from fencepost.client.raw import Produced, RawClient, patiently
from fencepost.errors import ConnectionLost, ErrorCode, Refused
from tests.unit.client.scripted import METADATA

BUSY, MOVED, NO = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.PRODUCER_FENCED
LOST = ConnectionLost("gone")


def take(asked: Iterator[object]) -> object:
    answer = next(asked)
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize("busy", [BUSY, Produced(BUSY, -1), Refused(BUSY)], ids=["a code", "an answer", "an error"])
def test_busy_is_asked_again_and_a_refusal_is_not(busy):
    asked = iter([busy, busy, NO, ErrorCode.NONE])
    assert patiently(lambda: take(asked)) is NO


@pytest.mark.parametrize("answer", [LOST, Refused(MOVED)], ids=["a lost connection", "a leader that moved"])
def test_only_a_caller_that_can_recover_gets_over(answer):
    with pytest.raises(type(answer)):
        patiently(lambda: take(iter([answer])))
    asked, recovered = iter([answer, answer, ErrorCode.NONE]), []
    assert patiently(lambda: take(asked), recover=lambda: recovered.append(1)) is ErrorCode.NONE
    assert len(recovered) == 2


def test_patience_ends_with_the_last_answer():
    assert patiently(lambda: BUSY, timeout_s=0) is BUSY
    with pytest.raises(Refused):
        patiently(lambda: take(iter([Refused(BUSY)])), timeout_s=0)


def test_a_request_in_pieces_is_answered_when_it_is_complete(broker):
    with RawClient(broker.address) as client:
        data, asked = client.frame(METADATA, 9, {"topics": None})
        for byte in data[:-1]:
            client.send_bytes(bytes([byte]))
        client.send_bytes(data[-1:], asked)
        assert client.receive(asked).topics[0].name == "t"
        assert [key for key, _ in broker.asked] == [METADATA], "no version is agreed on before"
