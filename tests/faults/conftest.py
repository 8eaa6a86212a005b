"""What the fault tests share: brokers of their own, looked at afterwards for hidden stumbles."""

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
    """Makes brokers that the test may kill; all are ended after it, and none may have printed a traceback."""
    yield from _brokers(tmp_path)


@pytest.fixture(scope="module")
def make_module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeBroker]:
    """The same for one that the tests of a module share."""
    yield from _brokers(tmp_path_factory.mktemp("brokers"))


@pytest.fixture(scope="module")
def address(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Address:
    """A broker for the tests of a module that do it no lasting harm, or the Kafka that `--bootstrap` names."""
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
    stumbles = [text for broker in made for text in broker.tracebacks()]
    assert not stumbles, "a broker stumbled:\n" + "\n".join(stumbles)
