"""Fixtures of the group coordinator's tests."""

import pytest

from tests.unit.coordinator.group.support import World


@pytest.fixture
def world() -> World:
    return World()
