"""The shop as a Kafka Streams application, timed from outside: how fast committed invoices and shipments appear."""

import contextlib
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench.clients.perf import ToolFailed
from bench.harness import java
from bench.harness.brokers import Server

SOURCE = Path(__file__).resolve().parents[1] / "java" / "ShopStreams.java"
#: Counted is from this share of the records on: before it the JVM compiles.
WARM_UP = 0.3
TIMEOUT_S = 600.0
HEAP = ("-Xmx1G",)


@contextlib.contextmanager
def application(server: Server, topics: tuple[str, str, str], commit_ms: int, threads: int) -> Iterator[str]:
    """Runs while the block does; gives the name of its group."""
    name = f"streams-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="bench-streams-") as home:
        words = [server.bootstrap_servers, name, *topics, str(commit_ms), str(threads), home]
        process = subprocess.Popen(
            java.command(str(SOURCE), *words, heap=HEAP), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield name
            if process.poll() is not None and process.stdout is not None:
                raise ToolFailed(f"Kafka Streams ended: {process.stdout.read()[-3000:].decode(errors='replace')}")
        finally:
            process.kill()
            process.wait()


def records_per_s(
    server: Server, topics: tuple[str, str, str], partitions: int, records: int, commit_ms: int, threads: int
) -> float:
    """Purchases a second, by the group's committed offsets."""
    with application(server, topics, commit_ms, threads) as group:
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group, "log_level": 0})
        wanted = [TopicPartition(topics[0], partition) for partition in range(partitions)]
        began: tuple[float, int] | None = None
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            done = sum(max(0, entry.offset) for entry in consumer.committed(wanted, timeout=30))
            now_s = time.monotonic()
            if began is None and done >= WARM_UP * records:
                began = (now_s, done)
            if done >= records and began is not None:
                consumer.close()
                return (done - began[1]) / (now_s - began[0])
            time.sleep(0.02)
        raise ToolFailed(f"Kafka Streams did not come to the end within {TIMEOUT_S:.0f} s")
