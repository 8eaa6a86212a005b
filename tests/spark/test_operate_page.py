"""The page on running pipelines: every command on it runs, in the page's order, on one pipeline; and it prints that."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.client.groups import CommittedOffset
from fencepost.client.offsets import latest
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.lab.kit.servers import Ours
from fencepost.spark import ledger
from fencepost.spark.ledger import LedgerEntry
from fencepost.spark.naming import transactional_id_of
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition
from tests.conftest import ROOT
from tests.pages import Reader, blocks
from tests.spark.state.test_stateful_step import Till

PAGE = ROOT / "docs" / "operate.md"
OUTPUT = TopicPartition("customers", 0)
DAY_MS = 86_400_000


class OfPipelines(Reader):
    def is_error(self, expected: str) -> bool:
        return super().is_error(expected) or "checkpoint: refuse:" in expected


def bought(bootstrap: str, users: str, *, days_ago: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for user in users:
        time_ms = int(time.time() * 1000) - days_ago * DAY_MS
        producer.produce("purchases", json.dumps({"user": user, "price": 1.25}), key=user, timestamp=time_ms)
    assert producer.flush(30) == 0


def follow_the_output(cluster: Cluster) -> None:
    """A second pipeline, which has read all of the first one's output."""
    transaction = SharedTransaction(cluster, transactional_id_of("downstream"))
    transaction.init()
    identity = transaction.begin()
    end = latest(cluster, [OUTPUT])
    entry = LedgerEntry("7b1f6c1e-0000-4000-8000-000000000000", 0, end)
    with TransactionWriter(cluster, identity) as writer:
        writer.write(ledger.place("downstream"), ledger.blob("downstream", entry))
    transaction.add_offsets("downstream", {OUTPUT: CommittedOffset(end[OUTPUT], ledger.note(entry.query_id, 0))})
    transaction.commit()


def die_in_a_transaction(cluster: Cluster) -> None:
    """As `shop` would: two records are written, and nobody commits."""
    transaction = SharedTransaction(cluster, transactional_id_of("shop"))
    transaction.init()
    with TransactionWriter(cluster, transaction.begin()) as writer:
        writer.write(OUTPUT, encode_batch([Record(b"a", b"1", 1), Record(b"b", b"1", 1)]))


def test_every_block_has_a_name() -> None:
    assert [each.text for each in blocks(PAGE) if each.name is None] == []


def test_the_page_from_top_to_bottom(spark: SparkSession, start_broker: Callable[..., Ours], tmp_path: Path) -> None:
    broker = start_broker()
    bootstrap, names = broker.bootstrap, iter(["purchases", "customers"])
    reader = OfPipelines(
        PAGE,
        {
            "kafka.example.org:9092": bootstrap,
            "/data": tmp_path,
            "/new": tmp_path / "new",
            "/var/lib/fencepost": broker.directory,
            "/backup": tmp_path / "backup",
        },
    )
    for directory in ("new", "backup"):
        (tmp_path / directory).mkdir()
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, {"purchases": NewTopic(1), "customers": NewTopic(1)})
        till = Till(spark, bootstrap, lambda _: next(names), tmp_path)
        till.pipeline = "shop"
        step = till.step(partitions=1)
        bought(bootstrap, "ab", days_ago=2)
        bought(bootstrap, "a")
        till.run(step)
        bought(bootstrap, "bc")
        till.run(step)
        bought(bootstrap, "abc")
        reader.shown("late")
        reader.shown("describe")
        follow_the_output(cluster)
        die_in_a_transaction(cluster)
        reader.shown("stuck")
        reader.shown("poison")
        reader.shown("refused")
        shutil.rmtree(till.checkpoint)
        till.run(step)
        reader.shown("rewind")
        reader.shown("moved")
        reader.shown("changed")
        reader.shown("upgraded")
        broker.stop()
        reader.shown("backup")
        shutil.rmtree(broker.directory)
        shutil.copytree(tmp_path / "backup" / "fencepost", broker.directory)
        broker.start()
        reader.places["kafka.example.org:9092"] = broker.bootstrap
        reader.shown("restored")
        reader.shown("restore")
        reader.shown("delete")
    reader.check_all_is_read()
