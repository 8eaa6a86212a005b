"""Both brokers up at the same time, and the order in which they are measured.

Runs alternate (A B, B A, A B, …) so that whatever else the machine does hits both alike. Before the first counted run
each broker serves one that is thrown away: the JVM has compiled its code by then, and the comparison is with a Kafka in
its stride. Every run has a topic of its own, deleted afterwards, with the disk quiet before the next one begins.
"""

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness import brokers
from bench.harness.brokers import Server
from fencepost.security.names import Protocol

#: The same for both, beside what a bench sets: deleted topics free their pages at once, groups form at once.
COMMON = {"log.segment.delete.delay.ms": "0", "group.initial.rebalance.delay.ms": "0"}
SETTLE_TIMEOUT_S = 60.0

T = TypeVar("T")


class Arena:
    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = list(servers)
        self._admins: dict[str, Any] = {}

    def admin(self, server: Server) -> Any:
        if server.name not in self._admins:
            self._admins[server.name] = AdminClient({"log_level": 0, **server.client_config("confluent")})
        return self._admins[server.name]

    @contextlib.contextmanager
    def topic(self, server: Server, partitions: int, config: Mapping[str, str] | None = None) -> Iterator[str]:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        admin = self.admin(server)
        for created in admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))]).values():
            created.result(30)
        try:
            yield name
        finally:
            for deleted in admin.delete_topics([name]).values():
                deleted.result(30)
            settle(server, name)

    def alternate(
        self, repetitions: int, measure: Callable[[Server], T], *, warm_up: bool = True
    ) -> dict[str, list[T]]:
        """`measure` on each broker in turn, `repetitions` times; what it returned, by broker."""
        if warm_up:
            for server in self.servers:
                measure(server)
        results: dict[str, list[T]] = {server.name: [] for server in self.servers}
        for repetition in range(repetitions):
            order = self.servers if repetition % 2 == 0 else self.servers[::-1]
            for server in order:
                results[server.name].append(measure(server))
        return results


@contextlib.contextmanager
def arena(
    kinds: Sequence[str], settings: Mapping[str, str] | None = None, security: Protocol | None = None
) -> Iterator[Arena]:
    with contextlib.ExitStack() as stack:
        both = {**COMMON, **(settings or {})}
        yield Arena([stack.enter_context(brokers.running(kind, both, security)) for kind in kinds])


def settle(server: Server, topic: str) -> None:
    """Wait until a deleted topic's files are gone, then until the disk has nothing left to write."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while any(server.directory.glob(f"{topic}-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.sync()
