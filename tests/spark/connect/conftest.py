"""One server of Spark Connect for all tests of this directory, and a session for each of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.connect.remote import Runner
from tests.spark.connect.server import ConnectServer


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect")).start()
    yield server
    server.stop()


@pytest.fixture
def there(connect_server: ConnectServer) -> Iterator[Runner]:
    """Runs pipelines in a session of its own; all have ended after the test."""
    runner = Runner(connect_server)
    yield runner
    runner.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ConnectServer]:
    """For a test that kills it."""
    server = ConnectServer(tmp_path / "server").start()
    yield server
    server.stop()
