"""Snapshots, leader epochs, checkpoints and partition.metadata: Kafka's formats, byte for byte, and what is refused."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.log import checkpoint, snapshot
from fencepost.log.epochs import LeaderEpochs
from fencepost.log.producers import Producer, Producers
from tests.fakes.forgetful_disk import ForgetfulDisk

int16, int32, int64 = st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**62)


def some_producers() -> Producers:
    producers = Producers()
    producers.add_data(7, 2, 10, 14, 100, 104, 5000, 0x10, 0)
    producers.add_data(8, 0, 0, 0, 105, 105, 6000, 0, 0)
    producers.add_marker(9, 1, 3, 106, 7000, 0, commit=True)
    return producers


def test_a_snapshot_is_laid_out_as_kafka_does() -> None:
    entries = [
        (7, 2, 14, 104, 4, 5000, -1, 100),
        (8, 0, 0, 105, 0, 6000, -1, -1),
        (9, 1, -1, -1, 0, 7000, 3, -1),
    ]
    body = struct.pack(">i", 3) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    assert snapshot.encode(some_producers()) == struct.pack(">hI", 1, crc32c(body)) + body


@given(st.lists(st.tuples(int64, int16, int32, int32, int64, int64), unique_by=lambda entry: entry[0]))
def test_snapshots_round_trip(entries: list[tuple[int, int, int, int, int, int]]) -> None:
    producers = Producers()
    for producer_id, epoch, sequence, count, offset, timestamp in entries:
        producer = Producer(epoch)
        last = (sequence + count) % 2**31
        producer.add_batch(sequence, last, offset, offset + count, timestamp)
        producers.restore(producer_id, producer)
    found = Producers()
    snapshot.decode(snapshot.encode(producers), found, 0)
    assert {key: value.batches for key, value in found.by_id.items()} == {
        key: value.batches for key, value in producers.by_id.items()
    }


@pytest.mark.parametrize("position", range(0, 140, 7))
def test_a_flipped_bit_is_noticed(position: int) -> None:
    data = bytearray(snapshot.encode(some_producers()))
    data[position % len(data)] ^= 1
    producers = Producers()
    with pytest.raises(Malformed):
        snapshot.decode(bytes(data), producers, 0)
    assert producers.by_id == {}


def test_leader_epochs_answer_for_every_offset_and_epoch() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == -1 and epochs.at(5) == -1
    assert epochs.assign(1, 10) and epochs.assign(4, 20)
    assert not epochs.assign(4, 25) and not epochs.assign(2, 30)
    assert [epochs.at(offset) for offset in (5, 10, 19, 20, 99)] == [1, 1, 1, 4, 4]
    assert [epochs.end_offset(epoch, 50) for epoch in (-1, 0, 1, 3, 4, 5)] == [
        (-1, -1), (0, 10), (1, 20), (1, 20), (4, 50), (-1, -1),
    ]  # fmt: skip
    assert epochs.assign(5, 20), "an epoch in which nothing was written is replaced"
    assert epochs.entries == [(1, 10), (5, 20)]
    assert epochs.truncate_from_end(20) and epochs.entries == [(1, 10)]
    assert not epochs.truncate_from_end(20)


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\nx y\n", b"0\n2\n3 7\n0 0\n", b"\xff\n", b"0\n1\n1\n"]
)
def test_damaged_leader_epochs_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        LeaderEpochs.decode(data)


def test_checkpoints_are_text_and_durable() -> None:
    disk = ForgetfulDisk("/data")
    path = f"/data/{checkpoint.RECOVERY_POINTS}"
    assert checkpoint.read_offsets(disk, path) == {}
    offsets = {("shop", 1): 7, ("shop", 0): 5, ("a b", 2): 0}
    checkpoint.write_offsets(disk, path, offsets)
    disk.lose_power()
    assert disk.read_bytes(path) == b"0\n3\na b 2 0\nshop 0 5\nshop 1 7\n"
    assert checkpoint.read_offsets(disk, path) == offsets


@pytest.mark.parametrize("data", [b"", b"1\n0\n", b"0\n1\n", b"0\n1\nshop 0\n", b"0\n1\nshop 0 x\n", b"\xff\xfe"])
def test_damaged_checkpoints_are_refused(data: bytes) -> None:
    disk = ForgetfulDisk("/data")
    disk.write_bytes("/data/c", data)
    with pytest.raises(Malformed):
        checkpoint.read_offsets(disk, "/data/c")


def test_a_clean_shutdown_counts_once() -> None:
    disk = ForgetfulDisk("/data")
    assert not checkpoint.take_clean_shutdown(disk, "/data")
    checkpoint.mark_clean_shutdown(disk, "/data")
    disk.lose_power()
    assert checkpoint.take_clean_shutdown(disk, "/data")
    disk.lose_power()
    assert not checkpoint.take_clean_shutdown(disk, "/data")


def test_partition_metadata_names_the_topic() -> None:
    disk = ForgetfulDisk("/data/t-0")
    topic_id = bytes(range(240, 256))
    assert checkpoint.read_topic_id(disk, "/data/t-0") is None
    disk.write_bytes("/data/t-0/partition.metadata", checkpoint.encode_topic_id(topic_id))
    assert disk.read_bytes("/data/t-0/partition.metadata") == b"version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w"
    assert checkpoint.read_topic_id(disk, "/data/t-0") == topic_id
    disk.write_bytes("/data/t-0/partition.metadata", b"version: 0\ntop")
    assert checkpoint.read_topic_id(disk, "/data/t-0") is None
