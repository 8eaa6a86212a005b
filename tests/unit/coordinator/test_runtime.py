import asyncio

import pytest

from fencepost.clock import ManualClock
from fencepost.coordinator.runtime import (
    Replay,
    Shard,
    Shards,
    coordinator_error,
)
from fencepost.errors import ErrorCode, InvariantBroken, KafkaError
from fencepost.wire.records import Record
from fencepost.wire.terms import coordinator_partition, java_hash
from tests.unit.coordinator.memory import MemoryLog, MemoryTopics, Sync


class Recorder:
    """A machine that only remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def apply(self, record: Record, producer_id: int) -> None:
        self.seen.append((record, producer_id))

    def apply_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        self.seen.append((producer_id, producer_epoch, commit))


def make_shard(log: MemoryLog) -> Shard[Recorder]:
    return Shard(0, log, Recorder(), ManualClock())


def test_a_loaded_shard_has_seen_what_the_live_one_has():
    log = MemoryLog("__consumer_offsets", 0)
    live = make_shard(log)
    live.write([Record(b"a", b"1"), Record(b"b", None)])
    live.write([Record(b"c", b"2")], producer_id=7, producer_epoch=3, transactional=True)
    log.append_marker(7, 3, True, 0, 1)
    live.marker_appended(7, 3, True)
    live.write([Record(b"d", b"4", timestamp=17)])

    loaded = make_shard(log)
    loaded.load()

    assert loaded.machine.seen == live.machine.seen
    offsets = [entry[0].offset for entry in live.machine.seen if isinstance(entry[0], Record)]
    assert offsets == [0, 1, 2, 4]


def test_where_records_replace_each_other_only_the_newest_are_applied():
    log = MemoryLog("__transaction_state", 0)
    live = make_shard(log)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", None)):
        live.write([Record(key, value)])
    loaded = Shard(0, log, Recorder(), ManualClock(), Replay.NEWEST_PER_KEY)
    assert loaded.load() == 4
    assert loaded.machine.seen == [live.machine.seen[1], live.machine.seen[2], live.machine.seen[3]]


def test_records_in_a_transaction_are_told_apart_from_the_others():
    shard = make_shard(MemoryLog("__consumer_offsets", 0))
    shard.write([Record(b"a", b"1")], producer_id=7, producer_epoch=3, transactional=True)
    shard.write([Record(b"a", b"1")])
    assert [producer_id for _, producer_id in shard.machine.seen] == [7, -1]


def test_a_record_without_a_timestamp_gets_the_present_one():
    shard = make_shard(MemoryLog("t", 0))
    shard.write([Record(b"a", b"1"), Record(b"b", b"2", timestamp=5)])
    assert [record.timestamp for record, _ in shard.machine.seen] == [ManualClock().now_ms(), 5]


def test_what_the_log_refuses_is_not_applied():
    log = MemoryLog("t", 0)
    shard = make_shard(log)
    log.fails = True
    with pytest.raises(KafkaError):
        shard.write([Record(b"a", b"1")])
    assert shard.machine.seen == []


def test_writing_nothing_is_a_bug():
    with pytest.raises(InvariantBroken):
        make_shard(MemoryLog("t", 0)).write([])


def test_durability_is_waited_for():
    async def scenario() -> None:
        log = MemoryLog("t", 0, Sync.BY_HAND)
        shard = make_shard(log)
        offset = shard.write([Record(b"a", b"1")]).last_offset
        waiting = asyncio.ensure_future(shard.durable(offset))
        await asyncio.sleep(0)
        assert not shard.is_durable(offset)
        assert not waiting.done()
        log.sync()
        await waiting
        assert shard.is_durable(offset)
        await shard.all_durable()

    asyncio.run(scenario())


def test_shards_are_made_when_a_key_needs_them():
    topics = MemoryTopics()
    shards = Shards("__transaction_state", topics, lambda partition: Recorder(), ManualClock())
    assert shards.find("shop") is None
    assert topics.topics == {}, "a question must not create the topic"
    shard = shards.for_key("shop")
    assert shards.for_key("shop") is shard
    assert shards.find("shop") is shard
    assert shards.at(shard.partition) is shard
    assert list(shards) == [shard]


def test_loading_brings_back_only_the_shards_that_have_records():
    topics = MemoryTopics()
    shards = Shards("__transaction_state", topics, lambda partition: Recorder(), ManualClock())
    for key in ("a", "b", "c"):
        shards.for_key(key).write([Record(key.encode(), b"1")])
    shards.for_key("unused")

    loaded = Shards("__transaction_state", topics, lambda partition: Recorder(), ManualClock())
    loaded.load()

    assert {shard.partition for shard in loaded} == {coordinator_partition(key, 50) for key in ("a", "b", "c")}
    for shard in loaded:
        assert shard.machine.seen == next(s.machine.seen for s in shards if s.partition == shard.partition)


@pytest.mark.parametrize(
    ("key", "digest", "partition"),
    [
        ("my-transactional-id", -959806496, 46),
        ("a\U0001f600b-txn", 310513531, 31),
        ("polygenelubricants", -(2**31), 0),
        ("shop-7", -903152864, 14),
    ],
)
def test_keys_go_where_kafka_puts_them(key, digest, partition):
    """Numbers from Kafka's own Utils.abs(key.hashCode()) % 50."""
    assert java_hash(key) == digest
    assert coordinator_partition(key, 50) == partition


def test_clients_are_told_to_come_again_when_the_coordinators_log_fails():
    told = coordinator_error(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk"))
    assert (told.code, told.message) == (ErrorCode.NOT_COORDINATOR, "disk")
    fenced = KafkaError(ErrorCode.PRODUCER_FENCED)
    assert coordinator_error(fenced) is fenced
