"""What enters the log, what is refused with which code, and that a refusal changes nothing."""

import struct
from collections.abc import Callable

import pytest

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.config import LogConfig
from fencepost.log.origin import Origin
from fencepost.wire import batch as wire
from fencepost.wire.batch import ATTRIBUTES_OFFSET, CRC_OFFSET, checksum, read_header
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, decode_batch, encode_batch
from fencepost.wire.terms import Isolation
from tests.unit.log.support import DIRECTORY, NOW_MS, Fixture, batch, headers, values

HOUR_MS = 60 * 60 * 1000


def resealed(encoded: bytearray) -> bytearray:
    """With a CRC that fits what the test did to it."""
    struct.pack_into(">I", encoded, CRC_OFFSET, checksum(encoded))
    return encoded


def patched(position: int, layout: str, value: int) -> bytearray:
    encoded = batch(b"a", b"b")
    struct.pack_into(layout, encoded, position, value)
    return resealed(encoded)


def refused(home: Fixture, encoded: bytearray, origin: Origin = Origin.CLIENT) -> ErrorCode:
    before = (home.log.log_end_offset, home.log.size_bytes(), home.log.active_producers())
    with pytest.raises(KafkaError) as error:
        home.log.append(encoded, origin)
    assert (home.log.log_end_offset, home.log.size_bytes(), home.log.active_producers()) == before
    return error.value.code


def test_offsets_are_assigned_in_order_and_written_into_the_batch(home: Fixture) -> None:
    home.log.leader_epoch = 5
    first = home.append(b"a", b"b")
    second = home.append(b"c")
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
    stored = headers(home.read().records)
    assert [(header.base_offset, header.leader_epoch) for header in stored] == [(0, 5), (2, 5)]


def test_bytes_are_stored_as_they_came(home: Fixture) -> None:
    encoded = batch(b"a", b"b", compression=Compression.ZSTD)
    sent = bytes(encoded)
    home.log.append(memoryview(encoded))
    home.worker.run()
    records = bytes(home.read().records)
    assert records[16:] == sent[16:]


