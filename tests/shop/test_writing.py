"""Purchases are written once, also if several writers try."""

import collections

import pytest

from fencepost.client import Cluster
from fencepost.client.offsets import latest
from fencepost.client.reading import read_range
from fencepost.errors import ConfigError, Fenced
from fencepost.shop import PURCHASES
from fencepost.shop.expected import parse_purchase
from fencepost.shop.writing import PurchaseWriter
from fencepost.wire.terms import TopicPartition


def ids_in(cluster: Cluster) -> list[int]:
    places = [TopicPartition(PURCHASES, partition) for partition in range(2)]
    found = []
    for place, end in latest(cluster, places).items():
        for rows in read_range(cluster, place, 0, end):
            for value in rows.column("value").to_pylist():
                purchase = parse_purchase(value)
                assert purchase is not None
                found.append(purchase.purchase_id)
    return sorted(found)


def test_the_same_number_again_changes_nothing_and_a_larger_one_adds_the_rest(cluster: Cluster):
    for wanted in (1000, 1000, 25_000, 400):
        writer = PurchaseWriter(cluster)
        writer.open()
        writer.write_up_to(wanted)
    assert ids_in(cluster) == [*range(1, 25_001)]


def test_a_writer_that_was_replaced_is_refused_and_writes_nothing(cluster: Cluster, bootstrap: str):
    zombie = PurchaseWriter(cluster)
    zombie.open()
    zombie.write_up_to(1000)
    with Cluster(bootstrap) as another:
        successor = PurchaseWriter(another)
        successor.open()
        successor.write_up_to(2000)
        with pytest.raises(Fenced):
            zombie.write_up_to(2000)
        successor.write_up_to(3000)
    assert collections.Counter(ids_in(cluster)) == collections.Counter(range(1, 3001))


def test_what_a_writer_left_open_is_undone_by_the_next(cluster: Cluster, bootstrap: str):
    from fencepost.client.encode import Encoder
    from fencepost.client.shapes import TopicShape
    from fencepost.client.writing import TransactionWriter
    from fencepost.shop.purchases import purchase_rows

    first = PurchaseWriter(cluster)
    first.open()
    first.write_up_to(100)
    identity = first._transaction.begin()
    with TransactionWriter(cluster, identity) as open_one:
        for blob in Encoder({PURCHASES: TopicShape(2)}).encode(purchase_rows(1, 101, 50)):
            open_one.write(TopicPartition(PURCHASES, blob.partition), blob.data)
    with Cluster(bootstrap) as another:
        second = PurchaseWriter(another)
        assert second.open().purchases == 100
        second.write_up_to(200)
    assert ids_in(cluster) == [*range(1, 201)]


def test_another_seed_is_refused(cluster: Cluster):
    writer = PurchaseWriter(cluster)
    writer.open(seed=3)
    writer.write_up_to(10)
    assert PurchaseWriter(cluster).open().seed == 3
    with pytest.raises(ConfigError, match="continue with --seed 3"):
        PurchaseWriter(cluster).open(seed=4)
