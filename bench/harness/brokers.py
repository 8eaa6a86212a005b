"""The two brokers under one interface: `Fencepost` and `ApacheKafka`, each on a free port with a directory of its own.

Both are started as a user would start them: fencepost by its command, Kafka by its storage tool and main class with the
heap, garbage collector and `server.properties` of its distribution, one node that is broker and controller.
"""

import contextlib
import enum
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.harness import java, process

NEVER = str(2**63 - 1)
START_TIMEOUT_S = 60.0


class Flush(enum.Enum):
    """Whether an acknowledged write has been forced to the disk. The setting is the same in both brokers."""

    NEVER = "no fsync"
    ALWAYS = "fsync"

    @property
    def settings(self) -> dict[str, str]:
        return {"log.flush.interval.messages": NEVER if self is Flush.NEVER else "1"}


class StartFailed(RuntimeError):
    """A broker ended or stayed silent instead of serving."""


class Server(ABC):
    """One broker process. `start` returns when it answers requests."""

    name: str

    def __init__(self, settings: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        self.settings = dict(settings or {})
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = 0
        self.start_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise StartFailed(f"{self.name} is not running")
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self.directory.with_suffix(".out")

    @property
    @abstractmethod
    def data_directory(self) -> Path:
        """Where the directories `TOPIC-PARTITION` are."""

    @abstractmethod
    def _prepare(self) -> list[str]:
        """Everything before the start that is not timed, and the command that starts."""

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> "Server":
        """Start and measure the time to the first answered request."""
        self.port = self.port or free_port()
        command = self._prepare()
        with self.log_path.open("ab") as log:
            before = time.perf_counter()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment()
            )
        while not answers(self.port):
            if self._process.poll() is not None or time.perf_counter() - before > START_TIMEOUT_S:
                tail = self.log_path.read_text(errors="replace")[-2000:]
                self.kill()
                raise StartFailed(f"{self.name} does not serve on port {self.port}; it said:\n{tail}")
            time.sleep(0.005)
        self.start_s = time.perf_counter() - before
        return self

    def usage(self) -> process.Usage:
        return process.usage(self.pid)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """End the process and delete what it wrote, if the directory was not given from outside."""
        self.kill()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.log_path.unlink(missing_ok=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(how)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class Fencepost(Server):
    name = "fencepost"

    @property
    def data_directory(self) -> Path:
        return self.directory

    def _prepare(self) -> list[str]:
        options = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        program = [sys.executable, "-m", "fencepost.cli.main"]
        return [*program, "up", str(self.directory), "--host", "127.0.0.1", "--port", str(self.port), *options]

    def _environment(self) -> dict[str, str]:
        """This source tree's fencepost, installed or not."""
        path = os.pathsep.join(filter(None, [str(java.ROOT / "src"), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path}


class ApacheKafka(Server):
    name = "kafka"

    @property
    def data_directory(self) -> Path:
        return self.directory / "data"

    def _prepare(self) -> list[str]:
        properties = self.directory / "server.properties"
        if not properties.exists():
            self._format(properties)
        return java.command("kafka.Kafka", str(properties), heap=java.SERVER_HEAP)

    def _format(self, properties: Path) -> None:
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "log.dirs": str(self.data_directory),
            # One node cannot have three replicas.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # As in the server.properties that Kafka ships.
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        done = java.run(
            "kafka.tools.StorageTool", "format", "--config", str(properties), "--cluster-id", "ZmVuY2Vwb3N0LWJlbmNoMQ"
        )
        if done.returncode != 0:
            raise StartFailed(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")


KINDS: dict[str, type[Server]] = {"fencepost": Fencepost, "kafka": ApacheKafka}


@contextlib.contextmanager
def running(kind: str, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    server = KINDS[kind](settings)
    try:
        yield server.start()
    finally:
        server.remove()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether an ApiVersions request (key 18, version 0, no client id) is answered."""
    request = struct.pack(">ihhih", 10, 18, 0, 7, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(request)
            return connection.recv(8)[4:8] == struct.pack(">i", 7)
    except OSError:
        return False
