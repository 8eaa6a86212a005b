"""The cache of a changelog partition, against a real changelog."""

import itertools
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import latest
from fencepost.lab.kit.servers import Ours
from fencepost.spark.state import cache as caches
from fencepost.spark.state.cache import AGE_MAX_MS, Cache, Reached, cache_for
from fencepost.wire.terms import Isolation, TopicPartition
from tests import logins
from tests.conftest import BUSY_SETTINGS, topic_maker, wait_until
from tests.spark.checker import read_records
from tests.spark.source.support import TIMEOUT_S

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
    cache._apply(None, Reached(10, 1), [b"a"], [b"new"])
    cache._apply(None, Reached(5, 2), [b"a"], [b"old"])
    assert cache.get([b"a"]) == [b"new"]
    assert cache.position == 10


def test_long_and_strange_keys_are_kept_apart(cache: Cache) -> None:
    long = [b"x" * 600, b"x" * 601, b"", b"\0position"]
    cache._apply(None, Reached(4, 1), long, [b"1", b"2", b"3", b"4"])
    assert cache.get(long) == [b"1", b"2", b"3", b"4"]
    assert cache.position == 4


def test_a_log_that_lost_its_end_is_read_from_its_beginning(
    bootstrap: str, topic: Callable[..., str], cluster: Cluster, cache: Cache
) -> None:
    where = TopicPartition(topic(), 0)
    cache._apply(None, Reached(1_000, caches.clock_ms()), [b"lost"], [b"1"])
    producer = transaction(bootstrap, where.topic)
    producer.produce(where.topic, key=b"kept", value=b"1", partition=0)
    producer.commit_transaction(30)
    assert cache.catch_up(cluster, where, end_of(cluster, where)) == 1
    assert cache.get([b"lost", b"kept"]) == [None, b"1"]


def test_after_a_restart_of_the_machine_the_cache_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_for(str(tmp_path), "boots", 0)._apply(None, Reached(1, 1), [b"a"], [b"1"])
    boot = tmp_path / "boot"
    boot.write_text("another\n")
    monkeypatch.setattr(caches, "BOOT_ID", boot)
    assert cache_for(str(tmp_path), "boots", 0).position == -1


# -- a cache that was away ---------------------------------------------------------------------------------------------

#: Tombstones are gone soon after compaction has met them; with Kafka's default it takes a day.
FORGETFUL = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.01,
    "segment.ms": 100,
    "delete.retention.ms": 100,
}


class Away:
    """A cache by a clock of the test's own, and a changelog whose tombstones are removed while it is away."""

    def __init__(self, bootstrap: str, cluster: Cluster, path: Path, where: TopicPartition) -> None:
        self.now_ms = 10 * AGE_MAX_MS
        self.where = where
        self._bootstrap, self._cluster, self._path = bootstrap, cluster, path
        self.cache = Cache(str(path), lambda: self.now_ms)
        self._producer = Producer({**logins.confluent(bootstrap), "linger.ms": 0})

    def put(self, key: bytes, value: bytes | None) -> None:
        self._producer.produce(self.where.topic, key=key, value=value, partition=self.where.partition)
        assert self._producer.flush(TIMEOUT_S) == 0

    def catch_up(self, end: int | None = None) -> int:
        return self.cache.catch_up(self._cluster, self.where, end or end_of(self._cluster, self.where))

    def look_up(self, *keys: bytes) -> list[bytes | None]:
        return self.cache.look_up(self._cluster, self.where, end_of(self._cluster, self.where), keys)

    def remove(self, key: bytes) -> None:
        """Until compaction has removed the tombstone as well."""
        self.put(key, None)

        def is_forgotten() -> bool:
            self.put(b"roller", b"a new segment, so that the last one is compacted")
            return all(record.key() != key for record in read_records(self._bootstrap, self.where.topic))

        wait_until(is_forgotten, "compaction has removed the key and its tombstone")


