"""The broker that Kafka's programs are run against.

It is `fencepost up` unless told otherwise: `--apache-kafka` starts the original, `--bootstrap HOST:PORT` takes one that
runs already. What a test expects has been seen on the original first, and can be checked there again:

    python -m pytest tests/compat -m compat --apache-kafka
"""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.harness import brokers, java
from bench.harness.brokers import KINDS, Server
from tests.compat.tools import Tool
from tests.conftest import SETTINGS

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = java.available()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)
            item.add_marker(pytest.mark.timeout(300))
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


class Elsewhere(Server):
    """A broker that somebody else started; its files are out of reach."""

    name = "elsewhere"

    def __init__(self, bootstrap: str) -> None:
        self.port = int(bootstrap.rsplit(":", 1)[1])
        self._bootstrap = bootstrap

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap

    @property
    def data_directory(self) -> Path:
        pytest.skip("needs the broker's files")

    def _prepare(self) -> list[str]:
        pytest.skip("needs a broker of its own")


@pytest.fixture(scope="session")
def kind(pytestconfig: pytest.Config) -> str:
    return "kafka" if pytestconfig.getoption("--apache-kafka") else "fencepost"


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config, kind: str) -> Iterator[Server]:
    """The session's broker. A test that stops one or needs other settings starts its own with `start_server`."""
    if given := pytestconfig.getoption("--bootstrap"):
        yield Elsewhere(given)
        return
    with brokers.running(kind, SETTINGS) as running:
        yield running
        assert_no_traceback(running)


@pytest.fixture
def start_server(
    pytestconfig: pytest.Config, kind: str, tmp_path: Path
) -> Iterator[Callable[[Mapping[str, str]], Server]]:
    if pytestconfig.getoption("--bootstrap"):
        pytest.skip("needs a broker of its own")
    started: list[Server] = []

    def start(settings: Mapping[str, str]) -> Server:
        made = KINDS[kind]({**SETTINGS, **settings}, tmp_path / f"server{len(started)}")
        started.append(made)
        return made.start()

    yield start
    for each in started:
        each.kill()
    for each in started:
        assert_no_traceback(each)


def assert_no_traceback(running: Server) -> None:
    """A broker that answers well may still have stumbled inside."""
    said = running.log_path.read_text(errors="replace")
    assert not re.search(r"(?m)^Traceback", said), said[-4000:]


@pytest.fixture(scope="session")
def tool(server: Server) -> Tool:
    """Runs Kafka's command-line tools against the session's broker."""
    return Tool(server.bootstrap_servers)


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

    def write(topic: str, partition: int, values: list[str]) -> None:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "linger.ms": 0})
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(30) == 0

    return write
