"""Apache Kafka from its jars: one node that is broker and controller, or three. One of the three may be down."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from fencepost.child import Child
from fencepost.lab.kit import java
from fencepost.lab.kit.java import Jars
from fencepost.lab.kit.servers import HOST, LAB_SETTINGS, Node, Server, ServerFailed, answers, free_ports
from fencepost.security.names import Protocol
from fencepost.security.quick import MECHANISM, Quick, prepare
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


#: Rights are checked. The user of a secured broker may do everything.
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


class ApacheKafka(Node):
    """One node, alone unless `controllers` names the ports of more.

    With `security` it has one listener of that protocol, for clients and between brokers, and one user.
    """

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
        security: Quick | None = None,
    ) -> None:
        super().__init__(home, {**ONE_REPLICA, **(settings or {})})
        self._quick = security
        if security is not None:
            self.security = security.client_security()
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
        }
        words = ["format", "--config", str(self._properties), "--cluster-id", CLUSTER_ID]
        if self._quick is not None:
            settings |= _secured(self._quick, settings["listeners"])
            if self._quick.protocol.uses_sasl:
                words += ["--add-scram", f"{MECHANISM}=[name={self._quick.user},password={self._quick.password}]"]
        settings |= self.settings
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        done = self._jars.run("kafka.tools.StorageTool", *words, options=java.QUICK)
        if done.returncode != 0:
            raise ServerFailed(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")

    def launch(self) -> None:
        self.prepare()
        self._process = Child(self._log_file, self.name, logs_output=True)
        self._process.start(self._jars.command("kafka.Kafka", str(self._properties), options=self._options))

    def await_listening(self) -> Self:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not answers(self):
            if not self.is_running or time.monotonic() > deadline_s:
                self.kill()
                raise ServerFailed(f"{self.name} did not start; it said:\n{self.log[-3000:]}")
            time.sleep(POLL_S)
        return self


def _secured(quick: Quick, listeners: str) -> dict[str, str]:
    """Settings for a broker whose listener PLAINTEXT becomes one of the protocol of `quick`."""
    protocol = quick.protocol
    settings = {
        **quick.broker_settings(HOST, 0),
        "listeners": listeners.replace("PLAINTEXT://", f"{protocol}://", 1),
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocol}:{protocol}",
        "inter.broker.listener.name": str(protocol),
        # Brokers reach the controller without a login.
        "super.users": f"User:ANONYMOUS;User:{quick.user};User:CN={quick.user};User:CN=broker",
    }
    if protocol.uses_tls:
        settings |= {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    if protocol.uses_sasl:
        login = dict(quick.client_security().given)["sasl.jaas.config"]
        settings |= {
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.{protocol.lower()}.{MECHANISM.lower()}.sasl.jaas.config": login,
        }
    return settings


class KafkaCluster(Server):
    """Three nodes. Its address is the first running node's. With `security` rights are checked as well."""

    name = "Apache Kafka, three nodes"

    def __init__(
        self, jars: Jars, home: Path, settings: Mapping[str, str] | None = None, *, security: Protocol | None = None
    ) -> None:
        controllers = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        rights = AUTHORIZER if security is not None else {}
        settings = {**THREE_REPLICAS, **LAB_SETTINGS, **rights, **(settings or {})}
        quick = prepare(home / "security", security, HOST) if security is not None else None
        self.nodes = {
            number: ApacheKafka(
                jars,
                home / f"node-{number}",
                settings,
                number=number,
                controllers=controllers,
                options=SMALL,
                security=quick,
            )
            for number in NODES
        }
        self.security = self.nodes[NODES[0]].security

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
