"""Kafka Streams applications with exactly_once_v2, timed from outside by what their group has committed."""

import contextlib
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench.clients.perf import ToolFailed
from bench.harness import java
from bench.harness.brokers import Server
from fencepost.child import Child
from fencepost.lab.kit.java import PERFORMANCE_OPTIONS

JAVA = Path(__file__).resolve().parents[1] / "java"
#: Counted is from this share of the records on: before it the JVM compiles.
WARM_UP = 0.3
TIMEOUT_S = 600.0
OPTIONS = ("-Xmx1G", *PERFORMANCE_OPTIONS)
#: After the last record of a partition: those of the threads that wrote to it.
MARKERS_MAX = 4


def shop_rate(
    server: Server, topics: tuple[str, str, str], partitions: int, records: int, commit_ms: int, threads: int
) -> float:
    """Purchases a second that become invoices and shipments."""
    with _application(server, "ShopStreams", topics, commit_ms, threads) as group:
        return _rate(server, group, [TopicPartition(topics[0], partition) for partition in range(partitions)], records)


def totals_rate(
    server: Server, topics: tuple[str, str], keys: int, partitions: int, records: int, commit_ms: int, threads: int
) -> float:
    """Purchases a second that are added to the totals of their keys, in a RocksDB store with its changelog."""
    with _application(server, "TotalsStreams", (*topics, str(keys)), commit_ms, threads) as group:
        wanted = [TopicPartition(topics[0], partition) for partition in range(partitions)]
        return _rate(server, group, wanted, records, then=f"{group}-totals-repartition")


@contextlib.contextmanager
def _application(server: Server, program: str, words: Sequence[str], commit_ms: int, threads: int) -> Iterator[str]:
    """Runs while the block does; gives the name of its group."""
    name = f"streams-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="bench-streams-") as home:
        properties = {
            "bootstrap.servers": server.bootstrap,
            "application.id": name,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": commit_ms,
            "num.stream.threads": threads,
            "state.dir": home,
            "consumer.auto.offset.reset": "earliest",
        }
        file = Path(home, "streams.properties")
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        with Child(Path(home, "log"), "Kafka Streams", logs_output=True) as process:
            process.start(java.kafka().command(str(JAVA / f"{program}.java"), str(file), *words, options=OPTIONS))
            yield name
            if not process.is_running:
                raise ToolFailed(f"Kafka Streams ended: {process.said()}")


def _rate(server: Server, group: str, wanted: list[TopicPartition], records: int, then: str | None = None) -> float:
    """Records a second, by the group's committed offsets; the clock stops when `then` has been read to its end, too."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "log_level": 0})
    began: tuple[float, int] | None = None
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        done = sum(max(0, entry.offset) for entry in consumer.committed(wanted, timeout=30))
        now_s = time.monotonic()
        if began is None and done >= WARM_UP * records:
            began = (now_s, done)
        if done >= records and began is not None and (then is None or _is_at_end(consumer, then)):
            consumer.close()
            return (done - began[1]) / (time.monotonic() - began[0])
        time.sleep(0.02)
    raise ToolFailed(f"Kafka Streams did not come to the end within {TIMEOUT_S:.0f} s")


def _is_at_end(consumer: Consumer, topic: str) -> bool:
    """Whether every record of the topic has been read; what follows the last one are markers of transactions."""
    partitions = [TopicPartition(topic, index) for index in consumer.list_topics(topic).topics[topic].partitions]
    committed = consumer.committed(partitions, timeout=30)
    ends = [consumer.get_watermark_offsets(where)[1] for where in partitions]
    return all(entry.offset >= end - MARKERS_MAX for entry, end in zip(committed, ends, strict=True))
