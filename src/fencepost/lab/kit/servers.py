"""Brokers to break and to measure: ours, or a cluster that runs already. `kafka` has Apache Kafka.

Invariant: what was started here ends with `close`, and with this process at the latest.
"""

import re
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from fencepost.child import Child, ChildFailed
from fencepost.client.connection import PLAINTEXT, Channel
from fencepost.client.settings import parse_address
from fencepost.embedded import BrokerFailed, BrokerProcess
from fencepost.errors import ClientError, FencepostError
from fencepost.security.names import Protocol
from fencepost.security.quick import prepare
from fencepost.security.settings import ClientSecurity
from fencepost.security.spellings import spelled
from fencepost.wire.frame import API_VERSIONS_KEY
from fencepost.wire.terms import Address

STOP_TIMEOUT_S = 60.0
HOST = "127.0.0.1"
#: Our broker ends itself at this step of ending a transaction.
CRASH_VARIABLE = "FENCEPOST_CRASH_AT"

#: Groups form at once, short session timeouts are allowed, and timed-out transactions are looked for often.
SHORT_CYCLES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
#: So that Apache Kafka starts sooner.
FEW_PARTITIONS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
LAB_SETTINGS = {**SHORT_CYCLES, **FEW_PARTITIONS, "log.cleaner.backoff.ms": "300"}
#: Small segments, so that recovery has something to do. Apache Kafka takes none below 1 MiB.
OUR_SMALL_SEGMENTS = {"internal.segment.bytes": "100000"}
KAFKA_SMALL_SEGMENTS = dict.fromkeys(
    ("log.segment.bytes", "transaction.state.log.segment.bytes", "offsets.topic.segment.bytes"), str(1 << 20)
)


class ServerFailed(FencepostError):
    """A broker did not start, or ended when it should not."""


class Server(ABC):
    """One broker, or one cluster. In a `with` statement it is closed at the end."""

    name: str
    is_ours_to_harm = True
    security: ClientSecurity = PLAINTEXT  #: what its clients need

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @abstractmethod
    def address(self) -> Address:
        """Where it listens. For a cluster, the address of one node."""

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    def client_config(self, client: str) -> dict[str, Any]:
        """What a client needs to connect: for "java", "spark", "confluent", "kafka-python" or "aiokafka"."""
        return spelled(self.bootstrap, self.security, client)

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    @abstractmethod
    def start(self) -> Self:
        """Returns when it accepts connections. Raises ServerFailed if it does not start."""

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    # For a node, and for some clusters.

    def stop(self) -> int:
        """Stop it as a service manager would. Returns its exit status."""
        raise self._refusal()

    def kill(self) -> None:
        raise self._refusal()

    def signal(self, number: signal.Signals) -> None:
        """To its process, which may have ended."""
        raise self._refusal()

    def pause(self) -> None:
        """It stands still when this returns."""
        raise self._refusal()

    def resume(self) -> None:
        raise self._refusal()

    def _refusal(self) -> ServerFailed:
        return ServerFailed(f"{self.name} has no process of its own to harm")

    @property
    def log(self) -> str:
        """All of its output."""
        return ""

    def tracebacks(self) -> list[str]:
        """Errors inside a broker, which may still have given good answers."""
        return re.findall(r"(?m)^Traceback[^\n]*\n(?:[ \t].*\n)*.*\n?", self.log)


class Node(Server):
    """A broker that is one process of this machine. Every start takes the same port and the same data.

    `home` has its log, and its data unless that is in another `directory`.
    """

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, *, directory: Path | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.directory = directory or home / "data"
        self.settings = dict(settings or {})
        self.port = 0
        self._log_file = home / "log"
        self._process: Child | None = None

    @property
    def address(self) -> Address:
        return Address(HOST, self.port)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int:
        pid = self._process.pid if self._process is not None else None
        if pid is None:
            raise ServerFailed(f"{self.name} is not running")
        return pid

    @property
    def log(self) -> str:
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def close(self) -> None:
        self.kill()

    def prepare(self) -> None:
        """Prepare the first start."""

    def stop(self) -> int:
        if self._process is None:
            return 0
        self._process.terminate(STOP_TIMEOUT_S)
        return self._forget()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._forget()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal(number)

    def pause(self) -> None:
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        if self._process is not None:
            self._process.resume()

    def wait_until_dead(self, timeout_s: float = 60.0) -> int:
        """Wait until it ends by itself, as at a crash step. Returns its exit status."""
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running")
        try:
            self._process.wait(timeout_s)
        except ChildFailed as error:
            raise ServerFailed(str(error)) from None
        self._process.kill()  # nothing is left to kill; this collects it
        return self._forget()

    def _forget(self) -> int:
        status = self._process.status if self._process is not None else None
        self._process = None
        return status or 0


class Ours(Node):
    """`fencepost up`. With `security` it has certificates and a user, as with `--secure`."""

    name = "fencepost"

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        security: Protocol | None = None,
    ) -> None:
        super().__init__(home, settings, directory=directory)
        self._protocol = security
        if security is not None:
            self.security = prepare(self.directory / "security", security, HOST).client_security()

    def start(self, *, crash_at: str | None = None) -> Self:
        """`crash_at` names the step of ending a transaction at which it kills itself."""
        self.launch(crash_at=crash_at)
        return self.await_listening()

    def launch(self, *, crash_at: str | None = None) -> None:
        """Start it without waiting."""
        process = self._process = BrokerProcess(self._log_file, self.name)
        variables = {CRASH_VARIABLE: crash_at} if crash_at is not None else {}
        process.launch(self.directory, self.settings, port=self.port, security=self._protocol, variables=variables)

    def await_listening(self) -> Self:
        if not isinstance(self._process, BrokerProcess):
            raise ServerFailed("the broker is not running")
        try:
            self.port = self._process.await_port()
        except BrokerFailed as error:
            self.kill()
            raise ServerFailed(str(error)) from None
        return self

    def restart(self, *, kill: bool = False, crash_at: str | None = None) -> Self:
        if kill:
            self.kill()
        elif (status := self.stop()) != 0:
            raise ServerFailed(f"the broker ended with status {status}:\n{self.log[-4000:]}")
        return self.start(crash_at=crash_at)


class Elsewhere(Server):
    """A cluster that runs already: it is reached, and not harmed."""

    is_ours_to_harm = False

    def __init__(self, bootstrap: str, security: ClientSecurity = PLAINTEXT) -> None:
        self.name = bootstrap
        self.security = security
        self._bootstrap = bootstrap

    @property
    def address(self) -> Address:
        return parse_address(self._bootstrap.split(",")[0])

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def is_running(self) -> bool:
        return True

    def start(self) -> Self:
        if not answers(self, timeout_s=30):
            raise ServerFailed(f"no broker answers at {self.address}")
        return self

    def close(self) -> None: ...


def answers(server: Server, timeout_s: float = 2.0) -> bool:
    """Whether a client can log in, and is answered."""
    try:
        with Channel(server.address, "fencepost", timeout_s, timeout_s, server.security) as channel:
            channel.receive(channel.request(API_VERSIONS_KEY, 0, {}))
    except ClientError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