def test_a_log_that_was_never_written_has_no_directory(home: Fixture) -> None:
    assert not home.disk.exists(DIRECTORY)
    assert home.read(0, 100, Isolation.READ_COMMITTED).records == b""
    assert list(home.log.replay()) == [] and home.log.size_bytes() == 0
    assert home.log.offset_for_timestamp(0, Isolation.READ_UNCOMMITTED) is None
    home.maintain()
    home.restart()
    assert not home.disk.exists(DIRECTORY)
    home.append(b"a")
    assert home.names() == ["00000000000000000000.log", "leader-epoch-checkpoint", "partition.metadata"]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: bytearray(10), ErrorCode.INVALID_RECORD),
        (lambda: batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (lambda: batch(b"a") + b"x", ErrorCode.INVALID_RECORD),
        (lambda: patched(wire.MAGIC_OFFSET, ">b", 1), ErrorCode.INVALID_RECORD),
        (lambda: patched(wire.MAGIC_OFFSET, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
        (lambda: batch(b"a")[:CRC_OFFSET] + bytes(4) + batch(b"a")[21:], ErrorCode.CORRUPT_MESSAGE),
        (lambda: patched(0, ">q", 7), ErrorCode.INVALID_RECORD),
        (lambda: patched(57, ">i", 3), ErrorCode.INVALID_RECORD),
        (lambda: patched(57, ">i", 0), ErrorCode.INVALID_RECORD),
        (lambda: patched(57, ">i", -1), ErrorCode.INVALID_RECORD),
        (lambda: patched(23, ">i", 5), ErrorCode.INVALID_RECORD),
        (lambda: patched(ATTRIBUTES_OFFSET, ">h", wire.CONTROL_FLAG), ErrorCode.INVALID_RECORD),
        (lambda: patched(ATTRIBUTES_OFFSET, ">h", wire.TRANSACTIONAL_FLAG), ErrorCode.INVALID_RECORD),
        (lambda: patched(ATTRIBUTES_OFFSET, ">h", 7), ErrorCode.INVALID_RECORD),
        (lambda: patched(ATTRIBUTES_OFFSET, ">h", Compression.GZIP), ErrorCode.INVALID_RECORD),
        (lambda: patched(ATTRIBUTES_OFFSET, ">h", wire.APPEND_TIME_FLAG), ErrorCode.INVALID_TIMESTAMP),
        (lambda: batch(b"a", producer_id=3, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (lambda: batch(b"a", producer_id=3, producer_epoch=-1, base_sequence=0), ErrorCode.INVALID_RECORD),
        (lambda: batch(b"a", timestamps=[NOW_MS + HOUR_MS + 1]), ErrorCode.INVALID_TIMESTAMP),
        (lambda: batch(bytes(2 * 1024 * 1024)), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_bad_batches_are_refused(home: Fixture, make: Callable[[], bytearray], code: ErrorCode) -> None:
    assert refused(home, make()) == code


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("count", [1, 3, 2**31 - 1], ids=["fewer", "more", "gigantic: refused without walking"])
def test_a_record_count_that_lies_is_refused(home: Fixture, compression: Compression, count: int) -> None:
    encoded = batch(b"a", b"b", compression=compression)
    struct.pack_into(">i", encoded, 23, count - 1)
    struct.pack_into(">i", encoded, 57, count)
    assert refused(home, resealed(encoded)) == ErrorCode.INVALID_RECORD


def test_records_that_are_announced_but_missing_are_refused(home: Fixture) -> None:
    for length in range(8):
        encoded = wire.pack_batch(
            bytes(length), record_count=1, last_offset_delta=0, base_timestamp=NOW_MS, max_timestamp=NOW_MS
        )
        assert refused(home, encoded) == ErrorCode.INVALID_RECORD


def test_compacted_topics_take_no_record_without_a_key() -> None:
    home = Fixture(LogConfig(cleanup_policy=("compact",)))
    assert refused(home, batch(b"a", b"b", keys=[b"k", None])) == ErrorCode.INVALID_RECORD
    assert home.append(b"a", keys=[b"k"]).base_offset == 0


def test_timestamps_too_far_in_the_past_are_refused_record_by_record() -> None:
    home = Fixture(LogConfig(message_timestamp_before_max_ms=1000))
    assert refused(home, batch(b"a", b"b", timestamps=[NOW_MS, NOW_MS - 1001])) == ErrorCode.INVALID_TIMESTAMP
    home.append(b"a", b"b", timestamps=[NOW_MS, NOW_MS - 1000])
    home.append(b"a", timestamps=[-1])


def test_append_time_replaces_the_producers_times() -> None:
    home = Fixture(LogConfig(message_timestamp_type="LogAppendTime"))
    appended = home.append(b"a", b"b", timestamps=[NOW_MS + 10 * HOUR_MS, 5])
    assert appended.append_time_ms == NOW_MS
    data = bytes(home.read().records)
    header = read_header(data)
    assert header.uses_append_time and header.crc == checksum(data)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS + 10 * HOUR_MS, NOW_MS)
    assert [record.timestamp for record in decode_batch(data)] == [NOW_MS, NOW_MS]


def test_a_topics_own_compression_is_applied() -> None:
    home = Fixture(LogConfig(compression_type="zstd"))
    home.append(b"a" * 100, b"b", producer_id=4, producer_epoch=1, base_sequence=0)
    home.append(b"c", compression=Compression.GZIP)
    fetched = home.read()
    assert [header.compression for header in headers(fetched.records)] == [Compression.ZSTD, Compression.ZSTD]
    assert values(fetched) == [b"a" * 100, b"b", b"c"]
    assert headers(fetched.records)[0].producer_id == 4


def test_coordinators_may_write_what_clients_may_not(home: Fixture) -> None:
    """Offsets of a transaction: a transactional batch without sequences."""
    encoded = encode_batch([Record(b"k", b"v", NOW_MS)], producer_id=9, producer_epoch=0, transactional=True)
    assert home.log.append(encoded, Origin.COORDINATOR).base_offset == 0
    assert home.log.append(bytearray(encoded), Origin.COORDINATOR).base_offset == 1
    assert 9 in home.log.producers.open_transactions.values()
    older = encode_batch([Record(b"k", b"v", NOW_MS)], producer_id=9, producer_epoch=1, transactional=True)
    home.log.append(older, Origin.COORDINATOR)
    assert refused(home, encoded, Origin.COORDINATOR) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_batch_that_fits_no_segment_is_refused() -> None:
    home = Fixture(LogConfig(segment_bytes=100))
    assert refused(home, batch(bytes(200))) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_segments_roll_by_size_time_and_index() -> None:
    home = Fixture(LogConfig(segment_bytes=300, segment_ms=1000))
    home.append(b"x" * 100)
    home.append(b"x" * 100)
    assert len(home.log.segments.all) == 2
    home.append(b"x", timestamps=[NOW_MS + 1000])
    assert len(home.log.segments.all) == 2
    home.append(b"x", timestamps=[NOW_MS + 1001])
    assert [segment.base_offset for segment in home.log.segments.all] == [0, 1, 3]
    home.configure(segment_bytes=10**6, segment_ms=10**9, segment_index_bytes=12, index_interval_bytes=0)
    for _ in range(6):
        home.append(b"x")
    assert len(home.log.segments.all) > 4


def test_settings_change_while_the_log_is_in_use(home: Fixture) -> None:
    home.append(b"x" * 500)
    home.configure(max_message_bytes=100)
    assert refused(home, batch(b"x" * 500)) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_deleted_log_refuses_everything_and_is_out_of_the_way(home: Fixture) -> None:
    home.append(b"a")
    waiting = home.log.append(batch(b"b"))
    future = home.log.when_durable(waiting.last_offset)
    home.log.delete()
    assert future is not None and isinstance(future.exception(), KafkaError)
    assert refused(home, batch(b"c")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not home.disk.exists(DIRECTORY)
    home.disk.lose_power()
    assert not home.disk.exists(DIRECTORY)
    home.open(clean=False)
    assert home.append(b"new").base_offset == 0
