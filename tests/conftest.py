"""What tests of a running broker share: the broker itself, names that nobody else uses, and waiting without sleeping.

The broker is the real command in a process of its own. `--bootstrap HOST:PORT` runs the same tests on any other Kafka,
which must have the settings in `APACHE_SETTINGS`; `--apache-kafka` starts such a one (with Java, and the jars that
`make kafka` fetches). So a test that fails on ours and passes on the original shows a difference, not an opinion.
"""

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

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

#: What the client tests rely on: short timeouts are allowed, and groups and timed-out transactions move at once.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
#: For tests that wait for retention or compaction.
BUSY_SETTINGS = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "100"}
#: All of that, and a wait that only Apache Kafka has.
APACHE_SETTINGS = {**SETTINGS, **BUSY_SETTINGS, "log.initial.task.delay.ms": "100"}

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0
WAIT_TIMEOUT_S = 20.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("broker")
    group.addoption("--bootstrap", metavar="HOST:PORT", help="run the client tests on this Kafka, not on a new broker")
    group.addoption("--apache-kafka", action="store_true", help="run the client tests on a new Apache Kafka")
    parser.addoption("--thorough", action="store_true", help="run what takes long, too (make thorough)")


class RunningBroker:
    """`fencepost up` in a process of its own."""

    def __init__(self, directory: Path, settings: Mapping[str, str], log: Path) -> None:
        self.directory = directory
        self.settings = dict(settings)
        self.log = log
        self.host, self.port = "127.0.0.1", 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    def start(self) -> "RunningBroker":
        """Returns once it listens. A second start takes the same port again."""
        options = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "fencepost.cli.main", "up", str(self.directory), "--port", str(self.port)]
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        line = _first_line(self._process, START_TIMEOUT_S)
        found = re.fullmatch(r"listening on (.+):(\d+)\n", line)
        if found is None:
            self.kill()
            pytest.fail(f"the broker does not listen; it said {line!r} and\n{self.log.read_text()[-4000:]}")
        self.host, self.port = found[1], int(found[2])
        return self

    def stop(self) -> int:
        """End it as a service manager would, and give its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return process.returncode

    def tracebacks(self) -> list[str]:
        """What went wrong inside: a broker that answers well may still have stumbled."""
        text = self.log.read_text(errors="replace")
        return re.findall(r"(?m)^Traceback[^\n]*\n(?:[ \t].*\n)*.*\n?", text)


def _first_line(process: "subprocess.Popen[str]", timeout_s: float) -> str:
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    stdout = process.stdout
    if stdout is None:
        return ""

    def pump() -> None:
        with contextlib.suppress(ValueError):  # closed while reading: the broker has been stopped
            for line in stdout:
                lines.put(line)
        lines.put("")

    threading.Thread(target=pump, daemon=True).start()
    try:
        return lines.get(timeout=timeout_s)
    except queue.Empty:
        return ""


@pytest.fixture(scope="session")
def start_broker() -> Iterator[Callable[..., RunningBroker]]:
    """Starts another broker: `start_broker({"auto.create.topics.enable": "false"})`. All are stopped at the end."""
    started: list[RunningBroker] = []
    homes: list[Path] = []

    def start(settings: Mapping[str, str] | None = None, directory: Path | None = None) -> RunningBroker:
        home = Path(tempfile.mkdtemp(prefix="broker-"))
        homes.append(home)
        broker = RunningBroker(directory or home / "data", {**SETTINGS, **(settings or {})}, home / "log")
        started.append(broker)
        return broker.start()

    yield start
    for broker in started:
        broker.stop()
    found = [text for broker in started for text in broker.tracebacks()]
    for home in homes:
        shutil.rmtree(home, ignore_errors=True)
    assert not found, "a broker stumbled:\n" + "\n".join(found)


@pytest.fixture(scope="session")
def is_original(pytestconfig: pytest.Config) -> bool:
    """Whether the tests run on some other Kafka."""
    return bool(pytestconfig.getoption("--bootstrap") or pytestconfig.getoption("--apache-kafka"))


@pytest.fixture(scope="session")
def broker(start_broker: Callable[..., RunningBroker], is_original: bool) -> RunningBroker:
    """The session's broker. It is everybody's: a test that stops or kills one starts its own."""
    if is_original:
        pytest.skip("needs our own broker")
    return start_broker()


@pytest.fixture(scope="session")
def original(pytestconfig: pytest.Config) -> Iterator[str]:
    """HOST:PORT of the other Kafka that the tests run on."""
    if given := pytestconfig.getoption("--bootstrap"):
        yield given
        return
    from bench.harness import brokers

    with brokers.running("kafka", APACHE_SETTINGS) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, is_original: bool) -> str:
    """HOST:PORT of the broker under test."""
    if is_original:
        return request.getfixturevalue("original")
    return request.getfixturevalue("broker").bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """For arranging things; what admin clients can do is tested elsewhere."""
    return AdminClient({"bootstrap.servers": bootstrap})


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def topic(admin: AdminClient) -> Callable[..., str]:
    """Creates topics with names of their own: `topic(partitions=3, config={"cleanup.policy": "compact"})`."""
    return topic_maker(admin)


def topic_maker(admin: AdminClient) -> Callable[..., str]:
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


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> Any:
    """The first true answer of `condition`, which may itself wait for something; fails when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:g} s in vain until {what}; it is {answer!r}")
        time.sleep(0.01)
    return answer
