"""A broker without sockets, as the tests here get it."""

import pytest

from tests.unit.broker.admin_world import World


@pytest.fixture
def open_world(tmp_path):
    """Opens one with settings or a disk of its own: `open_world({"num.partitions": "6"})`. It is closed at the end."""
    opened = []

    def open_one(settings=None, disk=None):
        opened.append(World(tmp_path / "data", settings, disk))
        return opened[-1]

    yield open_one
    for world in opened:
        world.close()


@pytest.fixture
def world(open_world):
    return open_world()
