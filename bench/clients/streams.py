"""Kafka Streams applications with exactly_once_v2, from the sources in `bench/java`."""

import contextlib
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.clients.perf import ToolFailed
from bench.harness import java
from bench.harness.brokers import Server
from fencepost.child import Child
from fencepost.lab.kit.java import PERFORMANCE_OPTIONS

JAVA = Path(__file__).resolve().parents[1] / "java"
#: As much as Spark's driver has.
OPTIONS = ("-Xmx2G", *PERFORMANCE_OPTIONS)


@contextlib.contextmanager
def application(server: Server, program: str, words: Sequence[str], commit_ms: int, threads: int) -> Iterator[Child]:
    """Runs while the block does. Its group is new, so it begins with the first record."""
    with tempfile.TemporaryDirectory(prefix="bench-streams-") as home:
        properties = {
            "bootstrap.servers": server.bootstrap,
            "application.id": f"streams-{uuid.uuid4().hex[:8]}",
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
            yield process
            if not process.is_running:
                raise ToolFailed(f"Kafka Streams ended: {process.said()}")
