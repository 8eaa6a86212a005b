"""The end of a transaction: from the last acknowledged write until a `read_committed` consumer sees the last record.

The writer is ours, the consumer confluent-kafka's, for both brokers. The consumer stands before the last record of
every partition, waiting in a long poll, when the commit is sent. So its time is that of the moment when the transaction
is visible in all of its partitions, not of reading its records. The commit call alone says less: Kafka answers it
before its markers are written.
"""

import argparse
import contextlib
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from bench.client import rows as payload
from bench.growth.show import TITLES, Axes, add
from bench.harness.arena import Arena, arena
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, median, ratio
from fencepost.client.cluster import Cluster
from fencepost.client.encode import Encoder
from fencepost.client.offsets import latest
from fencepost.client.shapes import TopicShape
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import Isolation, TopicPartition

RECORD_BYTES = 100
PARTITIONS = 6
WARM_UP = 3
#: Before the first point, so that the brokers have compiled their code.
BROKER_WARM_UP = 20
TIMEOUT_S = 60.0
#: The consumer has sent its fetch and waits by then.
SETTLE_S = 0.3
OPEN_TIMEOUT_MS = 900_000
COLUMNS = ("commit call, ms: ours", "Kafka", "visible, ms: ours", "Kafka ", "ratio")


@dataclass(frozen=True, slots=True)
class Commit:
    call_ms: float
    visible_ms: float


