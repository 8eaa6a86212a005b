"""Programs that Kafka's developers test brokers with: perf tools, verifiable clients, a transactional copier."""

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from bench.harness import java
from fencepost.lab.kit.java import QUICK
from tests.compat.tools import MAIN, Tool
from tests.conftest import wait_until


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def test_the_perf_tools_produce_and_consume(server, tool, topic):
    where = f"bootstrap.servers={server.bootstrap}"
    words = ("--topic", topic, "--num-records", "50000", "--record-size", "200", "--throughput", "-1")
    assert "50000 records sent" in tool("producer-perf-test", *words, "--producer-props", where, "acks=all")
    consumed = tool("consumer-perf-test", "--topic", topic, "--messages", "50000", "--hide-header")
    assert consumed.strip().splitlines()[-1].split(", ")[4] == "50000"


def test_the_perf_tool_produces_in_transactions(server, tool, topic):
    where = f"bootstrap.servers={server.bootstrap}"
    words = ("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "20000")
    printed = tool("producer-perf-test", *words, "--transaction-duration-ms", "50", "--producer-props", where)
    assert "20000 records sent" in printed
    read = ("--topic", topic, "--from-beginning", "--max-messages", "20000", "--timeout-ms", "30000")
    values = tool("console-consumer", *read, "--isolation-level", "read_committed").splitlines()
    assert len(values) == 20_000


def test_end_to_end_latency(server, tool, topic):
    config = [] if tool.config is None else [str(tool.config)]
    words = [server.bootstrap, topic, "100", "all", "50", *config]
    done = java.kafka().run(MAIN["e2e-latency"], *words, options=QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Percentiles: 50th" in done.stdout


def test_every_acknowledged_record_of_the_verifiable_producer_reaches_the_verifiable_consumer(tool, topic):
    produced = events(tool("verifiable-producer", "--topic", topic, "--max-messages", "1000", "--acks", "-1"))
    acknowledged = {event["value"] for event in produced if event["name"] == "producer_send_success"}
    assert len(acknowledged) == 1000
    words = ("--topic", topic, "--group-id", f"group-{topic}", "--reset-policy", "earliest", "--max-messages", "1000")
    consumed = events(tool("verifiable-consumer", *words, "--verbose"))
    assert {event["value"] for event in consumed if event["name"] == "record_data"} == acknowledged
    assert all(event.get("success", True) for event in consumed if event["name"] == "offsets_committed")


def takes_no_config(tool: Tool) -> None:
    if tool.config is not None:
        pytest.skip("this program cannot log in")


def test_kafkas_client_compatibility_test_passes(tool, topic):
    takes_no_config(tool)
    yes = (
        *("--offsets-for-times-supported", "True", "--cluster-id-supported", "True"),
        *("--create-topics-supported", "True", "--describe-configs-supported", "True"),
        *("--idempotent-producer-supported", "True", "--describe-acls-supported", "True"),
    )
    more = ("--expect-record-too-large-exception", "False", "--num-cluster-nodes", "1")
    assert "SUCCESS" in tool("client-compatibility", "--topic", topic, *yes, *more)


def test_transactions_that_abort_at_random_copy_every_record_once(server, tool, name):
    """Kafka's system test for exactly-once: input offsets and output in one transaction, some of them aborted."""
    takes_no_config(tool)
    source, target = f"{name}-in", f"{name}-out"
    for each in (source, target):
        tool("topics", "--create", "--topic", each, "--partitions", "1")
    tool("verifiable-producer", "--topic", source, "--max-messages", "3000", "--acks", "-1")
    printed = tool(
        "transactional-message-copier",
        *("--broker-list", server.bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", target, "--transactional-id", name, "--consumer-group", f"group-{name}"),
        *("--transaction-size", "100", "--enable-random-aborts", "--use-group-metadata", "--max-messages", "3000"),
    )
    assert events(printed)[-1]["remaining"] == 0, printed[-500:]
    read = ("--topic", target, "--from-beginning", "--max-messages", "3000", "--timeout-ms", "20000")
    values = tool("console-consumer", *read, "--isolation-level", "read_committed").split()
    assert [int(value) for value in values] == list(range(3000))


def test_a_member_that_dies_leaves_its_partitions_to_the_others(tool, topic, name):
    words = ("--topic", topic, "--group-id", name, "--session-timeout", "6000")
    assigned: list[set[int]] = [set(), set()]
    with contextlib.ExitStack() as stack:
        members = [
            stack.enter_context(tool.start(keeper(partitions), "verifiable-consumer", *words))
            for partitions in assigned
        ]
        wait_until(lambda: all(assigned) and sum(map(len, assigned)) == 3, "both have partitions", 60)
        members[0].kill()
        wait_until(lambda: assigned[1] == {0, 1, 2}, "the survivor has all", 60)


def keeper(assigned: set[int]) -> Callable[[str], None]:
    """Keeps the partitions that a member says it has."""

    def keep(line: str) -> None:
        found = re.search(r'"name":"partitions_(assigned|revoked)","partitions":(\[.*?\])', line)
        if found:
            partitions = {each["partition"] for each in json.loads(found[2])}
            (assigned.update if found[1] == "assigned" else assigned.difference_update)(partitions)

    return keep
