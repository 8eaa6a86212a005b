"""Histories of a whole broker in virtual time keep every promise, and a seed replays its history exactly."""

import os
import random
import subprocess
import sys
from typing import Any

import pytest

from fencepost.coordinator.txn.completion import Completions
from fencepost.coordinator.txn.coordinator import TransactionCoordinator
from fencepost.coordinator.txn.steps import Step
from fencepost.log.partition import PartitionLog
from fencepost.log.producers import Producers
from tests.simulation.history import play

HISTORIES = 60


def test_committed_is_visible_aborted_never_nothing_is_torn_and_no_epoch_has_two_owners():
    first = random.SystemRandom().randrange(2**31) if os.environ.get("EXPLORE") else 0
    for seed in range(first, first + HISTORIES):
        history = play(seed)
        assert not history.violations, f"python -m tests.simulation --seed {seed}"


@pytest.mark.parametrize("step", Step, ids=lambda step: step.name.lower())
def test_a_transaction_survives_a_power_loss_at_each_step_of_its_end_without_its_client(step):
    for seed in range(5):
        history = play(seed, at=step)
        assert not history.violations, history.lines


def test_histories_have_everything_in_them_that_can_go_wrong():
    lines = "\n".join(line for seed in range(30) for line in play(seed).lines)
    for what in ("loses power", "is killed", "is stopped", "goes silent", "was refused", "committed", "aborting"):
        assert what in lines


def test_a_seed_gives_the_same_history_byte_for_byte_in_any_process():
    seed = 3

    def elsewhere(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed)]
        return subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, text=True)

    here = play(seed)
    printed = elsewhere("1")
    assert printed == elsewhere("2")
    assert printed.splitlines()[-1] == here.digest == play(seed).digest
    assert play(seed + 1).digest != here.digest


async def _at_once(self: Any, *_: Any) -> None:
    """Does not wait for the disk."""


SABOTAGE = {
    "answers leave before they are durable": (PartitionLog, "when_durable", lambda self, offset: None),
    "markers are written before PREPARE is durable": (Completions, "_until_durable", _at_once),
    "transactions never time out": (TransactionCoordinator, "abort_timed_out", lambda self: None),
    "a repeated or late batch is written again": (Producers, "check", lambda self, *_: None),
}


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_broker_that_breaks_a_promise_is_found_out(what, monkeypatch):
    monkeypatch.setattr(*SABOTAGE[what])
    assert any(play(seed, at=at).violations for seed in range(100) for at in (None, Step.MARKERS_APPENDED))
