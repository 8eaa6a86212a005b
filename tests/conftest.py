"""What tests of a running broker share: the broker itself, names that nobody else uses, and waiting without sleeping.

The broker is the real command in a process of its own. `--bootstrap HOST:PORT` runs the same tests on any other Kafka,
which must have the settings in `APACHE_SETTINGS`; `--apache-kafka` starts such a one (with Java, and the jars that
`make kafka` fetches). With `--security SASL_SSL` either is secured, Apache Kafka with its authorizer, and the tests of
Spark and of other clients log in to it (`tests/logins`, `client_config`). So a test that fails on ours and passes on
the original shows a difference, not an opinion.
"""

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from fencepost.client.cluster import NO_LEADER, Cluster
from fencepost.lab.kit.kafka import AUTHORIZER
from fencepost.lab.kit.servers import SHORT_CYCLES, Elsewhere, Ours, Server
from fencepost.security.names import PROTOCOLS, Protocol
from tests import logins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.register_assert_rewrite("tests.clients")

# The same examples in every run, so that a failure is of the change at hand; EXPLORE=1 looks for new ones. No deadline
# for an example, because a busy machine is not a bug; what fails can be replayed.
hypothesis.settings.register_profile(
    "fencepost",
    deadline=None,
    print_blob=True,
    derandomize=not os.environ.get("EXPLORE"),
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("fencepost")

ROOT = Path(__file__).resolve().parent.parent

#: For tests that wait for retention or compaction.
BUSY_SETTINGS = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "100"}
#: What the client tests rely on, and a wait that only Apache Kafka has.
APACHE_SETTINGS = {**SHORT_CYCLES, **BUSY_SETTINGS, "log.initial.task.delay.ms": "100"}

WAIT_TIMEOUT_S = 20.0
CREATE_PARTITIONS = 37
#: For a test in these directories: on a busy machine Spark takes its time.
TIMEOUTS_S = {"spark": 600, "shop": 600}

#: What the documentation calls ${env:KAFKA_PASSWORD}. Spark's processes get their environment when it starts.
KAFKA_PASSWORD = "the password of alice"

#: The fixture `topic`.
MakeTopic = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("broker")
    group.addoption("--bootstrap", metavar="HOST:PORT", help="run the client tests on this Kafka, not on a new broker")
    group.addoption("--apache-kafka", action="store_true", help="run the client tests on a new Apache Kafka")
    group.addoption("--security", metavar="PROTOCOL", choices=PROTOCOLS, help="secure the new broker")
    parser.addoption("--thorough", action="store_true", help="run the tests that take long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--thorough"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("thorough")])
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    for item in items:
        timeout_s = TIMEOUTS_S.get(item.path.relative_to(ROOT / "tests").parts[0])
        if timeout_s is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(timeout_s))


@pytest.fixture(scope="session")
def quick_start() -> None:
    """For tests that start Spark (`quick_spark`)."""
    from tests import quick_spark

    quick_spark.hasten()
    os.environ["KAFKA_PASSWORD"] = KAFKA_PASSWORD


