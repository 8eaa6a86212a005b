"""Old segments go by age, size and log start; the rest of the log does not notice."""

import random

import pytest

from fencepost.errors import ErrorCode
from fencepost.log.config import LogConfig
from tests.unit.log.support import NOW_MS, Fixture, batch, read_all, refused

SECOND_MS = 1000


@pytest.fixture
def home() -> Fixture:
    """Five segments of two batches, a second apart, and an active one."""
    home = Fixture(LogConfig(segment_bytes=400, retention_ms=-1))
    for number in range(11):
        home.append(b"x" * 100, timestamps=[NOW_MS + number * SECOND_MS])
    assert [segment.base_offset for segment in home.log.segments.all] == [0, 2, 4, 6, 8, 10]
    return home


def maintained(home: Fixture) -> list[int]:
    home.maintain()
    home.worker.run()
    return [segment.base_offset for segment in home.log.segments.all]


def test_nothing_goes_without_a_limit(home: Fixture) -> None:
    assert len(maintained(home)) == 6


def test_segments_go_when_their_newest_record_is_too_old(home: Fixture) -> None:
    home.configure(retention_ms=10 * SECOND_MS)
    home.clock.advance(13 * SECOND_MS)
    assert maintained(home) == [2, 4, 6, 8, 10]
    home.clock.advance(1)
    assert maintained(home) == [4, 6, 8, 10]
    assert home.log.log_start_offset == 4
    assert not [name for name in home.names() if name[:20] in ("0" * 20, "0" * 19 + "2")]
    assert [record.offset for record in read_all(home.log)] == list(range(4, 11))


def test_even_the_active_segment_goes_when_all_of_it_is_too_old(home: Fixture) -> None:
    home.configure(retention_ms=SECOND_MS)
    home.clock.advance(100 * SECOND_MS)
    maintained(home)
    assert maintained(home) == [11]
    assert (home.log.log_start_offset, home.log.log_end_offset) == (11, 11)
    assert home.append(b"next").base_offset == 11
    home.power_failure()
    assert (home.log.log_start_offset, home.log.log_end_offset) == (11, 12)


def test_segments_without_times_go_by_the_files() -> None:
    home = Fixture(LogConfig(segment_bytes=400, retention_ms=10 * SECOND_MS))
    for _ in range(6):
        home.append(b"x" * 100, timestamps=[-1])
        home.clock.advance(SECOND_MS)
    assert maintained(home) == [0, 2, 4]
    home.clock.advance(6 * SECOND_MS)
    assert maintained(home) == [2, 4]


def test_the_size_limit_is_kept_from_below(home: Fixture) -> None:
    size = home.log.size_bytes()
    segment_size = home.log.segments.all[0].size
    home.configure(retention_bytes=size - 2 * segment_size + 1)
    assert maintained(home)[0] == 2
    home.configure(retention_bytes=0)
    assert maintained(home) == [10]


def test_deleted_records_are_gone_for_readers_at_once_and_for_the_disk_later(home: Fixture) -> None:
    assert home.log.delete_records(5) == 5
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        home.read(4, 1000)
    assert [record.offset for record in read_all(home.log)] == list(range(5, 11))
    assert maintained(home) == [4, 6, 8, 10]
    home.log_start_offset = 5
    assert home.kill().log_start_offset == 5
    assert home.log.delete_records(3) == 5, "the start never moves back"


def test_records_beyond_the_high_watermark_cannot_be_deleted(home: Fixture) -> None:
    home.append(b"x", sync=False)
    for offset in (12, -2):
        with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
            home.log.delete_records(offset)
    assert home.log.delete_records(-1) == 11


def test_what_is_not_synced_does_not_go() -> None:
    home = Fixture(LogConfig(segment_bytes=400, retention_bytes=0))
    for _ in range(7):
        home.append(b"x" * 100, sync=False)
    home.maintain()
    assert len(home.log.segments.all) == 4
    home.worker.run()
    assert maintained(home) == [6]


def test_compacted_topics_keep_what_is_old(home: Fixture) -> None:
    home.configure(cleanup_policy=("compact",), retention_ms=1, retention_bytes=1, min_cleanable_dirty_ratio=1)
    home.clock.advance(SECOND_MS)
    assert len(maintained(home)) == 6
    home.log.delete_records(7)
    assert maintained(home) == [6, 8, 10]


def test_producers_are_remembered_when_their_records_are_gone(home: Fixture) -> None:
    producer = {"producer_id": 5, "producer_epoch": 0}
    home.append(b"x", base_sequence=0, **producer)
    for _ in range(5):
        home.append(b"x" * 100)
    home.configure(retention_bytes=0)
    assert maintained(home)[0] > 12
    home.power_failure()
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        home.log.append(batch(b"x", base_sequence=2, **producer))


def test_leader_epochs_follow_the_logs_start(home: Fixture) -> None:
    home.log.leader_epoch = 3
    home.append(b"x")
    home.log.delete_records(8)
    assert home.log.epochs.entries == [(0, 8), (3, 11)]
    home.log.delete_records(12)
    assert home.log.epochs.entries == [(3, 12)]


def test_a_segment_without_times_is_rolled_by_the_clock() -> None:
    home = Fixture(LogConfig(segment_ms=SECOND_MS))
    home.append(b"x", timestamps=[-1])
    assert maintained(home) == [0]
    home.clock.advance(SECOND_MS + 1)
    assert maintained(home) == [0, 1]
    assert maintained(home) == [0, 1]


@pytest.mark.parametrize("step", range(0, 36, 3))
def test_power_failure_at_any_step_of_a_removal_leaves_no_hole(step: int) -> None:
    home = Fixture(LogConfig(segment_bytes=400))
    for number in range(11):
        home.append(b"x" * 100, producer_id=1, producer_epoch=0, base_sequence=number)
    home.configure(retention_bytes=0)
    home.maintain()
    home.disk.die_after(step)
    home.worker.run()
    log = home.power_failure(random.Random(step))
    assert [record.offset for record in read_all(log)] == list(range(log.log_start_offset, 11))
    assert [state.last_sequence for state in log.active_producers()] == [10]
