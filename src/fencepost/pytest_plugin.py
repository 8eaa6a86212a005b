"""Fixtures for tests that need a broker. pytest finds them on its own once fencepost is installed.

``fencepost_broker``              one broker for the whole session (for each worker, with xdist), on a free port
``fencepost_bootstrap_servers``   its address, the `bootstrap.servers` of clients
``fencepost_client_config``       all that a client needs to connect: ``Producer(fencepost_client_config("confluent"))``
``fencepost_topic``               the name of a fresh topic for this test

Settings of the broker come from ``fencepost_settings`` in the ini file, one per line, and from ``--fencepost-set``. The
settings of a topic come from a marker:
``@pytest.mark.fencepost_topic(partitions=3, config={"cleanup.policy": "compact"})``.

A broker with TLS and a login comes from ``fencepost_security = SASL_SSL`` in the ini file, from
``--fencepost-security SASL_SSL``, or for some tests, classes or modules from a marker:
``@pytest.mark.fencepost_security("SASL_SSL")``. With several protocols a test runs once with each. There is one broker
for each protocol in a session, and it starts when the first test needs it.

A test may kill or stop the broker (``fencepost_broker.kill()``). It is started again before the next test, on the same
port and with the same data. A test must not close it, because that removes the data.

The broker's modules are imported when the first test uses it.
"""

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fencepost.embedded import Broker

#: A new group waits 3 s for more members, which tests do not need.
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
NO_SECURITY = "PLAINTEXT"

_NAME_LENGTH_MAX = 200
_BROKERS = pytest.StashKey[dict[str, "Broker"]]()  #: by protocol; those that a test has used


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("fencepost_settings", "broker settings for the fencepost_broker fixture, NAME=VALUE", type="linelist")
    parser.addini("fencepost_security", "security protocol of the fencepost_broker fixture", default=NO_SECURITY)
    group = parser.getgroup("fencepost")
    group.addoption(
        "--fencepost-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting for the fencepost_broker fixture, by Kafka's name; repeatable",
    )
    group.addoption(
        "--fencepost-security",
        metavar="PROTOCOL",
        help="security protocol of the fencepost_broker fixture: SASL_SSL, SSL, SASL_PLAINTEXT or PLAINTEXT",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "fencepost_topic(partitions=1, config={}): settings of the topic that the fencepost_topic fixture creates",
    )
    config.addinivalue_line(
        "markers",
        "fencepost_security(protocol, ...): run with a fencepost_broker of this security protocol, once with each",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The marker is a parameter of the fixture. So what is made of one broker is never used with another."""
    marker = metafunc.definition.get_closest_marker("fencepost_security")
    if marker is None:
        return
    if not marker.args or marker.kwargs:
        raise pytest.UsageError("fencepost_security takes one or more protocols, such as SASL_SSL")
    protocols = [_protocol(str(word), "the marker fencepost_security") for word in marker.args]
    if "fencepost_broker" in metafunc.fixturenames:
        metafunc.parametrize("fencepost_broker", protocols, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start brokers again that the last test ended. Runs before fixtures are set up, because they may need it."""
    for protocol, broker in item.config.stash.get(_BROKERS, {}).items():
        if broker.running:
            continue
        from fencepost.embedded import BrokerFailed

        try:
            broker.start()
        except BrokerFailed:
            if protocol == _needed_by(item):  # a test without it has no reason to fail
                raise


def _needed_by(item: pytest.Item) -> str | None:
    if "fencepost_broker" not in getattr(item, "fixturenames", ()):
        return None
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return str(parameters.get("fencepost_broker", _default_protocol(item.config)))


def _default_protocol(config: pytest.Config) -> str:
    given = config.getoption("--fencepost-security")
    if given is not None:
        return _protocol(given, "--fencepost-security")
    return _protocol(config.getini("fencepost_security"), "fencepost_security")


def _protocol(word: str, where: str) -> str:
    from fencepost.errors import ConfigError
    from fencepost.security.names import Protocol

    try:
        return str(Protocol.parse(word, where))
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def _fencepost_brokers(pytestconfig: pytest.Config) -> "Iterator[Callable[[str], Broker]]":
    """Gives the session's broker of a protocol, and starts it the first time."""
    from fencepost.embedded import Broker

    given: dict[str, object] = dict(DEFAULTS)
    for assignment in (*pytestconfig.getini("fencepost_settings"), *pytestconfig.getoption("--fencepost-set")):
        name, equals, value = assignment.partition("=")
        if not equals:
            raise pytest.UsageError(f"fencepost settings are NAME=VALUE, not {assignment!r}")
        given[name.strip()] = value.strip()
    brokers = pytestconfig.stash[_BROKERS] = {}
    with contextlib.ExitStack() as started:

        def broker_of(protocol: str) -> Broker:
            if protocol not in brokers:
                security = None if protocol == NO_SECURITY else protocol
                brokers[protocol] = started.enter_context(Broker(settings=given, security=security))
            return brokers[protocol]

        yield broker_of
        del pytestconfig.stash[_BROKERS]


@pytest.fixture(scope="session")
def fencepost_broker(request: pytest.FixtureRequest, _fencepost_brokers: "Callable[[str], Broker]") -> "Broker":
    """A running broker, the same for all tests of the session with the same security; its data is temporary."""
    return _fencepost_brokers(getattr(request, "param", None) or _default_protocol(request.config))


@pytest.fixture(scope="session")
def fencepost_bootstrap_servers(fencepost_broker: "Broker") -> str:
    """The `bootstrap.servers` of clients."""
    return fencepost_broker.bootstrap_servers


@pytest.fixture(scope="session")
def fencepost_client_config(fencepost_broker: "Broker") -> Callable[[str], dict[str, Any]]:
    """What a client needs to connect, for "confluent", "kafka-python", "aiokafka", "spark" or "java"."""
    return fencepost_broker.client_config


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
