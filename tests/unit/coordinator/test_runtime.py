import pytest

from fencepost.coordinator.runtime import (
    RECORDS_PER_BATCH,
    Replay,
    Shard,
    Shards,
    coordinator_error,
)
from fencepost.errors import ErrorCode, InvariantBroken, KafkaError
from fencepost.wire.records import Record
from fencepost.wire.terms import coordinator_partition, java_hash
from tests.unit.coordinator.machine import STATE_PARTITIONS, Machine, start


class Recorder:
    """A machine that only remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.records: list[tuple[Record, int]] = []

    def apply(self, record: Record, producer_id: int) -> None:
        self.seen.append((record, producer_id))
        self.records.append((record, producer_id))

    def apply_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        self.seen.append((producer_id, producer_epoch, commit))


def make_shard(machine: Machine, replay: Replay = Replay.EVERYTHING) -> Shard[Recorder]:
    machine.topics.ensure_internal("__consumer_offsets")
    return Shard(0, machine.log("__consumer_offsets", 0), Recorder(), machine.clock, replay)


def make_shards(machine: Machine) -> Shards[Recorder]:
    return Shards("__transaction_state", machine.topics, lambda partition: Recorder(), machine.clock)


async def test_a_loaded_shard_has_seen_what_the_live_one_has(machine):
    live = make_shard(machine)
    live.write([Record(b"a", b"1"), Record(b"b", None)])
    live.write([Record(b"c", b"2")], producer_id=7, producer_epoch=3)
    live.log.append_marker(7, 3, True, 0, 1)
    live.machine.apply_marker(7, 3, True)
    live.write([Record(b"d", b"4", timestamp=17)])

    loaded = make_shard(machine)
    loaded.load()

    assert loaded.machine.seen == live.machine.seen
    now_ms = machine.clock.now_ms()  # what a record without a timestamp gets
    seen = [(record.offset, record.timestamp, producer_id) for record, producer_id in live.machine.records]
    assert seen == [(0, now_ms, -1), (1, now_ms, -1), (2, now_ms, 7), (4, 17, -1)]


async def test_where_records_replace_each_other_only_the_newest_are_applied(machine):
    live = make_shard(machine)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", None)):
        live.write([Record(key, value)])
    loaded = make_shard(machine, Replay.NEWEST_PER_KEY)
    assert loaded.load() == 4
    assert loaded.machine.seen == [live.machine.seen[1], live.machine.seen[2], live.machine.seen[3]]


async def test_what_the_log_refuses_is_not_applied(machine):
    shard = make_shard(machine)
    with machine.full_disk(), pytest.raises(KafkaError):
        shard.write([Record(b"a", b"1")])
    assert shard.machine.seen == []


async def test_many_records_are_written_in_several_batches(machine):
    shard = make_shard(machine)
    shard.write_many([Record(b"%d" % number, None) for number in range(RECORDS_PER_BATCH + 1)])
    assert len(shard.machine.seen) == RECORDS_PER_BATCH + 1
    assert [header.last_offset for header, _ in shard.log.replay(0)] == [RECORDS_PER_BATCH - 1, RECORDS_PER_BATCH]
    shard.write_many([])


async def test_writing_nothing_is_a_bug(machine):
    with pytest.raises(InvariantBroken):
        make_shard(machine).write([])


async def test_durability_is_waited_for(machine):
    machine.worker.holds = True
    shard = make_shard(machine)
    offset = shard.write([Record(b"a", b"1")]).last_offset
    waiting = await start(shard.durable(offset))
    assert not shard.is_durable(offset)
    assert not waiting.done()
    machine.worker.release()
    await waiting
    assert shard.is_durable(offset)
    await shard.all_durable()


async def test_shards_are_made_when_a_key_needs_them(machine):
    shards = make_shards(machine)
    assert shards.find("shop") is None
    assert machine.topics.all() == [], "a question must not create the topic"
    shard = shards.for_key("shop")
    assert shards.for_key("shop") is shard
    assert shards.find("shop") is shard
    assert shards.at(shard.partition) is shard
    assert list(shards) == [shard]


async def test_loading_brings_back_only_the_shards_that_have_records(machine):
    shards = make_shards(machine)
    for key in ("a", "b", "c"):
        shards.for_key(key).write([Record(key.encode(), b"1")])
    shards.for_key("unused")
    machine.restart()

    loaded = make_shards(machine)
    loaded.load()

    assert {shard.partition for shard in loaded} == {
        coordinator_partition(key, STATE_PARTITIONS) for key in ("a", "b", "c")
    }
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
