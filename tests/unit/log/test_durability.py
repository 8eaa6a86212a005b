"""What is promised when: group commit, a disk that is full, a disk that fails."""

import pytest

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.config import LogConfig
from fencepost.wire.terms import Isolation
from tests.unit.log.support import SMALL, Fixture, batch, refused, values

FOREVER = 2**63 - 1


def everything(home: Fixture) -> list[bytes | None]:
    return values(home.read(0, 10**6))


def storage_error(home: Fixture, value: bytes = b"x") -> None:
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        home.log.append(batch(value))


def test_an_append_is_durable_after_a_sync_that_began_later(home: Fixture) -> None:
    first = home.log.append(batch(b"a"))
    waiting = home.log.when_durable(first.last_offset)
    assert waiting is not None and not waiting.done()
    home.worker.turn()
    second = home.log.append(batch(b"b"))
    too_late = home.log.when_durable(second.last_offset)
    home.worker.work()
    assert waiting.done() and home.log.high_watermark == 1
    assert too_late is not None and not too_late.done()
    home.worker.run()
    assert too_late.done() and home.log.high_watermark == 2
    assert home.log.when_durable(second.last_offset) is None


def test_appends_that_wait_share_one_sync(home: Fixture) -> None:
    home.append(b"first")
    before = home.disk.syncs
    for number in range(50):
        home.append(b"%d" % number, sync=False)
        home.log.when_durable(home.log.log_end_offset - 1)
    home.worker.run()
    assert home.disk.syncs == before + 1


def test_waiters_do_not_share_their_fate_when_one_is_cancelled(home: Fixture) -> None:
    offset = home.log.append(batch(b"a")).last_offset
    one, other = home.log.when_durable(offset), home.log.when_durable(offset)
    assert one is not None and other is not None
    one.cancel()
    home.worker.run()
    assert other.done() and other.exception() is None


def test_progress_is_told_when_the_high_watermark_moves(home: Fixture) -> None:
    home.append(b"a", sync=False)
    assert home.progress == []
    home.worker.run()
    assert home.progress == [(1, 1)]


def test_power_failure_takes_exactly_what_was_not_synced(home: Fixture) -> None:
    home.append(b"kept")
    home.append(b"lost", sync=False)
    home.power_failure()
    assert everything(home) == [b"kept"]
    assert home.append(b"next").base_offset == 1


def test_without_forced_syncs_everything_is_readable_at_once() -> None:
    home = Fixture(LogConfig(flush_messages=FOREVER))
    home.append(b"a", sync=False)
    assert home.log.when_durable(0) is None
    assert everything(home) == [b"a"] and home.progress == [(1, 1)]


def test_without_forced_syncs_a_segment_is_synced_when_it_is_full() -> None:
    home = Fixture(LogConfig(flush_messages=FOREVER, segment_bytes=500))
    for _ in range(4):
        home.append(b"x" * 100)
    assert home.log.recovery_point == home.log.segments.all[-1].base_offset > 0
    home.power_failure()
    assert home.log.log_end_offset >= home.recovery_point


def test_flush_messages_and_flush_ms_sync_in_the_background() -> None:
    home = Fixture(LogConfig(flush_messages=3, flush_ms=1000))
    home.append(b"first")
    syncs = home.disk.syncs
    home.append(b"a")
    home.append(b"b")
    assert home.disk.syncs == syncs
    home.append(b"c")
    assert home.disk.syncs == syncs + 1
    home.append(b"d")
    home.clock.advance(1000)
    home.worker.run()
    assert home.disk.syncs == syncs + 2
    home.power_failure()
    assert everything(home) == [b"first", b"a", b"b", b"c", b"d"]


def test_a_full_disk_refuses_appends_serves_reads_and_recovers(home: Fixture) -> None:
    home.append(b"kept")
    size = home.log.size_bytes()
    home.disk.capacity_bytes = home.disk.used_bytes() + 20
    for _ in range(3):
        storage_error(home, b"x" * 100)
    assert home.log.size_bytes() == size and not home.log.failed
    assert everything(home) == [b"kept"]
    with pytest.raises(KafkaError):
        home.log.append_marker(1, 0, True, 0, 1)
    assert home.log.active_producers() == []
    home.disk.capacity_bytes = None
    assert home.append(b"after").base_offset == 1
    home.power_failure()
    assert everything(home) == [b"kept", b"after"]


