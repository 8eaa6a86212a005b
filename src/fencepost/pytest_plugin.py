"""Fixtures for tests that need a broker. pytest finds them on its own once fencepost is installed.

``fencepost_broker``              one broker for the whole session (for each worker, with xdist), on a free port
``fencepost_bootstrap_servers``   its address, the `bootstrap.servers` of clients
``fencepost_topic``               the name of a fresh topic for this test

Settings of the broker come from ``fencepost_settings`` in the ini file, one per line, and from ``--fencepost-set``. The
settings of a topic come from a marker:
``@pytest.mark.fencepost_topic(partitions=3, config={"cleanup.policy": "compact"})``.

A test may kill or stop the broker (``fencepost_broker.kill()``). It is started again before the next test, on the same
port and with the same data. A test must not close it, because that removes the data.

The broker's modules are imported when the first test uses it.
"""

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fencepost.embedded import Broker

#: A new group waits 3 s for more members, which tests do not need.
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}

_NAME_LENGTH_MAX = 200
_BROKER = pytest.StashKey["Broker"]()  #: once a test has used it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("fencepost_settings", "broker settings for the fencepost_broker fixture, NAME=VALUE", type="linelist")
    parser.getgroup("fencepost").addoption(
        "--fencepost-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting for the fencepost_broker fixture, by Kafka's name; repeatable",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "fencepost_topic(partitions=1, config={}): settings of the topic that the fencepost_topic fixture creates",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the broker again if the last test ended it. Runs before fixtures are set up, because they may need it."""
    broker = item.config.stash.get(_BROKER, None)
    if broker is None or broker.running:
        return
    from fencepost.embedded import BrokerFailed

    try:
        broker.start()
    except BrokerFailed:
        if "fencepost_broker" in getattr(item, "fixturenames", ()):  # a test without it has no reason to fail
            raise


@pytest.fixture(scope="session")
def fencepost_broker(pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A running broker, the same for all tests of the session; its data is temporary."""
    from fencepost.embedded import Broker

    given: dict[str, object] = dict(DEFAULTS)
    for assignment in (*pytestconfig.getini("fencepost_settings"), *pytestconfig.getoption("--fencepost-set")):
        name, equals, value = assignment.partition("=")
        if not equals:
            raise pytest.UsageError(f"fencepost settings are NAME=VALUE, not {assignment!r}")
        given[name.strip()] = value.strip()
    with Broker(settings=given) as broker:
        pytestconfig.stash[_BROKER] = broker
        yield broker
        del pytestconfig.stash[_BROKER]


@pytest.fixture(scope="session")
def fencepost_bootstrap_servers(fencepost_broker: "Broker") -> str:
    """The `bootstrap.servers` of clients."""
    return fencepost_broker.bootstrap_servers


@pytest.fixture
def fencepost_topic(request: pytest.FixtureRequest, fencepost_broker: "Broker") -> str:
    """The name of a topic that exists and that no other test has."""
    marker = request.node.get_closest_marker("fencepost_topic")
    options = dict(marker.kwargs) if marker is not None else {}
    name = topic_name(request.node.name)
    fencepost_broker.create_topic(name, options.pop("partitions", 1), options.pop("config", None))
    if options:
        raise pytest.UsageError(f"fencepost_topic takes partitions and config, not {', '.join(options)}")
    return name


def topic_name(test_name: str) -> str:
    """A legal topic name that tells which test it belongs to, and is never given twice."""
    legal = re.sub(r"[^a-zA-Z0-9_-]+", "-", test_name).strip("-")[:_NAME_LENGTH_MAX]
    return f"{legal or 'test'}-{uuid.uuid4().hex[:8]}"
