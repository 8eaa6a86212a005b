"""What the fault tests share: their brokers, whose logs must have no traceback."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.lab.kit.servers import SHORT_CYCLES
from tests.faults.process import BrokerProcess
from tests.faults.raw import Address

MakeBroker = Callable[..., BrokerProcess]


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Makes brokers that the test may kill. They end after the test, and none may have logged a traceback."""
    yield from _brokers(tmp_path)


@pytest.fixture(scope="module")
def make_module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeBroker]:
    """The same, for brokers that the tests of a module share."""
    yield from _brokers(tmp_path_factory.mktemp("brokers"))


@pytest.fixture(scope="module")
def address(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Address:
    """A broker that the tests of a module share, or the Kafka that `--bootstrap` names."""
    given = pytestconfig.getoption("--bootstrap")
    if given:
        host, _, port = given.rpartition(":")
        return host, int(port)
    started: BrokerProcess = request.getfixturevalue("make_module_broker")().start()
    return started.address


def _brokers(home: Path) -> Iterator[MakeBroker]:
    made: list[BrokerProcess] = []
    numbers = itertools.count()

    def make(settings: dict[str, str] | None = None, *, directory: Path | None = None) -> BrokerProcess:
        broker = BrokerProcess(
            home / f"broker-{next(numbers)}", {**SHORT_CYCLES, **(settings or {})}, directory=directory
        )
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.kill()
    errors = [text for broker in made for text in broker.tracebacks()]
    assert not errors, "a broker logged an error:\n" + "\n".join(errors)
