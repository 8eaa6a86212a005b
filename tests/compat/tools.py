"""Kafka's command-line tools by the names of their scripts, and their tables as lists of dicts."""

import re
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import javaproperties

from bench.harness import java
from fencepost.child import Child
from fencepost.lab.kit.java import QUICK
from fencepost.lab.kit.servers import Server
from fencepost.security.names import Protocol

LOG_LINES_KEPT = 200
PREFIX = "org.apache.kafka.tools."
MAIN = {
    "acls": PREFIX + "AclCommand",
    "broker-api-versions": PREFIX + "BrokerApiVersionsCommand",
    "client-compatibility": PREFIX + "ClientCompatibilityTest",
    "cluster": PREFIX + "ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": PREFIX + "consumer.ConsoleConsumer",
    "console-producer": PREFIX + "ConsoleProducer",
    "consumer-groups": PREFIX + "consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": PREFIX + "ConsumerPerformance",
    "delete-records": PREFIX + "DeleteRecordsCommand",
    "dump-log": "kafka.tools.DumpLogSegments",
    "e2e-latency": PREFIX + "EndToEndLatency",
    "features": PREFIX + "FeatureCommand",
    "get-offsets": PREFIX + "GetOffsetShell",
    "groups": PREFIX + "GroupsCommand",
    "leader-election": PREFIX + "LeaderElectionCommand",
    "log-compaction-tester": "kafka.tools.LogCompactionTester",
    "log-dirs": PREFIX + "LogDirsCommand",
    "metadata-quorum": PREFIX + "MetadataQuorumCommand",
    "producer-perf-test": PREFIX + "ProducerPerformance",
    "reassign-partitions": PREFIX + "reassign.ReassignPartitionsCommand",
    "topics": PREFIX + "TopicCommand",
    "transactional-message-copier": PREFIX + "TransactionalMessageCopier",
    "transactions": PREFIX + "TransactionsCommand",
    "verifiable-consumer": PREFIX + "VerifiableConsumer",
    "verifiable-producer": PREFIX + "VerifiableProducer",
}
#: These name the broker in another way, or not at all.
NO_BOOTSTRAP = {"dump-log", "producer-perf-test", "transactional-message-copier", "e2e-latency", "cluster"}
#: How a program calls the file with its client's settings; most say --command-config.
CONFIG_OPTION = {
    "cluster": "--config",
    "console-consumer": "--consumer.config",
    "console-producer": "--producer.config",
    "consumer-perf-test": "--consumer.config",
    "leader-election": "--admin.config",
    "producer-perf-test": "--producer.config",
    "verifiable-consumer": "--consumer.config",
    "verifiable-producer": "--producer.config",
}
#: These take no such file, or elsewhere on their command line.
NO_CONFIG = {"client-compatibility", "dump-log", "e2e-latency", "log-compaction-tester", "transactional-message-copier"}


def write_config(path: Path, settings: Mapping[str, str]) -> Path:
    """A file as `--command-config` takes it."""
    path.write_text(javaproperties.dumps(settings))
    return path


class Tool:
    """`tool("topics", "--list")` runs kafka-topics, which must succeed, and gives what it printed.

    `config` is the file that it needs to connect to a secured broker.
    """

    def __init__(self, bootstrap_servers: str, config: Path | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.config = config

    @classmethod
    def of(cls, server: Server, home: Path) -> "Tool":
        """With the rights of the server's own user. The settings are kept in `home`."""
        if server.security.protocol is Protocol.PLAINTEXT:
            return cls(server.bootstrap)
        return cls(server.bootstrap, write_config(home / "client.properties", server.client_config("java")))

    def __call__(self, name: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120) -> str:
        done = self.run(name, *arguments, stdin=stdin, timeout_s=timeout_s)
        assert done.returncode == 0, f"kafka-{name} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(
        self, name: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120
    ) -> "subprocess.CompletedProcess[str]":
        return java.kafka().run(
            MAIN[name], *self._words(name, arguments), options=QUICK, stdin=stdin, timeout_s=timeout_s
        )

    def _words(self, name: str, arguments: Sequence[str]) -> list[str]:
        words: list[str] = []
        if name not in NO_BOOTSTRAP:
            words += ["--bootstrap-server", self.bootstrap_servers]
        if self.config is not None and name not in NO_CONFIG:
            words += [CONFIG_OPTION.get(name, "--command-config"), str(self.config)]
        # kafka-transactions wants them before its subcommand, kafka-cluster behind.
        return [*arguments, *words] if name == "cluster" else [*words, *arguments]

    def refused(self, name: str, *arguments: str) -> str:
        """Run one that must fail, and give what it printed."""
        done = self.run(name, *arguments)
        assert done.returncode == 1, f"kafka-{name} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def start(self, on_line: Callable[[str], object], name: str, *arguments: str) -> Child:
        """Leave it running and call `on_line` with what it prints. The caller ends it."""
        command = java.kafka().command(MAIN[name], *self._words(name, arguments), options=QUICK)
        return Child(deque(maxlen=LOG_LINES_KEPT), name, on_line=on_line).start(command)


def table(printed: str, *, separator: str = r"\s{2,}|\t") -> list[dict[str, str]]:
    """The rows below the first line that is all headings."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    start = next(index for index, line in enumerate(lines) if is_heading(line, separator))
    names = split(lines[start], separator)
    return [dict(zip(names, split(line, separator), strict=False)) for line in lines[start + 1 :]]


def is_heading(line: str, separator: str) -> bool:
    words = split(line, separator)
    return len(words) > 1 and all(re.fullmatch(r"[A-Z][A-Za-z()_ -]*", word) for word in words)


def split(line: str, separator: str) -> list[str]:
    return [word.strip() for word in re.split(separator, line) if word.strip()]
