"""A pipeline run by hand: what the sink writes in each transaction, in the sink's own formats, without Spark."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from click.testing import CliRunner, Result
from confluent_kafka import Producer

from fencepost.cli.main import main
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.client.groups import CommittedOffset
from fencepost.client.offsets import latest
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.spark import ledger
from fencepost.spark.ledger import ChangelogEntry, InCheckpoint, LedgerEntry
from fencepost.spark.naming import changelog_name, transactional_id_of
from fencepost.spark.state.changelog import CONFIGS
from fencepost.spark.topic_identity import identities, identity_of
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition
from tests import logins
from tests.conftest import unique

STEP = "totals"
Changes = Mapping[str, str | None]


def now_ms() -> int:
    """Records must not be older than a topic's retention."""
    return time.time_ns() // 1_000_000


class ByHand:
    """One input topic, optionally one stateful step with one partition."""

    def __init__(self, cluster: Cluster, bootstrap: str, partitions: int = 1, *, stateful: bool = False) -> None:
        self.cluster = cluster
        self.bootstrap = bootstrap
        self.name = unique("shop")
        self.topic = f"{self.name}.purchases"
        self.changelog = changelog_name(self.name, STEP)
        self.query_id = str(uuid.uuid4())
        self.batch_id = -1
        self.in_checkpoint: frozenset[InCheckpoint] = frozenset()
        create_topics(cluster, {self.topic: NewTopic(partitions)})
        self.changelogs: dict[str, ChangelogEntry] = {}
        if stateful:
            create_topics(cluster, {self.changelog: NewTopic(1, configs=CONFIGS)})
            found = cluster.refresh([self.changelog])[self.changelog]
            self.changelogs[STEP] = ChangelogEntry(1, identity_of(found))
        self.start()

    def start(self) -> None:
        """As a driver that starts: fences its predecessor."""
        ledger.ensure(self.cluster)
        self.transaction = SharedTransaction(self.cluster, transactional_id_of(self.name))
        self.transaction.init()

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, index) for index in self.cluster.topic(self.topic).partitions]

    def ends(self) -> dict[TopicPartition, int]:
        return latest(self.cluster, self.partitions)

    def fill(self, *values: str, partition: int = 0, time_ms: int | None = None) -> None:
        producer = Producer({**logins.confluent(self.bootstrap), "linger.ms": 0})
        for value in values:
            more: dict[str, Any] = {} if time_ms is None else {"timestamp": time_ms}
            producer.produce(self.topic, value, partition=partition, **more)
        assert producer.flush(30) == 0

    def fill_in_transaction(self, *values: str, commit: bool, partition: int = 0) -> None:
        transaction = SharedTransaction(self.cluster, unique("till"))
        transaction.init()
        self.write(
            transaction,
            TopicPartition(self.topic, partition),
            [Record(None, each.encode(), now_ms()) for each in values],
        )
        transaction.commit() if commit else transaction.abort()

    def open_batch(
        self, changes: Changes | None = None, end: Mapping[TopicPartition, int] | None = None
    ) -> LedgerEntry:
        """Everything of a batch but its commit."""
        self.batch_id += 1
        self.transaction.begin()
        if changes:
            self.change(self.transaction, changes)
        reached = dict(self.ends() if end is None else end)
        entry = LedgerEntry(
            self.query_id,
            self.batch_id,
            reached,
            self.changelogs,
            topics=identities(self.cluster, {self.topic}),
            in_checkpoint=self.in_checkpoint,
        )
        with TransactionWriter(self.cluster, self.transaction.identity) as writer:
            writer.write(ledger.place(self.name), ledger.blob(self.name, entry))
        note = ledger.note(self.query_id, self.batch_id)
        self.transaction.add_offsets(self.name, {where: CommittedOffset(each, note) for where, each in reached.items()})
        return entry

    def batch(self, changes: Changes | None = None, end: Mapping[TopicPartition, int] | None = None) -> LedgerEntry:
        """A whole batch, by default up to the end of the input."""
        entry = self.open_batch(changes, end)
        self.transaction.commit()
        return entry

    def change(self, transaction: SharedTransaction, changes: Changes) -> None:
        records = [
            Record(key.encode(), None if value is None else value.encode(), now_ms()) for key, value in changes.items()
        ]
        self.write(transaction, TopicPartition(self.changelog, 0), records)

    def write(self, transaction: SharedTransaction, where: TopicPartition, records: Sequence[Record]) -> None:
        if transaction is not self.transaction:
            transaction.begin()
        with TransactionWriter(self.cluster, transaction.identity) as writer:
            writer.write(where, encode_batch(records))


def run(bootstrap: str, *words: object) -> Result:
    """`fencepost pipeline …`, in this process."""
    security = [word for name, value in logins.java(bootstrap).items() for word in ("-X", f"{name}={value}")]
    return CliRunner().invoke(main, ["pipeline", *map(str, words), *security])


def asked(bootstrap: str, *words: object, exit_code: int = 0) -> dict[str, Any]:
    """What it says with --json."""
    done = run(bootstrap, *words, "--json")
    assert done.exit_code == exit_code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found