def test_a_full_disk_at_the_first_append_leaves_nothing_behind(home: Fixture) -> None:
    home.disk.capacity_bytes = 0
    storage_error(home)
    home.disk.capacity_bytes = None
    home.append(b"a")
    assert everything(home) == [b"a"]


def test_a_full_disk_when_a_segment_is_full_keeps_the_log_usable() -> None:
    home = Fixture(SMALL)
    while home.log.size_bytes() < 1800:
        home.append(b"x" * 100)
    count = home.log.log_end_offset
    home.disk.capacity_bytes = home.disk.used_bytes()
    storage_error(home, b"y" * 500)
    assert len(home.log.segments.all) == 1
    home.disk.capacity_bytes = None
    home.append(b"y" * 500)
    assert len(home.log.segments.all) == 2 and home.log.log_end_offset == count + 1
    home.kill()
    assert home.log.log_end_offset == count + 1


def test_a_duplicate_is_still_recognised_after_a_refused_write(home: Fixture) -> None:
    producer = {"producer_id": 1, "producer_epoch": 0}
    home.append(b"a", base_sequence=0, **producer)
    home.disk.capacity_bytes = 0
    with pytest.raises(KafkaError):
        home.log.append(batch(b"b", base_sequence=1, **producer))
    home.disk.capacity_bytes = None
    assert home.append(b"a", base_sequence=0, **producer).duplicate
    assert home.append(b"b", base_sequence=1, **producer).base_offset == 1


def test_a_write_that_cannot_be_undone_makes_the_log_read_only(home: Fixture) -> None:
    home.append(b"kept")
    home.disk.fail_writes = True
    storage_error(home)
    assert home.log.failed
    home.disk.fail_writes = False
    storage_error(home)
    assert everything(home) == [b"kept"]
    home.kill()
    home.append(b"after")
    assert everything(home) == [b"kept", b"after"]


def test_a_failed_sync_fails_those_who_wait_and_ends_writing(home: Fixture) -> None:
    home.append(b"kept")
    offset = home.log.append(batch(b"lost")).last_offset
    waiting = home.log.when_durable(offset)
    home.disk.fail_syncs = True
    home.worker.run()
    assert waiting is not None
    error = waiting.exception()
    assert isinstance(error, KafkaError) and error.code == ErrorCode.KAFKA_STORAGE_ERROR
    home.disk.fail_syncs = False
    storage_error(home)
    later = home.log.when_durable(offset)
    assert later is not None and later.exception() is not None
    assert everything(home) == [b"kept"] and home.log.high_watermark == 1
    assert home.log.failed
    home.maintain()
    home.log.close()


def test_what_is_not_synced_stays_open_and_a_file_that_cannot_be_opened_is_a_failure(home: Fixture) -> None:
    home.append(b"a")
    home.append(b"b", sync=False)
    home.log.release_idle()
    home.disk.unlink(home.log.segments.all[0].path(".log"))
    home.worker.run()
    assert home.log.high_watermark == 2 and not home.log.failed
    home.log.release_idle()
    home.log._commit.request()
    home.worker.run()
    assert home.log.failed


def test_a_disk_that_cannot_be_read_is_an_error_for_the_reader_alone(home: Fixture) -> None:
    home.append(b"a")
    home.disk.fail_reads = True
    for look in (
        lambda: everything(home),
        lambda: home.log.offset_for_timestamp(0, Isolation.READ_UNCOMMITTED),
        home.log.max_timestamp_offset,
    ):
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            look()
    assert home.append(b"b").base_offset == 1
    home.disk.fail_reads = False
    assert everything(home) == [b"a", b"b"]


def test_small_files_that_find_no_room_are_written_later(home: Fixture) -> None:
    home.append(b"a", sync=False)
    home.disk.capacity_bytes = home.disk.used_bytes()
    home.worker.run()
    assert not home.log.failed and home.log.high_watermark == 1
    assert "leader-epoch-checkpoint" not in home.names()
    home.disk.capacity_bytes = None
    home.append(b"b")
    assert {"leader-epoch-checkpoint", "partition.metadata"} <= set(home.names())
