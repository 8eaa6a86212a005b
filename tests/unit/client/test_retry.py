"""Patience: growing pauses, a deadline, and a last word that says what was met."""

import pickle

import pytest

from fencepost.client.retry import Retry, known_code
from fencepost.client.settings import ClientSettings
from fencepost.errors import BootstrapFailed, ErrorCode, GaveUp, KafkaError, Refused

SETTINGS = ClientSettings.parse(
    {"bootstrap.servers": "a:1", "retry.backoff.ms": 100, "retry.backoff.max.ms": 400, "default.api.timeout.ms": 2_000}
)


class Time:
    def __init__(self) -> None:
        self.now_s = 50.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s


def test_pauses_double_up_to_a_limit_and_end_at_the_deadline():
    time = Time()
    retry = Retry("asking", SETTINGS, sleep=time.sleep, monotonic=time.monotonic)
    while retry.left_s > 0:
        retry.wait(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(GaveUp, match="asking: gave up after 2 s; the last answer was: NOT_COORDINATOR"):
        retry.wait(ErrorCode.NOT_COORDINATOR)
    expected = [0.1, 0.2, 0.4, 0.4, 0.4]
    assert all(0.8 * e <= p <= 1.2 * e for p, e in zip(time.pauses, expected, strict=False))
    assert time.now_s == pytest.approx(52.0)


def test_a_code_of_the_future_is_an_unknown_error():
    assert known_code(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known_code(31_000) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.INVALID_TXN_STATE, "so"),
        Refused(ErrorCode.INVALID_TXN_STATE, "so"),
        BootstrapFailed({"a:1": "refused"}),
        GaveUp("so"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
