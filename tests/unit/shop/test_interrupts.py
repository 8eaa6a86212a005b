"""Ctrl-C once and twice."""

import os
import signal

import pytest

from fencepost.shop.interrupts import Interrupts


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_one_raises_where_nothing_is_at_stake():
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        interrupt()


def test_the_first_one_is_noted_after_hold_and_the_second_raises():
    with Interrupts() as interrupts:
        interrupts.hold()
        interrupt()
        assert interrupts.have_come
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_the_handler_that_was_there_is_there_again_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Spark would
        interrupts.take_back()
        interrupts.hold()
        interrupt()
        assert interrupts.have_come
    assert signal.getsignal(signal.SIGINT) is before
