"""What the tests here share. A module of them says which client it tests: `CLIENT = Confluent`."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.lab.kit.servers import Ours, Server
from fencepost.security.names import Protocol
from tests.clients.facade import Client, Spot
from tests.clients.raw import Wire
from tests.clients.registry import CLIENTS
from tests.conftest import unique


@pytest.fixture
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    with contextlib.closing(request.module.CLIENT(server)) as opened:
        yield opened


@pytest.fixture
def open_client(server: Server) -> Iterator[Callable[[str], Client]]:
    """Another client by its name."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(contextlib.closing(CLIENTS[name](server)))


@pytest.fixture(scope="session")
def strict_broker(start_broker: Callable[..., Ours], is_original: bool, security: Protocol | None) -> Ours:
    """One that creates no topic unasked."""
    if is_original:
        pytest.skip("needs a broker with other settings")
    return start_broker({"auto.create.topics.enable": "false"}, security)


@pytest.fixture
def strict_client(request: pytest.FixtureRequest, strict_broker: Ours) -> Iterator[Client]:
    with contextlib.closing(request.module.CLIENT(strict_broker)) as opened:
        yield opened


@pytest.fixture
def strict_admin(strict_broker: Ours) -> AdminClient:
    return AdminClient(strict_broker.client_config("confluent"))


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
def open_wire(server: Server) -> Iterator[Callable[[], Wire]]:
    """Opens bare connections."""
    if server.security.protocol is not Protocol.PLAINTEXT:
        pytest.skip("speaks no TLS and does not log in")
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(Wire(server.bootstrap))


@pytest.fixture
def wire(open_wire: Callable[[], Wire]) -> Wire:
    return open_wire()
