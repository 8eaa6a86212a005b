"""What the tests of both coordinators start from."""

import pytest

from tests.unit.coordinator.group.support import World
from tests.unit.coordinator.machine import Machine
from tests.unit.coordinator.txn.rig import Rig


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def rig() -> Rig:
    return Rig()
