"""Kafka's own perf tools: ProducerPerformance and ConsumerPerformance, with the heap of their scripts."""

import re
from collections.abc import Mapping

from bench.clients.outcome import MEGABYTE, Work
from bench.harness import java
from bench.harness.brokers import Server, client_file
from fencepost.lab.kit.java import PERF_TOOL

TIMEOUT_S = 900


class ToolFailed(RuntimeError):
    """A perf tool did not print its summary."""


def produce(
    server: Server,
    topic: str,
    records: int,
    record_size: int,
    *,
    properties: Mapping[str, str] | None = None,
    transaction_ms: int | None = None,
) -> Work:
    every = {"acks": "all", **(properties or {})}
    transaction = [] if transaction_ms is None else ["--transaction-duration-ms", str(transaction_ms)]
    done = java.kafka().run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(record_size), "--throughput", "-1"),
        *transaction,
        *("--producer.config", str(client_file(server, "java"))),
        *("--producer-props", *(f"{key}={value}" for key, value in every.items())),
        options=PERF_TOOL,
        timeout_s=TIMEOUT_S,
    )
    summary = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    found = re.search(
        r"(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency, ([\d.]+) ms max latency, "
        r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th",
        summary,
    )
    if done.returncode != 0 or found is None or int(found[1]) != records:
        raise ToolFailed(f"ProducerPerformance on {server.name}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    latency = {"avg": float(found[3]), "max": float(found[4]), "p50": float(found[5]), "p99": float(found[7])}
    return Work(records, records * record_size, records / float(found[2]), latency)


def consume(server: Server, topic: str, records: int, *, isolation_level: str = "read_uncommitted") -> Work:
    """Seconds are those of reading, from the end of the group's rebalance on, as the tool's `fetch.MB.sec` has it."""
    config = client_file(server, "java")
    with config.open("a") as file:
        file.write(f"isolation.level={isolation_level}\n")
    done = java.kafka().run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--messages", str(records)),
        *("--consumer.config", str(config), "--hide-header", "--timeout", "30000"),
        options=PERF_TOOL,
        timeout_s=TIMEOUT_S,
    )
    words = done.stdout.strip().splitlines()[-1].split(", ") if done.stdout.strip() else []
    if done.returncode != 0 or len(words) != 10 or int(words[4]) < records:
        raise ToolFailed(f"ConsumerPerformance on {server.name}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    size = round(float(words[2]) * MEGABYTE)
    return Work(int(words[4]), size, float(words[7]) / 1000, {"rebalance": float(words[6])})