@pytest.fixture(scope="module")
def busy(start_broker: Callable[..., Ours]) -> str:
    """A broker that compacts all the time."""
    return start_broker(BUSY_SETTINGS).bootstrap


@pytest.fixture
def away(busy: str, tmp_path: Path) -> Iterator[Away]:
    name = topic_maker(AdminClient(logins.confluent(busy)))(config=FORGETFUL)
    with logins.cluster(busy) as cluster:
        yield filled(Away(busy, cluster, tmp_path, TopicPartition(name, 0)))


def filled(found: Away) -> Away:
    found.put(b"removed later", b"1")
    found.put(b"kept", b"1")
    assert found.catch_up() == 2
    return found


@pytest.mark.parametrize("jump_ms", [AGE_MAX_MS + 1, 30 * AGE_MAX_MS, -1], ids=["an hour", "a day", "the clock back"])
def test_a_key_does_not_come_back_in_a_cache_that_missed_its_tombstone(away: Away, jump_ms: int) -> None:
    away.remove(b"removed later")
    away.now_ms += jump_ms
    away.catch_up()
    assert away.cache.get([b"removed later", b"kept"]) == [None, b"1"]


def test_a_cache_that_does_not_know_when_it_was_filled_is_filled_again(away: Away) -> None:
    """As stores were before they held a time."""
    with away.cache._environment.begin(write=True) as transaction:
        transaction.put(caches._POSITION, struct.pack("<q", away.cache.position))
    away.remove(b"removed later")
    away.catch_up()
    assert away.cache.get([b"removed later", b"kept"]) == [None, b"1"]


def test_a_cache_that_is_looked_at_often_is_never_filled_again(away: Away) -> None:
    for _ in range(3):
        away.now_ms += AGE_MAX_MS
        assert away.catch_up() == 0
    away.put(b"kept", b"2")
    assert away.catch_up() == 1
    assert away.cache.get([b"kept"]) == [b"2"]


def test_what_was_filled_in_part_is_as_old_as_the_last_whole(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise processes that die while they catch up could put off the next whole one for ever."""
    away.put(b"kept", b"2")
    away.put(b"kept", b"3")
    away.now_ms += AGE_MAX_MS

    def interrupted(_cluster: Cluster, _where: TopicPartition, start: int, _end: int) -> Iterator[Any]:
        yield [b"kept"], [b"2"], start + 1
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(caches, "_pieces", interrupted)
        with pytest.raises(InterruptedError):
            away.catch_up()
    assert away.cache.get([b"kept"]) == [b"2"]
    away.now_ms += 1
    assert away.catch_up() == 4, "all records again"
    assert away.cache.get([b"removed later", b"kept"]) == [b"1", b"3"]


def test_a_cache_that_is_emptied_while_it_is_read_is_filled_again(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another process: between its look at the position and its writing, and between its filling and its reading."""
    away.put(b"kept", b"2")
    left = [True, True]

    def empty() -> None:
        with away.cache._environment.begin(write=True) as transaction:
            transaction.drop(away.cache._environment.open_db(txn=transaction), delete=False)

    pieces, catch_up = caches._pieces, Cache.catch_up

    def pieces_of_an_emptied_store(*given: Any) -> Iterator[Any]:
        if left[0]:
            left[0] = False
            empty()
        yield from pieces(*given)

    def catch_up_and_empty(*given: Any) -> int:
        found = catch_up(*given)
        if left[1]:
            left[1] = False
            empty()
        return found

    monkeypatch.setattr(caches, "_pieces", pieces_of_an_emptied_store)
    monkeypatch.setattr(Cache, "catch_up", catch_up_and_empty)
    assert away.look_up(b"removed later", b"kept") == [b"1", b"2"]
    assert left == [False, False]


def test_a_task_that_is_late_leaves_the_others_their_cache(away: Away) -> None:
    """It has an older end. What it computes is never committed."""
    away.put(b"kept", b"2")
    away.catch_up()
    position = away.cache.position
    assert away.catch_up(position - 1) == 0
    assert away.cache.position == position
