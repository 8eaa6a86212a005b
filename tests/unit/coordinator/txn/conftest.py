"""Fixtures of the transaction coordinator's tests."""

import pytest

from tests.unit.coordinator.txn.rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
