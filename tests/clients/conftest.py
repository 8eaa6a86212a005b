"""The client under test. A module of tests says which one: `CLIENT = Confluent`."""

from collections.abc import Callable, Iterator

import pytest

from tests.clients.facade import Client
from tests.clients.registry import CLIENTS


@pytest.fixture
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    opened = request.module.CLIENT(bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def open_client(bootstrap: str) -> Iterator[Callable[[str], Client]]:
    """Another client by its name."""
    opened: list[Client] = []

    def open_one(name: str) -> Client:
        opened.append(CLIENTS[name](bootstrap))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()
