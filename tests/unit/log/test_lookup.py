"""Offsets by time, and where leader epochs end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.log import lookup
from fencepost.log.config import LogConfig
from fencepost.log.epochs import LeaderEpochs
from fencepost.wire.compression import Compression
from fencepost.wire.terms import Isolation
from tests.unit.log.support import NOW_MS, Fixture

UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED


def test_what_is_not_readable_is_not_found(home: Fixture) -> None:
    home.append(b"a", timestamps=[100])
    home.append(b"b", timestamps=[200], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    home.append(b"c", timestamps=[300], sync=False)
    assert home.log.offset_for_timestamp(150, UNCOMMITTED) == (1, 200, 0)
    assert home.log.offset_for_timestamp(150, COMMITTED) is None
    assert home.log.offset_for_timestamp(250, UNCOMMITTED) is None
    assert home.log.max_timestamp_offset() == (1, 200, 0)
    assert home.log.max_timestamp_offset(COMMITTED) == (0, 100, 0)


def test_append_time_counts_for_the_whole_batch() -> None:
    home = Fixture(LogConfig(message_timestamp_type="LogAppendTime"))
    home.append(b"a", b"b", timestamps=[1, 2])
    assert home.log.offset_for_timestamp(NOW_MS, UNCOMMITTED) == (0, NOW_MS, 0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_lookups_agree_with_looking_at_everything(data: st.DataObject) -> None:
    home = Fixture(LogConfig(segment_bytes=900, index_interval_bytes=data.draw(st.sampled_from([0, 150, 4096]))))
    assert home.log.max_timestamp_offset() is None
    home.log.leader_epoch = epoch = data.draw(st.integers(0, 3))
    timestamps: list[int] = []

    def first_greatest() -> tuple[int, int, int] | None:
        greatest = max(timestamps[start:], default=None)
        return None if greatest is None else (timestamps.index(greatest, start), greatest, epoch)

    for _ in range(data.draw(st.integers(1, 30))):
        times = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=4))
        compression = data.draw(st.sampled_from([Compression.NONE, Compression.LZ4]))
        home.append(*[b"x" * 20] * len(times), timestamps=times, sync=False, compression=compression)
        timestamps += times
    home.worker.run()
    match data.draw(st.integers(0, 2)):
        case 1:
            home.restart()
        case 2:
            home.kill()
    start = data.draw(st.integers(0, len(timestamps)))
    home.log.delete_records(start)
    for wanted in range(62):
        expected = next(((o, t, epoch) for o, t in enumerate(timestamps) if o >= start and t >= wanted), None)
        assert home.log.offset_for_timestamp(wanted, UNCOMMITTED) == expected
    assert home.log.max_timestamp_offset() == first_greatest()
    home.append(b"y", timestamps=[70], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    home.append(b"z", timestamps=[data.draw(st.integers(0, 80))])
    assert home.log.max_timestamp_offset(COMMITTED) == first_greatest()


def test_the_greatest_timestamp_is_not_looked_for_in_a_large_part_of_a_segment(
    home: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "WALK_BATCHES_MAX", 6)
    home.append(b"late", timestamps=[900])
    for n in range(5):
        home.append(b"in order", timestamps=[100 + n])
    home.log.delete_records(1)
    assert home.log.max_timestamp_offset() == (5, 104, 0)
    home.append(b"one too many", timestamps=[50])
    assert home.log.max_timestamp_offset() is None
    home.append(b"later than all", timestamps=[1000])
    assert home.log.max_timestamp_offset() == (7, 1000, 0)


def test_leader_epochs_are_recorded_and_come_back(home: Fixture) -> None:
    assert home.log.end_offset_for_epoch(0) == (-1, -1)
    home.append(b"a", b"b")
    home.log.leader_epoch = 4
    home.append(b"c")
    for restart in (home.restart, home.kill, home.power_failure):
        restart()
        assert home.log.leader_epoch == 4
        assert [home.log.end_offset_for_epoch(epoch) for epoch in (0, 1, 3, 4, 5)] == [
            (0, 2), (0, 2), (0, 2), (4, 3), (-1, -1),
        ]  # fmt: skip
    stored = home.disk.read_bytes("/data/shop-0/leader-epoch-checkpoint")
    assert stored == b"0\n2\n0 0\n4 2\n" and LeaderEpochs.decode(stored).entries == [(0, 0), (4, 2)]
