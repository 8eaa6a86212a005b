"""The broker that Kafka's programs are run against.

It is `fencepost up` unless told otherwise: `--apache-kafka` starts the original, `--bootstrap HOST:PORT` takes one that
runs already. What a test expects has been seen on the original first, and can be checked there again:

    python -m pytest tests/compat -m compat --apache-kafka

`--security PROTOCOL` runs them over TLS and SASL, each program with the file of settings that it takes for that.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.harness import brokers, java
from fencepost.lab.kit.servers import SHORT_CYCLES, Elsewhere, Server
from fencepost.security.names import Protocol
from tests.compat.tools import Tool
from tests.conftest import wanted_security

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = java.available()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)
            item.add_marker(pytest.mark.timeout(300))
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def kind(pytestconfig: pytest.Config) -> str:
    return "kafka" if pytestconfig.getoption("--apache-kafka") else "fencepost"


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config, kind: str) -> Iterator[Server]:
    """The session's broker. A test that stops one or needs other settings starts its own with `start_server`."""
    if given := pytestconfig.getoption("--bootstrap"):
        yield Elsewhere(given)
        return
    with brokers.running(kind, SHORT_CYCLES, wanted_security(pytestconfig)) as running:
        yield running
        assert not running.tracebacks()


@pytest.fixture
def start_server(pytestconfig: pytest.Config, kind: str, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """`start_server(settings, security)`; without `security` it is secured as the session's broker is."""
    if pytestconfig.getoption("--bootstrap"):
        pytest.skip("needs a broker of its own")
    started: list[Server] = []
    wanted = wanted_security(pytestconfig)

    def start(settings: Mapping[str, str], security: Protocol | None = wanted) -> Server:
        made = brokers.make(kind, tmp_path / f"server{len(started)}", {**SHORT_CYCLES, **settings}, security)
        started.append(made)
        return made.start()

    yield start
    for each in started:
        each.kill()
    for each in started:
        assert not each.tracebacks()


@pytest.fixture(scope="session")
def tool(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """Runs Kafka's command-line tools against the session's broker."""
    return Tool.of(server, tmp_path_factory.mktemp("tool"))


@pytest.fixture
def name() -> str:
    """For a topic, a group or a transactional id that no other test has."""
    return f"compat-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(tool: Tool, name: str) -> str:
    """A new topic with three partitions."""
    tool("topics", "--create", "--topic", name, "--partitions", "3")
    return name


@pytest.fixture
def fill(server: Server) -> Callable[..., None]:
    """`fill(topic, partition, ["a", "b"])` writes values."""
    return partial(write_values, server)


def write_values(server: Server, topic: str, partition: int, values: list[str]) -> None:
    producer = Producer({**server.client_config("confluent"), "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0
