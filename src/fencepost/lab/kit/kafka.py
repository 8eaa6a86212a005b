"""Apache Kafka from its jars: one node that is broker and controller, or three. One of the three may be down."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from fencepost.child import Child
from fencepost.lab.kit import java
from fencepost.lab.kit.java import Jars
from fencepost.lab.kit.servers import HOST, LAB_SETTINGS, Node, Server, ServerFailed, answers, free_ports
from fencepost.wire.terms import Address

START_TIMEOUT_S = 180.0
POLL_S = 0.01
CLUSTER_ID = "ZmVuY2Vwb3N0LXN0YWdlMQ"

#: One node cannot have three replicas.
ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
#: Two of three are a majority and enough in-sync replicas. A dead node is noticed soon, because scenarios wait for it.
THREE_REPLICAS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "unclean.leader.election.enable": "false",
}
#: Three Javas on one machine.
SMALL = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
NODES = (1, 2, 3)


class ApacheKafka(Node):
    """One node, alone unless `controllers` names the ports of more."""

    name = "Apache Kafka"

    def __init__(
        self,
        jars: Jars,
        home: Path,
        settings: Mapping[str, str] | None = None,
        *,
        number: int = 1,
        controllers: Mapping[int, int] | None = None,
        options: Sequence[str] = java.SERVER,
    ) -> None:
        super().__init__(home, {**ONE_REPLICA, **(settings or {})})
        self._jars = jars
        self._number = number
        (self.port, controller_port) = free_ports(2)
        self._controllers = dict(controllers or {number: controller_port})
        self._options = options
        self._properties = home / "server.properties"

    def start(self) -> Self:
        self.launch()
        return self.await_listening()

    def prepare(self) -> None:
        """Format the data directory."""
        if self._properties.exists():
            return
        controllers = ",".join(f"{number}@{HOST}:{port}" for number, port in self._controllers.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self._number),
            "controller.quorum.voters": controllers,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self._controllers[self._number]}",
            "log.dirs": str(self.directory),
            **self.settings,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = ("format", "--config", str(self._properties), "--cluster-id", CLUSTER_ID)
        done = self._jars.run("kafka.tools.StorageTool", *words, options=java.QUICK)
        if done.returncode != 0:
            raise ServerFailed(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")

    def launch(self) -> None:
        self.prepare()
        self._process = Child(self._log_file, self.name, logs_output=True)
        self._process.start(self._jars.command("kafka.Kafka", str(self._properties), options=self._options))

    def await_listening(self) -> Self:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not answers(self.address):
            if not self.is_running or time.monotonic() > deadline_s:
                self.kill()
                raise ServerFailed(f"{self.name} did not start; it said:\n{self.log[-3000:]}")
            time.sleep(POLL_S)
        return self


class KafkaCluster(Server):
    """Three nodes. Its address is the first running node's."""

    name = "Apache Kafka, three nodes"

    def __init__(self, jars: Jars, home: Path) -> None:
        controllers = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        settings = {**THREE_REPLICAS, **LAB_SETTINGS}
        self.nodes = {
            number: ApacheKafka(
                jars, home / f"node-{number}", settings, number=number, controllers=controllers, options=SMALL
            )
            for number in NODES
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def address(self) -> Address:
        running = [node for node in self.nodes.values() if node.is_running]
        return (running or list(self.nodes.values()))[0].address

    @property
    def is_running(self) -> bool:
        return any(node.is_running for node in self.nodes.values())

    @property
    def log(self) -> str:
        return "\n".join(node.log for node in self.nodes.values())

    def start(self) -> Self:
        """Start all nodes that do not run; returns when each answers."""
        for node in self.nodes.values():
            if not node.is_running:
                node.launch()
        for node in self.nodes.values():
            node.await_listening()
        return self

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()

    def node_at(self, address: Address) -> int:
        return next(number for number, node in self.nodes.items() if node.port == address.port)
