"""The broker under test: ours, Apache Kafka from its jars, or a cluster that somebody else runs.

What can be done to it is the same for the first two: start, stop, kill and pause. The third can only be reached.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

from fencepost.client import Cluster
from fencepost.client.settings import Address, parse_address
from fencepost.embedded import Broker, BrokerFailed
from fencepost.errors import FencepostError

START_TIMEOUT_S = 90.0

#: Short cycles, so that timeouts are overstepped within a run.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "log.cleaner.backoff.ms": "300",
}
#: Small segments, so that recovery has something to do. Apache Kafka takes none below 1 MiB.
OUR_SEGMENTS = {"internal.segment.bytes": 100_000}
KAFKA_SEGMENTS = dict.fromkeys(
    ("log.segment.bytes", "transaction.state.log.segment.bytes", "offsets.topic.segment.bytes"), 1 << 20
)


class Target(ABC):
    """One broker, or one cluster."""

    owns_broker = True
    name: str

    @property
    @abstractmethod
    def address(self) -> Address:
        """Where it really listens."""

    @property
    @abstractmethod
    def pid(self) -> int | None: ...

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    @abstractmethod
    def start(self) -> None:
        """Returns when it accepts connections; TargetFailed if it does not come to that."""

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @property
    def log(self) -> str:
        """What it said last."""
        return ""

    def signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class TargetFailed(FencepostError):
    """The broker under test did not start."""


class Ours(Target):
    """A `fencepost.Broker`."""

    name = "fencepost"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self._broker = Broker(directory, settings={**SETTINGS, **OUR_SEGMENTS, **(settings or {})})
        self._said: list[str] = []

    @property
    def address(self) -> Address:
        return Address(self._broker.host, self._broker.port)

    @property
    def pid(self) -> int | None:
        return self._broker.pid

    @property
    def is_running(self) -> bool:
        return self._broker.running

    @property
    def log(self) -> str:
        return "".join([*self._said, self._broker.log])

    def start(self) -> None:
        self._keep_log()
        try:
            self._broker.start()
        except BrokerFailed as error:
            raise TargetFailed(str(error)) from None

    def stop(self) -> None:
        self._broker.stop()
        self._keep_log()

    def kill(self) -> None:
        self._broker.kill()

    def close(self) -> None:
        self._broker.kill()

    def _keep_log(self) -> None:
        """The broker's own memory of what it said ends with its next start."""
        if self._broker.log:
            self._said.append(self._broker.log)


class ApacheKafka(Target):
    """One node that is broker and controller, with the options of Kafka's own start script."""

    name = "Apache Kafka"

    def __init__(self, library: Path, directory: Path) -> None:
        self._java = find_java(library)
        self._library = library
        self._directory = directory
        self._port, self._controller_port = _free_port(), _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._port)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        path = self._directory / "kafka.out"
        return path.read_text(errors="replace")[-5000:] if path.exists() else ""

    def start(self) -> None:
        properties = self._directory / "server.properties"
        if not properties.exists():
            self._format(properties)
        with (self._directory / "kafka.out").open("ab") as out:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(properties)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.address):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise TargetFailed(f"Apache Kafka did not start; it said:\n{self.log}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        self.kill()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _command(self, main: str, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}"
        options = ["-Xmx1G", "-XX:+UseG1GC", "-Djava.awt.headless=true", logging, "-cp", f"{self._library}/*"]
        return [self._java, *options, main, *arguments]

    def _format(self, properties: Path) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "log4j2.properties").write_text(logging_properties("warn"))
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "log.dirs": str(self._directory / "data"),
            # One node cannot have three replicas.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # A pause of the whole node must not end in the controller fencing its only broker for good.
            "broker.session.timeout.ms": "9000",
            **SETTINGS,
            **KAFKA_SEGMENTS,
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = ("format", "--config", str(properties), "--cluster-id", "ZmVuY2Vwb3N0LWNoYW9zMQ")
        done = subprocess.run(
            self._command("kafka.tools.StorageTool", *words), capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode != 0:
            raise TargetFailed(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")


class Elsewhere(Target):
    """A cluster that runs already: it is reached, and not touched."""

    owns_broker = False

    def __init__(self, bootstrap: str) -> None:
        self.name = bootstrap
        self._addresses = [parse_address(word) for word in bootstrap.split(",")]

    @property
    def address(self) -> Address:
        return self._addresses[0]

    @property
    def pid(self) -> int | None:
        return None

    @property
    def is_running(self) -> bool:
        return True

    def start(self) -> None:
        if not answers(self.address, START_TIMEOUT_S):
            raise TargetFailed(f"nobody answers at {self.address}")

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


def answers(address: Address, timeout_s: float = 2.0) -> bool:
    """Whether a broker there answers at all."""
    timeout_ms = int(timeout_s * 1000)
    settings = {"request.timeout.ms": timeout_ms, "default.api.timeout.ms": timeout_ms}
    try:
        with Cluster({"bootstrap.servers": str(address), **settings}) as cluster:
            cluster.any()
    except (FencepostError, OSError):
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_java(library: Path) -> str:
    """The Java that runs Apache Kafka from these jars; TargetFailed where one of the two is missing."""
    home = os.environ.get("JAVA_HOME")
    places = [*([f"{home}/bin"] if home else []), os.environ.get("PATH", "")]
    java = shutil.which("java", path=os.pathsep.join(places))
    if java is None:
        raise TargetFailed("java was not found: Apache Kafka needs Java 17 or later")
    if not any(library.glob("kafka_2.13-*.jar")):
        raise TargetFailed(f"Apache Kafka's jars are not in {library}")
    return java


def logging_properties(level: str) -> str:
    """For log4j2: everything from this level on goes to standard error."""
    return f"""\
status = error
appenders = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
"""
