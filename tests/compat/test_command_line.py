"""`fencepost topic`, `group`, `produce`, `consume` and `doctor`, and Kafka's own tools, see the same: on our broker, on
Apache Kafka, and on a secured one with its authorizer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import brokers
from fencepost.lab.kit.kafka import AUTHORIZER
from fencepost.lab.kit.servers import SHORT_CYCLES, Server
from fencepost.security.names import Protocol
from tests import logins
from tests.cli.shell import Shell
from tests.compat.tools import Tool, table


@pytest.fixture(scope="module", params=["fencepost", "kafka", "kafka-secured"])
def either(request: pytest.FixtureRequest) -> Iterator[Server]:
    kind, _, secured = request.param.partition("-")
    settings = {**SHORT_CYCLES, **AUTHORIZER} if secured else SHORT_CYCLES
    with brokers.running(kind, settings, Protocol.SASL_SSL if secured else None) as running:
        logins.remember(running.bootstrap, running.security)
        yield running


def test_topics_records_and_groups_are_the_same_for_both(either: Server, tmp_path: Path, name: str) -> None:
    tool, shell = Tool.of(either, tmp_path), Shell(either.bootstrap)
    shell.run("topic", "create", name, "-p", 1, "-c", "retention.ms=-1")
    described = tool("topics", "--describe", "--topic", name)
    assert "PartitionCount: 1" in described and "retention.ms=-1" in described
    shell.run("topic", "config", name, "--set", "max.message.bytes=4000000")
    assert "max.message.bytes=4000000" in tool("topics", "--describe", "--topic", name)
    assert [each["topic"] for each in shell.asked("topic", "ls")].count(name) == 1

    tool("console-producer", "--topic", name, "--property", "parse.key=true", stdin="a\tfrom Kafka\n")
    shell.run("produce", name, "-K", ":", "--transaction", "-z", "zstd", stdin=b"b:committed\nc:committed\n")
    with shell.transaction() as producer:
        producer.produce(name, b"undone")
        producer.flush()
        producer.abort_transaction(30)
    printed = tool(
        *("console-consumer", "--topic", name, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000"),
        *("--isolation-level", "read_committed", "--property", "print.key=true"),
    )
    assert printed.splitlines() == ["a\tfrom Kafka", "b\tcommitted", "c\tcommitted"]
    assert shell.says("consume", name, "-e", "-f", r"%k\t%s\n") == printed
    raw = shell.says("consume", name, "-e", "--isolation", "raw", "-f", r"%o %x\n").split("\n")[:-1]
    assert raw == ["0 -", "1 committed", "2 committed", "3 commit-marker", "4 aborted", "5 abort-marker"]

    group = f"{name}-group"
    shell.run("group", "seek", group, "-o", 1, "-t", name)
    (row,) = table(tool("consumer-groups", "--describe", "--group", group, "--offsets"), separator=r"\s+")
    assert (row["CURRENT-OFFSET"], row["LAG"]) == ("1", "5")  # offsets
    (found,) = shell.asked("group", "describe", group)
    assert found["lag"] == {"records": 2, "exact": True}
    assert group in shell.says("group", "ls")
    shell.run("group", "delete", group, "--yes")
    assert group not in tool("consumer-groups", "--list").split()

    shell.run("topic", "add-partitions", name, "-n", 2)
    assert "PartitionCount: 3" in tool("topics", "--describe", "--topic", name)
    shell.run("topic", "delete", name, "--yes")
    assert name not in tool("topics", "--list").split()


def test_doctor_finds_no_error(either: Server) -> None:
    found = Shell(either.bootstrap).asked("doctor")
    assert [each for each in found if each["severity"] == "error"] == []
    assert {"transaction.version", "transaction.max.timeout.ms", "listeners"} <= {each["subject"] for each in found}
