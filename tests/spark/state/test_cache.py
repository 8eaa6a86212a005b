"""The cache of a changelog partition, against a real changelog."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import latest
from fencepost.spark.state import cache as caches
from fencepost.spark.state.cache import Cache, cache_for
from fencepost.wire.terms import Isolation, TopicPartition
from tests import logins

_ids = itertools.count()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return cache_for(str(tmp_path), f"topic-{next(_ids)}", 0)


def transaction(bootstrap: str, name: str) -> Producer:
    producer = Producer({**logins.confluent(bootstrap), "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def end_of(cluster: Cluster, where: TopicPartition) -> int:
    return latest(cluster, [where], Isolation.READ_UNCOMMITTED)[where]


def test_it_holds_what_was_committed_and_nothing_that_was_aborted(
    bootstrap: str, topic: Callable[..., str], cluster: Cluster, cache: Cache
) -> None:
    where = TopicPartition(topic(), 0)
    producer = transaction(bootstrap, where.topic)
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2")):
        producer.produce(where.topic, key=key, value=value, partition=0)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(where.topic, key=b"b", value=b"aborted", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)

    assert cache.position == -1
    assert cache.catch_up(cluster, where, end_of(cluster, where)) == 3
    assert cache.get([b"a", b"b", b"c"]) == [b"2", b"1", None]
    assert len(cache) == 2


def test_it_reads_only_the_tail_and_forgets_removed_keys(
    bootstrap: str, topic: Callable[..., str], cluster: Cluster, cache: Cache
) -> None:
    where = TopicPartition(topic(), 0)
    producer = transaction(bootstrap, where.topic)
    for number in range(100):
        producer.produce(where.topic, key=b"%d" % number, value=b"x" * number, partition=0)
    producer.commit_transaction(30)
    first = end_of(cluster, where)
    assert cache.catch_up(cluster, where, first) == 100
    assert cache.catch_up(cluster, where, first) == 0

    producer.begin_transaction()
    producer.produce(where.topic, key=b"7", value=None, partition=0)
    producer.produce(where.topic, key=b"8", value=b"new", partition=0)
    producer.commit_transaction(30)
    assert cache.catch_up(cluster, where, end_of(cluster, where)) == 2
    assert cache.get([b"7", b"8", b"9"]) == [None, b"new", b"x" * 9]


def test_what_another_process_has_applied_is_not_applied_backwards(cache: Cache) -> None:
    cache._apply(0, 10, [b"a"], [b"new"])
    cache._apply(0, 5, [b"a"], [b"old"])
    assert cache.get([b"a"]) == [b"new"]
    assert cache.position == 10


def test_long_and_strange_keys_are_kept_apart(cache: Cache) -> None:
    long = [b"x" * 600, b"x" * 601, b"", b"\0position"]
    cache._apply(0, 4, long, [b"1", b"2", b"3", b"4"])
    assert cache.get(long) == [b"1", b"2", b"3", b"4"]
    assert cache.position == 4


def test_a_log_that_lost_its_end_is_read_from_its_beginning(
    bootstrap: str, topic: Callable[..., str], cluster: Cluster, cache: Cache
) -> None:
    where = TopicPartition(topic(), 0)
    cache._apply(0, 1_000, [b"lost"], [b"1"])
    producer = transaction(bootstrap, where.topic)
    producer.produce(where.topic, key=b"kept", value=b"1", partition=0)
    producer.commit_transaction(30)
    assert cache.catch_up(cluster, where, end_of(cluster, where)) == 1
    assert cache.get([b"lost", b"kept"]) == [None, b"1"]


def test_after_a_restart_of_the_machine_the_cache_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_for(str(tmp_path), "boots", 0)._apply(0, 1, [b"a"], [b"1"])
    boot = tmp_path / "boot"
    boot.write_text("another\n")
    monkeypatch.setattr(caches, "BOOT_ID", boot)
    assert cache_for(str(tmp_path), "boots", 0).position == -1
