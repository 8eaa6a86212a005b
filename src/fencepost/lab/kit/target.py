"""Which broker a command of the lab works on: a cluster that runs already, or one that it starts, and how secured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.lab.kit.java import Jars
from fencepost.lab.kit.kafka import AUTHORIZER, ApacheKafka, KafkaCluster
from fencepost.lab.kit.servers import HOST, Elsewhere, Ours
from fencepost.security.names import Protocol
from fencepost.security.quick import prepare
from fencepost.security.settings import ClientSecurity


@dataclass(frozen=True, slots=True)
class Target:
    """Ours, unless a cluster or the jars of Apache Kafka are given. `is_secured` is about brokers that are started."""

    cluster: Mapping[str, str] | None = field(default=None, repr=False)  #: Kafka's settings for a client of it
    kafka_library: Path | None = None
    is_secured: bool = False

    @property
    def bootstrap(self) -> str | None:
        return None if self.cluster is None else self.cluster["bootstrap.servers"]

    @property
    def words(self) -> list[str]:
        """The options of a command that chose it. What a file says stays there."""
        words = ["--secure"] if self.is_secured else []
        if self.cluster is not None:
            words += [f"--bootstrap {self.bootstrap}", *(["--command-config FILE"] if len(self.cluster) > 1 else [])]
        if self.kafka_library is not None:
            words.append(f"--kafka-lib {self.kafka_library}")
        return words

    @property
    def _protocol(self) -> Protocol | None:
        return Protocol.SASL_SSL if self.is_secured else None

    def elsewhere(self) -> Elsewhere:
        given = self.cluster or {}
        return Elsewhere(given["bootstrap.servers"], ClientSecurity.parse(given))

    def ours(self, home: Path, settings: Mapping[str, str]) -> Ours:
        return Ours(home, settings, security=self._protocol)

    def kafka(self, home: Path, settings: Mapping[str, str]) -> ApacheKafka:
        if self._protocol is None:
            return ApacheKafka(self._jars(), home, settings)
        quick = prepare(home / "security", self._protocol, HOST)
        return ApacheKafka(self._jars(), home, {**settings, **AUTHORIZER}, security=quick)

    def kafka_cluster(self, home: Path) -> KafkaCluster:
        return KafkaCluster(self._jars(), home, security=self._protocol)

    def _jars(self) -> Jars:
        return Jars((self.kafka_library or Path()).resolve())
