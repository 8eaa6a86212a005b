"""Orders that make processes fail."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fencepost.lab.scenarios import orders
from fencepost.lab.scenarios.orders import Action, Orders
from fencepost.processes import tree


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    monkeypatch.setenv(orders.VARIABLE, str(tmp_path / "orders"))
    orders._passed.clear()
    return Orders(tmp_path / "orders")


def test_an_order_is_carried_out_once_and_says_by_whom(given: Orders):
    given.give("HERE", Action.FAIL)
    orders.look("THERE")
    with pytest.raises(orders.Failed):
        orders.look("HERE")
    assert given.taken_by("HERE") == os.getpid()
    orders.look("HERE")


def test_an_order_can_be_for_a_later_pass(given: Orders):
    given.give("HERE", Action.FAIL, passes=2)
    orders.look("HERE")
    orders.look("HERE")
    assert given.taken_by("HERE") is None
    with pytest.raises(orders.Failed):
        orders.look("HERE")


def test_a_process_that_waits_goes_on_when_the_order_is_withdrawn(given: Orders):
    given.give("HERE", Action.WAIT)
    waiting = threading.Thread(target=orders.look, args=("HERE",), daemon=True)
    waiting.start()
    while given.taken_by("HERE") is None:
        pass
    assert waiting.is_alive()
    given.withdraw("HERE")
    waiting.join(10)
    assert not waiting.is_alive()


def test_nobody_obeys_without_a_directory(given: Orders, monkeypatch: pytest.MonkeyPatch):
    given.give("HERE", Action.FAIL)
    monkeypatch.delenv(orders.VARIABLE)
    orders.look("HERE")
    assert given.taken_by("HERE") is None


def test_a_tree_is_a_process_and_what_it_started():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in tree(os.getpid())
        assert orders.parent_of(child.pid) == os.getpid()
