"""What the tests here share. A module of them says which client it tests: `CLIENT = Confluent`."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.lab.kit.servers import Ours
from tests.clients.facade import Client, Spot
from tests.clients.raw import Wire
from tests.clients.registry import CLIENTS
from tests.conftest import unique


@pytest.fixture
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    with contextlib.closing(request.module.CLIENT(bootstrap)) as opened:
        yield opened


@pytest.fixture
def open_client(bootstrap: str) -> Iterator[Callable[[str], Client]]:
    """Another client by its name."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(contextlib.closing(CLIENTS[name](bootstrap)))


@pytest.fixture(scope="session")
def strict_broker(start_broker: Callable[..., Ours], is_original: bool) -> Ours:
    """One that creates no topic unasked."""
    if is_original:
        pytest.skip("needs a broker with other settings")
    return start_broker({"auto.create.topics.enable": "false"})


@pytest.fixture
def strict_client(request: pytest.FixtureRequest, strict_broker: Ours) -> Iterator[Client]:
    with contextlib.closing(request.module.CLIENT(strict_broker.bootstrap)) as opened:
        yield opened


@pytest.fixture
def strict_admin(strict_broker: Ours) -> AdminClient:
    return AdminClient({"bootstrap.servers": strict_broker.bootstrap})


@pytest.fixture
def group(client: Client, topic: Callable[..., str]) -> tuple[str, str]:
    """An empty group with offset 2 committed for the only partition of a topic of three records, and that topic."""
    name, group = topic(), unique("group")
    client.producer().put(name, b"a", b"b", b"c")
    consumer = client.consumer(name, group=group)
    consumer.read(3)
    consumer.commit({Spot(name, 0): 2})
    client.close_one(consumer)
    return group, name


@pytest.fixture
def open_wire(bootstrap: str) -> Iterator[Callable[[], Wire]]:
    """Opens bare connections."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(Wire(bootstrap))


@pytest.fixture
def wire(open_wire: Callable[[], Wire]) -> Wire:
    return open_wire()
