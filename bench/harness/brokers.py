"""The two brokers that are compared, each in a directory of its own, as a user would start them.

fencepost is started by its command; Kafka by its storage tool and main class with the heap, garbage collector and
`server.properties` of its distribution, one node that is broker and controller.
"""

import contextlib
import enum
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import javaproperties

from bench.harness import java
from fencepost.lab.kit.kafka import ApacheKafka
from fencepost.lab.kit.servers import HOST, Ours, ServerFailed, answers
from fencepost.security.names import Protocol
from fencepost.security.quick import prepare

NEVER = str(2**63 - 1)

#: As in the server.properties that Kafka ships.
SHIPPED = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "group.initial.rebalance.delay.ms": "0",
}
Server = Ours | ApacheKafka


class Flush(enum.Enum):
    """Whether an acknowledged write has been forced to the disk. The setting is the same in both brokers."""

    NEVER = "no fsync"
    ALWAYS = "fsync"

    @property
    def settings(self) -> dict[str, str]:
        return {"log.flush.interval.messages": NEVER if self is Flush.NEVER else "1"}


def make(kind: str, home: Path, settings: Mapping[str, str] | None = None, security: Protocol | None = None) -> Server:
    if kind == "fencepost":
        return Ours(home, settings, security=security)
    quick = prepare(home / "security", security, HOST) if security is not None else None
    kafka = ApacheKafka(java.kafka(), home, {**SHIPPED, **(settings or {})}, security=quick)
    kafka.name = kind
    return kafka


def client_file(server: Server, client: str) -> Path:
    """What a client needs to connect, for its process to read: properties for Java, JSON for the others."""
    config = server.client_config(client)
    path = server.home / f"{client}.client"
    path.write_text(javaproperties.dumps(config) if client == "java" else json.dumps(config))
    return path


def read_client_file(path: str) -> dict[str, Any]:
    """Of a client other than Java's."""
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def start(server: Server) -> float:
    """Seconds from the command to the first answered request."""
    server.prepare()
    before_s = time.perf_counter()
    server.start()
    if not answers(server):
        raise ServerFailed(f"{server.name} does not answer")
    return time.perf_counter() - before_s


@contextlib.contextmanager
def made(kind: str, settings: Mapping[str, str] | None = None, security: Protocol | None = None) -> Iterator[Server]:
    """Not started yet. Nothing is left of it after the block."""
    home = Path(tempfile.mkdtemp(prefix=f"bench-{kind}-"))
    try:
        with make(kind, home, settings, security) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def running(kind: str, settings: Mapping[str, str] | None = None, security: Protocol | None = None) -> Iterator[Server]:
    with made(kind, settings, security) as server:
        yield server.start()
