"""Apache Kafka on three nodes of this machine, from its jars: each is broker and controller, and can be killed.

Two of three are a majority and enough in-sync replicas, so one at a time may be gone. Timeouts are short, because a
scenario waits for them: a dead broker is noticed after BROKER_SESSION_MS.
"""

import contextlib
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from fencepost.client.settings import Address
from fencepost.lab.kit.brokers import SETTINGS, Target, TargetFailed, answers, find_java, logging_properties

NODES = (1, 2, 3)
CLUSTER_ID = "ZmVuY2Vwb3N0LXN0YWdlMQ"
START_TIMEOUT_S = 180.0
BROKER_SESSION_MS = 4_000


class KafkaCluster(Target):
    """Three nodes. As a `Target` its address is that of the first one that runs."""

    name = "Apache Kafka, three nodes"

    def __init__(self, library: Path, directory: Path) -> None:
        self._java = find_java(library)
        self._library = library
        self._directory = directory
        ports = _free_ports(2 * len(NODES))
        self.ports = dict(zip(NODES, ports[: len(NODES)], strict=True))
        self._controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def address(self) -> Address:
        running = [node for node in NODES if self.runs(node)]
        return Address("127.0.0.1", self.ports[running[0] if running else NODES[0]])

    @property
    def pid(self) -> int | None:
        return None

    @property
    def is_running(self) -> bool:
        return any(self.runs(node) for node in NODES)

    @property
    def log(self) -> str:
        return "\n".join(self._log(node) for node in NODES)

    def runs(self, node: int) -> bool:
        process = self._processes.get(node)
        return process is not None and process.poll() is None

    def start(self) -> None:
        """Start all nodes that do not run; returns when each answers."""
        for node in NODES:
            if not self.runs(node):
                self._launch(node)
        for node in NODES:
            self._await(node)

    def start_node(self, node: int) -> None:
        self._launch(node)
        self._await(node)

    def kill_node(self, node: int) -> None:
        process = self._processes.pop(node)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def node_at(self, address: Address) -> int:
        return next(node for node, port in self.ports.items() if port == address.port)

    def stop(self) -> None:
        self.close()

    def kill(self) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _launch(self, node: int) -> None:
        properties = self._directory / f"node-{node}" / "server.properties"
        if not properties.exists():
            self._format(node, properties)
        with self._out(node).open("ab") as out:
            self._processes[node] = subprocess.Popen(
                self._command("kafka.Kafka", str(properties)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _await(self, node: int) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not answers(Address("127.0.0.1", self.ports[node])):
            if not self.runs(node) or time.monotonic() > deadline_s:
                raise TargetFailed(f"node {node} of Apache Kafka did not start; it said:\n{self._log(node)}")
            time.sleep(0.2)

    def _command(self, main: str, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}"
        options = ["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true", logging]
        return [self._java, *options, "-cp", f"{self._library}/*", main, *arguments]

    def _format(self, node: int, properties: Path) -> None:
        properties.parent.mkdir(parents=True, exist_ok=True)
        (self._directory / "log4j2.properties").write_text(logging_properties("error"))
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in self._controllers.items()),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]},CONTROLLER://127.0.0.1:{self._controllers[node]}",
            "log.dirs": str(properties.parent / "data"),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "broker.session.timeout.ms": str(BROKER_SESSION_MS),
            "broker.heartbeat.interval.ms": "500",
            "unclean.leader.election.enable": "false",
            **SETTINGS,
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = ("format", "--config", str(properties), "--cluster-id", CLUSTER_ID)
        done = subprocess.run(
            self._command("kafka.tools.StorageTool", *words), capture_output=True, text=True, check=False, timeout=180
        )
        if done.returncode != 0:
            raise TargetFailed(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")

    def _out(self, node: int) -> Path:
        return self._directory / f"node-{node}.out"

    def _log(self, node: int) -> str:
        return self._out(node).read_text(errors="replace")[-3000:] if self._out(node).exists() else ""


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