class Onlooker:
    """A consumer in a thread of its own that notes when it has seen a record of every partition."""

    def __init__(self, server: Server, ends: dict[TopicPartition, int]) -> None:
        self._consumer: Any = Consumer(
            {
                **server.client_config("confluent"),
                "group.id": "onlooker",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._missing = set(ends)
        self._consumer.assign([Place(topic, index, end - 1) for (topic, index), end in ends.items()])
        self._thread = threading.Thread(target=self._run, name="onlooker")
        self._stopping = threading.Event()
        self.seen_s: float | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def wait(self) -> float:
        """When it saw the last of them."""
        self._thread.join(TIMEOUT_S)
        if self.seen_s is None:
            raise RuntimeError(f"{len(self._missing)} partitions are not visible {TIMEOUT_S:.0f} s after the commit")
        return self.seen_s

    def _run(self) -> None:
        while self._missing and not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._missing.discard(TopicPartition(message.topic(), message.partition()))
        self.seen_s = None if self._missing else time.perf_counter()


def commit(
    server: Server, cluster: Cluster, transaction: SharedTransaction, blobs: list[tuple[TopicPartition, Any]]
) -> Commit:
    with TransactionWriter(cluster, transaction.begin(), {where for where, _ in blobs}) as writer:
        for where, data in blobs:
            writer.write(where, data)
    ends = latest(cluster, {where: None for where, _ in blobs}, Isolation.READ_UNCOMMITTED)
    with Onlooker(server, ends) as onlooker:
        time.sleep(SETTLE_S)
        before_s = time.perf_counter()
        transaction.commit()
        call_s = time.perf_counter() - before_s
        return Commit(1000 * call_s, 1000 * (onlooker.wait() - before_s))


def commits(server: Server, blobs: list[tuple[TopicPartition, Any]], count: int) -> list[Commit]:
    with Cluster(server.client_config("java")) as cluster:
        transaction = SharedTransaction(cluster, f"bench-{uuid.uuid4().hex[:8]}")
        transaction.init()
        return [commit(server, cluster, transaction, blobs) for _ in range(count + WARM_UP)][WARM_UP:]


def spread_out(topic: str, records: int, partitions: int) -> list[tuple[TopicPartition, Any]]:
    """As many records, by key, as the writer encodes them."""
    blobs = Encoder({topic: TopicShape(partitions)}).encode(payload(records, RECORD_BYTES))
    return [(TopicPartition(topic, blob.partition), blob.data) for blob in blobs]


def one_each(topic: str, partitions: int) -> list[tuple[TopicPartition, Any]]:
    data = encode_batch([Record(None, bytes(RECORD_BYTES), 0, 0, ())])
    return [(TopicPartition(topic, index), data) for index in range(partitions)]


@contextlib.contextmanager
def others(server: Server) -> Iterator[Any]:
    """Opens more transactions of others, in partitions of their own, up to a number; they stay open."""
    there: list[SharedTransaction] = []
    with Cluster(server.client_config("java")) as cluster:

        def up_to(count: int, topic: str, partitions: int) -> None:
            data = encode_batch([Record(None, b"open", 0, 0, ())])
            while len(there) < count:
                name = f"open-{uuid.uuid4().hex[:8]}"
                made = SharedTransaction(cluster, name, timeout_ms=OPEN_TIMEOUT_MS)
                made.init()
                with TransactionWriter(cluster, made.begin()) as writer:
                    writer.write(TopicPartition(topic, len(there) % partitions), data)
                there.append(made)

        yield up_to
        for transaction in there:
            transaction.abort()


def _table(
    report: Report,
    name: str,
    caption: str,
    x_label: str,
    found: dict[str, dict[int, list[Commit]]],
    points: Sequence[int],
) -> None:
    rows = []
    for x in points:
        call = {kind: median([each.call_ms for each in at[x]]) for kind, at in found.items()}
        visible = {kind: median([each.visible_ms for each in at[x]]) for kind, at in found.items()}
        ours, theirs = visible.get("fencepost"), visible.get("kafka")
        rows.append([f"{x:,}", call.get("fencepost"), call.get("kafka"), ours, theirs, ratio(ours, theirs)])
    series = {
        TITLES[kind]: [(max(x, 1), median([each.visible_ms for each in at[x]])) for x in points]
        for kind, at in found.items()
    }
    for kind, at in found.items():
        for x, each in at.items():
            raw = [[one.call_ms, one.visible_ms] for one in each]
            report.raw.append({"curve": name, "broker": kind, "x": x, "call_and_visible_ms": raw})
    add(report, name, caption, Axes(x_label, "ms until visible"), [x_label, *COLUMNS], rows, series)


def _in_turn(where: Arena, points: Sequence[int], measure: Any) -> dict[str, dict[int, list[Commit]]]:
    for server in where.servers:
        with where.topic(server, PARTITIONS) as topic:
            commits(server, spread_out(topic, 100, PARTITIONS), BROKER_WARM_UP)
    found: dict[str, dict[int, list[Commit]]] = {server.name: {} for server in where.servers}
    for number, x in enumerate(points):
        for server in where.servers if number % 2 == 0 else where.servers[::-1]:
            found[server.name][x] = measure(server, x)
    return found


def commit_records(options: argparse.Namespace, report: Report) -> None:
    """By the number of records in the transaction."""
    points = options.points or [1, 10, 100, 1_000, 10_000, 100_000]
    with arena(options.brokers, Flush.NEVER.settings) as where:

        def measure(server: Server, records: int) -> list[Commit]:
            with where.topic(server, PARTITIONS) as topic:
                return commits(server, spread_out(topic, records, PARTITIONS), options.commits)

        found = _in_turn(where, points, measure)
    caption = f"A commit by its records: {PARTITIONS} partitions"
    _table(report, "commit-records", caption, "records", found, points)


def commit_partitions(options: argparse.Namespace, report: Report) -> None:
    """By the number of partitions, with one record in each."""
    points = options.points or [1, 10, 100, 300, 1_000]
    with arena(options.brokers, Flush.NEVER.settings) as where:

        def measure(server: Server, partitions: int) -> list[Commit]:
            with where.topic(server, partitions) as topic:
                return commits(server, one_each(topic, partitions), options.commits)

        found = _in_turn(where, points, measure)
    caption = "A commit by its partitions: one record in each"
    _table(report, "commit-partitions", caption, "partitions", found, points)


def commit_open(options: argparse.Namespace, report: Report) -> None:
    """By the number of other transactions that are open meanwhile."""
    points = options.points or [0, 10, 100, 1_000]
    with arena(options.brokers, Flush.NEVER.settings) as where, contextlib.ExitStack() as stack:
        opening = {server.name: stack.enter_context(others(server)) for server in where.servers}
        theirs = {server.name: stack.enter_context(where.topic(server, 50)) for server in where.servers}

        def measure(server: Server, count: int) -> list[Commit]:
            opening[server.name](count, theirs[server.name], 50)
            with where.topic(server, PARTITIONS) as topic:
                return commits(server, spread_out(topic, 100, PARTITIONS), options.commits)

        found = _in_turn(where, points, measure)
    caption = f"A commit by other open transactions: 100 records in {PARTITIONS} partitions (0 is drawn at 1)"
    _table(report, "commit-open", caption, "open transactions", found, points)
