"""Opening what others left behind: clean, torn, damaged, incomplete."""

import random

import pytest

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log import files, partition
from fencepost.log.partition import PartitionLog
from tests.unit.log.support import DIRECTORY, SMALL, TOPIC_ID, Fixture, batch, read_all, refused


@pytest.fixture
def small() -> Fixture:
    """Several segments, two producers, one transaction that was aborted and one that is open."""
    home = Fixture(SMALL)
    for number in range(40):
        home.append(b"%d" % number * 30, producer_id=1, producer_epoch=0, base_sequence=number)
    home.append(b"gone", producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    home.log.append_marker(2, 0, False, 0, 1)
    home.append(b"open", producer_id=2, producer_epoch=0, base_sequence=1, transactional=True)
    assert len(home.log.segments.all) >= 3
    return home


def summary(log: PartitionLog) -> object:
    return (
        [record.value for record in read_all(log)],
        log.log_start_offset,
        log.log_end_offset,
        log.last_stable_offset,
        sorted(log.active_producers()),
        log.segments.aborted(0, 10**9),
        log.epochs.entries,
    )


def path(name: str) -> str:
    return f"{DIRECTORY}/{name}"


def test_a_clean_shutdown_leaves_nothing_to_read_again(small: Fixture) -> None:
    before = summary(small.log)
    small.log.close()
    small.recovery_point = small.log.recovery_point
    # Whatever is not needed could as well not be there.
    for segment in small.log.segments.all[:-1]:
        content = small.disk.read_bytes(segment.path(files.LOG))
        small.disk.write_bytes(segment.path(files.LOG), content[:100] + bytes(len(content) - 100))
    log = small.open(clean=True)
    assert log.log_end_offset == small.log.log_end_offset
    assert (log.last_stable_offset, sorted(log.active_producers())) == (before[3], before[4])  # type: ignore[index]


def test_closing_can_be_split_in_a_quick_and_a_slow_part(small: Fixture) -> None:
    before = summary(small.log)
    end_offset = small.log.log_end_offset
    finish = small.log.prepare_close()
    assert finish is not None and small.log.recovery_point < end_offset
    with pytest.raises(KafkaError):
        small.append(b"late")
    finish()
    assert small.log.recovery_point == end_offset
    small.checkpoint()
    small.disk.lose_power()
    small.open(clean=True)
    assert summary(small.log) == before
    assert small.log.prepare_close() is None, "nothing has changed"


def spoil(home: Fixture, kind: str, content: bytes | None) -> None:
    """Replace the content of all files of a kind, or remove them."""
    for name in home.names():
        if name.endswith(kind) and content is None:
            home.disk.unlink(path(name))
        elif name.endswith(kind):
            home.disk.write_bytes(path(name), content)


@pytest.mark.parametrize("content", [None, b"", b"\7" * 51], ids=["missing", "empty", "rubbish"])
@pytest.mark.parametrize("kind", [files.INDEX, files.TIME_INDEX, files.TXN_INDEX, files.SNAPSHOT, files.LEADER_EPOCHS])
def test_what_can_be_made_again_may_be_missing_or_spoiled_after_a_kill(
    small: Fixture, kind: str, content: bytes | None
) -> None:
    before = summary(small.log)
    spoil(small, kind, content)
    small.kill()
    assert summary(small.log) == before


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
@pytest.mark.parametrize("kind", [files.INDEX, files.TIME_INDEX, files.SNAPSHOT, files.LEADER_EPOCHS])
def test_what_can_be_made_again_is_made_again_even_after_a_clean_shutdown(
    small: Fixture, kind: str, content: bytes | None
) -> None:
    before = summary(small.log)
    small.log.close()
    small.checkpoint()
    spoil(small, kind, content)
    small.open(clean=True)
    assert summary(small.log) == before
    if kind in (files.INDEX, files.TIME_INDEX):
        assert "00000000000000000000" + kind in small.names()


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_tail_is_cut_off(small: Fixture, cut: int) -> None:
    end = small.log.log_end_offset
    segment = small.log.segments.all[-1]
    segment.file.truncate(segment.size - cut)
    log = small.kill()
    assert log.log_end_offset in (end - 1, end - 2)
    assert log.segments.all[-1].size == log.segments.all[-1].file.size()
    assert small.append(b"next").base_offset == log.log_end_offset - 1


def test_garbage_after_the_end_is_cut_off(small: Fixture) -> None:
    before = summary(small.log)
    segment = small.log.segments.all[-1]
    segment.file.pwrite(random.Random(1).randbytes(300), segment.size)
    small.kill()
    assert summary(small.log) == before


def test_a_damaged_batch_and_everything_after_it_go(small: Fixture) -> None:
    segment = small.log.segments.all[1]
    found = segment.find(segment.base_offset + 3)
    assert found is not None
    segment.file.pwrite(b"\xff", found[0] + 70)
    log = small.kill()
    assert log.log_end_offset == segment.base_offset + 3
    assert len(log.segments.all) == 2
    assert all(int(name[:20]) <= log.log_end_offset for name in small.names() if name[0] == "0")
    assert {p.producer_id: p.last_sequence for p in log.active_producers()} == {1: log.log_end_offset - 1}


def test_damage_below_the_recovery_point_is_not_looked_for(small: Fixture) -> None:
    small.checkpoint()
    assert small.recovery_point == small.log.segments.all[-1].base_offset
    segment = small.log.segments.all[0]
    segment.file.pwrite(b"\xff", 70)
    assert small.kill().log_end_offset == 43


def test_a_hole_between_segments_ends_the_log(small: Fixture) -> None:
    second = small.log.segments.all[1]
    small.disk.unlink(second.path(files.LOG))
    log = small.kill()
    assert log.log_end_offset == second.base_offset
    assert len(log.segments.all) == 1


def test_damage_after_a_clean_shutdown_is_cut_off_as_well(small: Fixture) -> None:
    small.log.close()
    small.checkpoint()
    segment = small.log.segments.all[-1]
    segment.file.truncate(segment.size - 10)
    log = small.open(clean=True)
    assert log.log_end_offset == 42


def test_a_damaged_snapshot_is_passed_over(small: Fixture) -> None:
    before = summary(small.log)
    small.log.close()
    small.checkpoint()
    for offset in small.log.directory.snapshots:
        content = small.disk.read_bytes(small.log.directory.snapshot_path(offset))
        small.disk.write_bytes(small.log.directory.snapshot_path(offset), content[:-1] + b"\x00")
    small.open(clean=True)
    assert summary(small.log) == before


def test_a_log_start_beyond_the_end_begins_an_empty_log(small: Fixture) -> None:
    small.log_start_offset = 500
    log = small.kill()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes()) == (500, 500, 0)
    assert small.append(b"a").base_offset == 500
    small.kill()
    assert small.log.log_end_offset == 501


