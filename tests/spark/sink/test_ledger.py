"""The ledger on a real broker."""

import json

import pytest

from fencepost.client import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.errors import Malformed, Unsupported
from fencepost.spark import ledger
from fencepost.spark.ledger import LedgerEntry
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition
from tests.conftest import unique

WHERE = TopicPartition("purchases", 1)


@pytest.fixture
def name(cluster: Cluster) -> str:
    ledger.ensure(cluster)
    return unique("pipeline")


def write(transaction: SharedTransaction, cluster: Cluster, name: str, blob: object) -> None:
    with TransactionWriter(cluster, transaction.begin()) as writer:
        writer.write(ledger.place(name), blob)  # type: ignore[arg-type]


def commit(cluster: Cluster, name: str, *blobs: object) -> SharedTransaction:
    """Each in a transaction of its own."""
    transaction = SharedTransaction(cluster, unique("writer"))
    transaction.init()
    for blob in blobs:
        write(transaction, cluster, name, blob)
        transaction.commit()
    return transaction


def entry(batch: int) -> LedgerEntry:
    return LedgerEntry("query", batch, {WHERE: 100 * batch})


def test_a_pipeline_that_has_done_nothing_has_no_entry(cluster: Cluster, name: str) -> None:
    assert ledger.read_entry(cluster, name) is None


def test_the_last_committed_entry_counts(cluster: Cluster, name: str) -> None:
    transaction = commit(cluster, name, ledger.blob(name, entry(1)), ledger.blob(name, entry(2)))
    write(transaction, cluster, name, ledger.blob(name, entry(3)))
    transaction.abort()
    found = ledger.read_entry(cluster, name)
    assert found is not None
    assert (found.query_id, found.batch_id, found.offsets) == ("query", 2, {WHERE: 200})


def test_pipelines_that_share_a_partition_do_not_see_each_other(cluster: Cluster, name: str) -> None:
    neighbour = next(
        other for other in (f"{name}-{number}" for number in range(1000)) if ledger.place(other) == ledger.place(name)
    )
    commit(cluster, name, ledger.blob(name, entry(1)))
    assert ledger.read_entry(cluster, neighbour) is None
    assert ledger.read_entry(cluster, name) is not None


def test_the_topic_is_compacted_and_made_once(cluster: Cluster, name: str) -> None:
    ledger.ensure(cluster)
    assert len(cluster.topic(ledger.TOPIC).partitions) == ledger.PARTITIONS


def test_the_pipelines_of_a_batch_are_found_whatever_else_is_there(cluster: Cluster, name: str) -> None:
    query = unique("query")
    commit(cluster, name, ledger.blob(name, LedgerEntry(query, 7, {})), encode_batch([Record(b"x", b"?", 1)]))
    assert ledger.pipelines_of(cluster, query, 7) == {name}
    assert ledger.pipelines_of(cluster, query, 8) == set()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"nonsense", Malformed),
        (b'{"version": 1}', Malformed),
        (json.dumps({"version": ledger.VERSION + 1}).encode(), Unsupported),
    ],
)
def test_a_record_that_cannot_be_understood_stops_the_pipeline(
    cluster: Cluster, name: str, value: bytes, error: type[Exception]
) -> None:
    commit(cluster, name, encode_batch([Record(name.encode(), value, 1)]))
    with pytest.raises(error):
        ledger.read_entry(cluster, name)


def test_the_last_entry_is_found_however_many_of_others_follow(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for from the end, in pieces."""
    monkeypatch.setattr(ledger, "TAIL_OFFSETS", 2)
    monkeypatch.setattr(ledger, "TAIL_GROWTH", 2)
    others = [encode_batch([Record(b"another", entry(number).to_json(), 1)]) for number in range(9)]
    commit(cluster, name, ledger.blob(name, entry(1)), ledger.blob(name, entry(2)), *others)
    found = ledger.read_entry(cluster, name)
    assert found is not None
    assert found.batch_id == 2


def test_an_entry_that_was_deleted_is_not_found_behind_its_deletion(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "TAIL_OFFSETS", 2)
    commit(cluster, name, ledger.blob(name, entry(1)), encode_batch([Record(name.encode(), None, 1)]))
    assert ledger.read_entry(cluster, name) is None