@pytest.fixture(scope="session")
def spark(quick_start: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One Spark for all tests of a process: it takes seconds to start, and a process can have only one."""
    from tests import quick_spark

    started = quick_spark.start("tests", tmp_path_factory.mktemp("spark"))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Ours]]:
    """Starts another broker: `start_broker({"auto.create.topics.enable": "false"})`. All are stopped at the end."""
    started: list[Ours] = []

    def start(settings: Mapping[str, str] | None = None, security: Protocol | None = None) -> Ours:
        broker = Ours(tmp_path_factory.mktemp("broker"), {**SHORT_CYCLES, **(settings or {})}, security=security)
        started.append(broker)
        return broker.start()

    yield start
    for broker in started:
        broker.stop()
    found = [text for broker in started for text in broker.tracebacks()]
    for broker in started:
        shutil.rmtree(broker.home, ignore_errors=True)
    assert not found, "a broker stumbled:\n" + "\n".join(found)


@pytest.fixture(scope="session")
def is_original(pytestconfig: pytest.Config) -> bool:
    """Whether the tests run on some other Kafka."""
    return bool(pytestconfig.getoption("--bootstrap") or pytestconfig.getoption("--apache-kafka"))


def wanted_security(config: pytest.Config) -> Protocol | None:
    given = config.getoption("--security")
    return Protocol(given) if given else None


@pytest.fixture(scope="session")
def security(pytestconfig: pytest.Config) -> Protocol | None:
    """The protocol of the session's broker, if not PLAINTEXT."""
    return wanted_security(pytestconfig)


@pytest.fixture(scope="session")
def broker(start_broker: Callable[..., Ours], is_original: bool, security: Protocol | None) -> Ours:
    """The session's broker. It is everybody's: a test that stops or kills one starts its own."""
    if is_original:
        pytest.skip("needs our own broker")
    started = start_broker(security=security)
    logins.remember(started.bootstrap, started.security)
    return started


@pytest.fixture(scope="session")
def original_settings(security: Protocol | None) -> dict[str, str]:
    """Of the Apache Kafka that the tests run on."""
    return APACHE_SETTINGS if security is None else {**APACHE_SETTINGS, **AUTHORIZER}


@pytest.fixture(scope="session")
def original(
    pytestconfig: pytest.Config, security: Protocol | None, original_settings: dict[str, str]
) -> Iterator[Server]:
    """The other Kafka that the tests run on."""
    if given := pytestconfig.getoption("--bootstrap"):
        yield Elsewhere(given)
        return
    from bench.harness import brokers

    with brokers.running("kafka", original_settings, security) as kafka:
        logins.remember(kafka.bootstrap, kafka.security)
        yield kafka


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, is_original: bool) -> Server:
    """The broker under test."""
    return request.getfixturevalue("original" if is_original else "broker")


@pytest.fixture(scope="session")
def bootstrap(server: Server) -> str:
    """HOST:PORT of the broker under test."""
    return server.bootstrap


@pytest.fixture(scope="session")
def client_config(server: Server) -> Callable[[str], dict[str, Any]]:
    """What a client needs to connect to the broker under test, as `Server.client_config`."""
    return server.client_config


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """For arranging things; what admin clients can do is tested elsewhere."""
    return AdminClient(logins.confluent(bootstrap))


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def topic(admin: AdminClient) -> MakeTopic:
    """Creates topics with names of their own: `topic(partitions=3, config={"cleanup.policy": "compact"})`."""
    return topic_maker(admin)


def topic_maker(admin: AdminClient) -> MakeTopic:
    def create(
        partitions: int = 1, *, config: Mapping[str, Any] | None = None, name: str | None = None, prefix: str = "topic"
    ) -> str:
        name = name or unique(prefix)
        settings = {key: str(value) for key, value in (config or {}).items()}
        created = admin.create_topics([NewTopic(name, partitions, 1, config=settings)], operation_timeout=10)
        created[name].result(WAIT_TIMEOUT_S)
        wait_until(lambda: _is_led(admin, name, partitions), f"{name} has leaders")
        return name

    return create


def _is_led(admin: AdminClient, name: str, partitions: int) -> bool:
    """Whether each partition serves: Apache Kafka announces leaders a little before they do."""
    told = admin.list_topics(name, timeout=WAIT_TIMEOUT_S).topics[name].partitions.values()
    if len(told) < partitions or any(each.leader < 0 for each in told):
        return False
    asked = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}
    found = admin.list_offsets(asked, request_timeout=WAIT_TIMEOUT_S).values()
    return all(each.exception(WAIT_TIMEOUT_S) is None for each in found)


def grow_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Give a topic more partitions, so that it has `partitions`."""
    wanted = {"topics": [{"name": name, "count": partitions, "assignments": None}], "timeout_ms": 10_000}
    assert cluster.call("create partitions", CREATE_PARTITIONS, wanted).results[0].error_code == 0

    def are_led() -> bool:
        found = cluster.refresh([name])[name].partitions.values()
        return len(found) == partitions and all(each.leader != NO_LEADER for each in found)

    wait_until(are_led, f"{name} has {partitions} partitions")


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> Any:
    """The first true answer of `condition`, which may itself wait for something; fails when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:g} s in vain until {what}; it is {answer!r}")
        time.sleep(0.01)
    return answer