def test_a_directory_of_another_topic_with_the_same_name_is_refused(small: Fixture) -> None:
    with refused(ErrorCode.INCONSISTENT_TOPIC_ID):
        PartitionLog.open(
            small.disk, DIRECTORY, "shop", 0, bytes(16), SMALL, small.clock, small.worker, clean_shutdown=True
        )
    assert bytes(16) != TOPIC_ID


def test_leftovers_are_swept_away(small: Fixture) -> None:
    before = summary(small.log)
    strays = [files.name(7, ".log.cleaned"), "x.tmp", files.name(3, ".log.deleted"), files.name(5, ".index")]
    for name in strays:
        small.disk.write_bytes(path(name), b"stray")
    small.kill()
    assert not set(strays) & set(small.names())
    assert summary(small.log) == before


def test_opening_twice_in_a_row_changes_nothing(small: Fixture) -> None:
    before = summary(small.log)
    for _ in range(3):
        small.kill()
        assert summary(small.log) == before
    for _ in range(3):
        small.restart()
        assert summary(small.log) == before


def test_closing_an_untouched_log_writes_nothing(small: Fixture) -> None:
    small.restart()
    changes = small.disk.changes
    small.restart()
    assert small.disk.changes == changes


def test_old_snapshots_do_not_pile_up(small: Fixture) -> None:
    for number in range(5):
        small.append(b"x", producer_id=1, producer_epoch=0, base_sequence=40 + number)
        small.restart()
    bases = {segment.base_offset for segment in small.log.segments.all}
    assert small.log.directory.snapshots - bases == {small.log.log_end_offset}


def test_recovery_begins_within_a_segment_that_was_settled(small: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "SETTLE_BYTES", 100)
    small.maintain()
    small.worker.run()
    settled = small.log.log_end_offset
    assert small.log.recovery_point == settled > small.log.segments.all[-1].base_offset
    small.checkpoint()
    small.append(b"x", producer_id=2, producer_epoch=0, base_sequence=2, transactional=True)
    small.log.append_marker(2, 0, False, 0, 1)
    small.worker.run()
    before = summary(small.log)
    active = small.log.segments.all[-1]
    position = active.find(settled)
    assert position is not None
    # Whatever was settled is not looked at again ...
    active.file.pwrite(b"\xff", 70)
    small.kill()
    assert summary(small.log)[2:] == before[2:]  # type: ignore[index]
    # ... unless what is needed to go on from there is missing.
    active.file.pwrite(batch(b"0" * 30)[70:71], 70)
    small.disk.unlink(small.log.directory.snapshot_path(settled))
    small.kill()
    assert small.log.log_end_offset in (active.base_offset, before[2])  # type: ignore[index]


def test_the_recovery_point_follows_the_synced_segments(small: Fixture) -> None:
    assert small.log.recovery_point == small.log.segments.all[-1].base_offset
    small.log.append(batch(b"y" * 1500))
    small.log.append(batch(b"y" * 1500))
    assert small.log.recovery_point < small.log.segments.all[-1].base_offset, "not before it is synced"
    small.worker.run()
    assert small.log.recovery_point == small.log.segments.all[-1].base_offset
