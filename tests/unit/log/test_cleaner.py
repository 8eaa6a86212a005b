"""Compaction as a reader sees it, and crashes at every step of a run."""

import asyncio
import copy
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.clock import SystemClock
from fencepost.log import cleaner
from fencepost.log.config import LogConfig
from fencepost.log.disk import SystemDisk
from fencepost.log.flush import ThreadWorker
from fencepost.log.partition import PartitionLog
from fencepost.log.reading import INLINE_BYTES
from fencepost.log.slices import FileSlice
from fencepost.wire.batch import DELETE_HORIZON_FLAG
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, decode_batch
from fencepost.wire.terms import Isolation
from tests.fakes.forgetful_disk import PowerLost
from tests.unit.log.support import NOW_MS, Fixture, batch, headers, read_all

COMPACTED = LogConfig(
    segment_bytes=1200,
    index_interval_bytes=150,
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)
#: How many outcomes of a crash are looked at when files were being renamed: any of them may have its old name.
WRECKS = 8
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def compacted() -> Fixture:
    return Fixture(COMPACTED)


def write(home: Fixture, *pairs: tuple[bytes, bytes | None], **options: object) -> int:
    keys, values = zip(*pairs, strict=True)
    return home.append(*values, keys=keys, **options).base_offset  # type: ignore[arg-type]


def close_segment(home: Fixture) -> None:
    """What was written so far can be compacted."""
    home.log.roll()
    write(home, (b"filler", b"x"))


def clean(home: Fixture) -> None:
    outcome: list[BaseException | None] = []
    if cleaner.clean(home.log, outcome.append):
        home.worker.run()
        assert outcome == [None]


def stored(home: Fixture) -> dict[int, Record]:
    return {
        record.offset: record
        for header, data in home.log.replay(0)
        if not header.is_control
        for record in decode_batch(data, header)
    }


def state(home: Fixture) -> dict[bytes, bytes]:
    """What a reader that keeps the newest value of every key ends up with."""
    found: dict[bytes, bytes] = {}
    for record in read_all(home.log, Isolation.READ_COMMITTED):
        assert record.key is not None
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


def test_the_active_segment_is_not_touched(compacted: Fixture) -> None:
    write(compacted, (b"a", b"1"))
    write(compacted, (b"a", b"2"))
    assert not cleaner.clean(compacted.log)
    assert len(stored(compacted)) == 2


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_are_thinned_out(compacted: Fixture, compression: Compression) -> None:
    write(compacted, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), compression=compression)
    write(compacted, (b"b", b"2"))
    close_segment(compacted)
    clean(compacted)
    records = stored(compacted)
    assert [(offset, records[offset].key) for offset in (0, 2, 3)] == [(0, b"a"), (2, b"c"), (3, b"b")]
    assert 1 not in records and records[0].timestamp == NOW_MS
    first = next(iter(compacted.log.replay(0)))[0]
    assert first.compression == compression and first.last_offset_delta == 2 and first.record_count == 2


def test_a_tombstone_stays_for_delete_retention_ms_after_it_was_first_met(compacted: Fixture) -> None:
    write(compacted, (b"a", b"1"))
    tombstone = write(compacted, (b"a", None))
    close_segment(compacted)
    clean(compacted)
    assert 0 not in stored(compacted) and tombstone in stored(compacted)
    header = next(header for header, _ in compacted.log.replay(tombstone))
    assert header.attributes & DELETE_HORIZON_FLAG and header.base_timestamp == NOW_MS + 1000
    assert stored(compacted)[tombstone].timestamp == NOW_MS

    compacted.clock.advance(999)
    close_segment(compacted)
    clean(compacted)
    assert tombstone in stored(compacted)

    compacted.clock.advance(1)
    close_segment(compacted)
    clean(compacted)
    assert tombstone not in stored(compacted)


def test_aborted_records_go_and_neither_hide_nor_show(compacted: Fixture) -> None:
    write(compacted, (b"a", b"committed"))
    write(compacted, (b"a", b"aborted"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    compacted.log.append_marker(1, 0, False, 0, 1)
    close_segment(compacted)
    clean(compacted)
    assert [record.value for record in stored(compacted).values()] == [b"committed", b"x"]
    assert state(compacted)[b"a"] == b"committed"


def test_a_marker_goes_only_after_its_data_and_its_time(compacted: Fixture) -> None:
    producer = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    write(compacted, (b"a", b"1"), base_sequence=0, **producer)
    marker = compacted.log.append_marker(1, 0, True, 0, 1)
    write(compacted, (b"b", b"1"), base_sequence=1, **producer)
    compacted.log.append_marker(1, 0, True, 0, 1)

    def markers() -> list[int]:
        return [header.base_offset for header, _ in compacted.log.replay(0) if header.is_control]

    close_segment(compacted)
    clean(compacted)
    assert marker in markers(), "its data is still there"
    write(compacted, (b"a", b"2"))
    close_segment(compacted)
    clean(compacted)
    assert marker in markers(), "its data went only now"
    close_segment(compacted)
    clean(compacted)
    assert marker in markers(), "its time runs from the first run that found no data"
    compacted.clock.advance(1000)
    close_segment(compacted)
    clean(compacted)
    assert marker not in markers()


def test_a_producers_last_batch_stays_as_an_empty_one(compacted: Fixture) -> None:
    write(compacted, (b"a", b"1"), producer_id=7, producer_epoch=3, base_sequence=41)
    write(compacted, (b"a", b"2"))
    close_segment(compacted)
    clean(compacted)
    compacted.recovery_point = 0
    for offset in list(compacted.log.directory.snapshots):
        compacted.disk.unlink(compacted.log.directory.snapshot_path(offset))
    log = compacted.kill()
    assert 0 not in stored(compacted)
    assert [(p.producer_id, p.epoch, p.last_sequence) for p in log.active_producers()] == [(7, 3, 41)]
    again = log.append(batch(b"1", keys=[b"a"], producer_id=7, producer_epoch=3, base_sequence=41))
    assert again.duplicate and again.base_offset == 0


def test_open_transactions_hold_compaction_back(compacted: Fixture) -> None:
    write(compacted, (b"a", b"1"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    write(compacted, (b"a", b"2"))
    close_segment(compacted)
    assert not cleaner.clean(compacted.log)


def test_min_compaction_lag_holds_young_segments_back(compacted: Fixture) -> None:
    compacted.configure(min_compaction_lag_ms=5000)
    write(compacted, (b"a", b"1"))
    write(compacted, (b"a", b"2"))
    close_segment(compacted)
    assert not cleaner.clean(compacted.log)
    compacted.clock.advance(5001)
    clean(compacted)
    assert 0 not in stored(compacted)


def test_max_compaction_lag_makes_a_quiet_log_due(compacted: Fixture) -> None:
    compacted.configure(min_cleanable_dirty_ratio=1.1, max_compaction_lag_ms=DAY_MS)
    write(compacted, (b"a", b"1"))
    write(compacted, (b"a", b"2"))
    compacted.maintain()
    compacted.worker.run()
    assert 0 in stored(compacted)
    compacted.clock.advance(DAY_MS + 1)
    for _ in range(3):
        compacted.maintain()
        compacted.worker.run()
    assert 0 not in stored(compacted)


def test_a_full_map_compacts_what_it_covers_and_goes_on_later(compacted: Fixture) -> None:
    compacted.configure(log_cleaner_dedupe_buffer_size=160 * 3)
    for number in range(12):
        write(compacted, (b"key%d" % (number % 6), b"%d" % number))
    close_segment(compacted)
    expected = state(compacted)
    for _ in range(10):
        clean(compacted)
        assert state(compacted) == expected
    assert len(stored(compacted)) == len(expected)


def superseded(home: Fixture, **options: object) -> None:
    """Segments of which compaction leaves next to nothing."""
    for number in range(60):
        write(home, (b"key%d" % (number % 3), b"%d" % number), **options)
    close_segment(home)
    assert len(home.log.segments.all) > 4


def batches(home: Fixture) -> list[tuple[int, int]]:
    """Base offset and record count of every batch on disk, empty ones included."""
    return [(header.base_offset, header.record_count) for header, _ in home.log.segments.batches_from(0)]


def test_segments_of_which_little_is_left_become_one_in_the_same_run(compacted: Fixture) -> None:
    superseded(compacted)
    clean(compacted)
    assert len(compacted.log.segments.all) == 2
    assert {record.value for record in stored(compacted).values()} == {b"57", b"58", b"59", b"x"}
    assert batches(compacted) == [(57, 1), (58, 1), (59, 1), (60, 1)]
    assert len([name for name in compacted.names() if name.endswith(".log")]) == 2


def test_files_do_not_grow_with_the_history_of_a_log(compacted: Fixture) -> None:
    counts = set()
    for _ in range(6):
        superseded(compacted)
        clean(compacted)
        counts.add((len(compacted.log.segments.all), len(compacted.names())))
    assert len(counts) <= 2 and max(counts)[0] <= 3, counts


def test_merged_segments_stay_below_segment_bytes_and_are_at_least_half_full(compacted: Fixture) -> None:
    for number in range(200):
        write(compacted, (b"key%d" % (number * 7 % 50), b"%d" % number * 5))
    close_segment(compacted)
    clean(compacted)
    sizes = [segment.size for segment in compacted.log.segments.all[:-1]]
    assert max(sizes) <= COMPACTED.segment_bytes
    assert all(one + next_one > COMPACTED.segment_bytes for one, next_one in itertools.pairwise(sizes)), sizes


def test_aborted_transactions_are_still_known_after_a_merge(compacted: Fixture) -> None:
    producer = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    for sequence in range(30):
        write(compacted, (b"a", b"aborted" * 50), base_sequence=sequence, **producer)
        compacted.log.append_marker(1, 0, False, 0, 1)
    close_segment(compacted)
    aborted, segments = compacted.log.segments.aborted(0, 10**9), len(compacted.log.segments.all)
    assert len(aborted) == 30 and segments > 3
    clean(compacted)
    assert len(compacted.log.segments.all) < segments
    assert compacted.log.segments.aborted(0, 10**9) == aborted


def test_a_read_passes_over_batches_that_compaction_emptied(compacted: Fixture) -> None:
    write(compacted, (b"last of its producer", b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
    write(compacted, (b"last of its producer", b"2"))
    for part in range(2):
        for number in range(10):
            write(compacted, (b"%d %d" % (part, number), b"x"))
        write(compacted, (b"last of its segment", b"%d" % part))
        close_segment(compacted)
    clean(compacted)
    emptied = [offset for offset, count in batches(compacted) if count == 0]
    assert len(emptied) == 2, "a producer's last batch, and one that shows where a segment ends"
    for offset in range(compacted.log.high_watermark):
        fetched = compacted.read(offset, 300)
        assert headers(fetched.records)[0].record_count, offset


def test_a_reader_that_may_see_nothing_but_emptied_batches_gets_them(compacted: Fixture) -> None:
    write(compacted, (b"a", b"1"), (b"a", b"2"))
    write(compacted, (b"a", b"3"), producer_id=7, producer_epoch=0, base_sequence=0)
    close_segment(compacted)
    write(compacted, (b"a", b"4"))
    close_segment(compacted)
    write(compacted, (b"b", b"open"), producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    clean(compacted)
    compacted.log.roll()
    end = compacted.log.last_stable_offset
    offset = 0
    while offset < end:
        fetched = compacted.read(offset, 300, Isolation.READ_COMMITTED)
        offset = headers(fetched.records)[-1].last_offset + 1
    assert offset == end


def test_a_slow_reader_gets_what_it_was_promised_while_segments_are_merged(compacted: Fixture) -> None:
    compacted.configure(segment_bytes=3 * INLINE_BYTES)
    for number in range(12):
        write(compacted, (b"a", b"%d" % number * INLINE_BYTES))
    close_segment(compacted)
    slow = compacted.read(0, 2 * INLINE_BYTES).records
    expected = bytes(slow)
    clean(compacted)
    compacted.log.release_idle()
    assert isinstance(slow, FileSlice) and bytes(slow) == expected


def test_closing_cancels_a_run_and_leaves_the_log_whole(compacted: Fixture) -> None:
    write(compacted, (b"a", b"1"))
    write(compacted, (b"a", b"2"))
    close_segment(compacted)
    expected = state(compacted)
    assert cleaner.clean(compacted.log)
    compacted.log.close()
    compacted.worker.run()
    compacted.open(clean=True)
    assert state(compacted) == expected
    assert not [name for name in compacted.names() if name.endswith((".cleaned", ".swap"))]


def random_history(home: Fixture, rng: random.Random, steps: int) -> None:
    sequences = {state.producer_id: state.last_sequence + 1 for state in home.log.active_producers()}
    open_transactions: set[int] = set()
    for _ in range(steps):
        pairs = [
            (b"key%d" % rng.randrange(8), None if rng.random() < 0.2 else rng.randbytes(rng.randrange(40)))
            for _ in range(rng.randint(1, 4))
        ]
        producer_id = rng.choice((-1, 1, 2, 3))
        compression = rng.choice(list(Compression))
        if producer_id < 0:
            write(home, *pairs, compression=compression)
        elif producer_id in open_transactions and rng.random() < 0.5:
            home.log.append_marker(producer_id, 0, rng.random() < 0.5, 0, 1)
            open_transactions.discard(producer_id)
        else:
            sequence = sequences.get(producer_id, 0)
            sequences[producer_id] = sequence + len(pairs)
            write(
                home, *pairs, compression=compression, producer_id=producer_id, producer_epoch=0,
                base_sequence=sequence, transactional=True,
            )  # fmt: skip
            open_transactions.add(producer_id)
    for producer_id in sorted(open_transactions):
        home.log.append_marker(producer_id, 0, rng.random() < 0.5, 0, 1)
    close_segment(home)


def check(home: Fixture, expected: dict[bytes, bytes], original: dict[int, Record]) -> None:
    assert state(home) == expected
    for offset, record in stored(home).items():
        assert original.get(offset, record) == record, "a record changed or moved"


@pytest.mark.parametrize("seed", range(12))
def test_a_reader_ends_up_with_the_same_state_whenever_it_is_compacted(seed: int) -> None:
    rng = random.Random(seed)
    home = Fixture(COMPACTED)
    for _ in range(3):
        random_history(home, rng, 30)
        expected, original = state(home), stored(home)
        producers = sorted(home.log.active_producers())
        clean(home)
        check(home, expected, original)
        home.clock.advance(rng.choice((0, 500, 1000)))
        home.recovery_point = 0
        for offset in rng.sample(sorted(home.log.directory.snapshots), k=len(home.log.directory.snapshots) // 2):
            home.disk.unlink(home.log.directory.snapshot_path(offset))
        home.kill()
        check(home, expected, original)
        found = sorted(home.log.active_producers())
        assert [p._replace(coordinator_epoch=0, last_timestamp=0) for p in found] == [
            p._replace(coordinator_epoch=0, last_timestamp=0) for p in producers
        ]


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_step_of_a_run_does_no_harm(seed: int) -> None:
    def prepared() -> Fixture:
        home = Fixture(COMPACTED)
        random_history(home, random.Random(seed), 25)
        home.checkpoint()
        return home

    home = prepared()
    expected, original = state(home), stored(home)
    before = home.disk.changes
    clean(home)
    check(home, expected, original)
    changes = home.disk.changes - before
    assert changes > 20
    for step in range(changes):
        home = prepared()
        recovery_point = home.recovery_point
        home.disk.die_after(step)
        cleaner.clean(home.log)
        try:
            home.worker.run()
        except PowerLost:
            pass
        wreck = home.disk
        wreck.turn_on()
        renaming = any(name.endswith(".swap") for name in home.names())
        for part in range(WRECKS if renaming else 1):
            home.disk = copy.deepcopy(wreck)
            home.recovery_point = recovery_point if part % 2 else 0
            home.power_failure(random.Random(step * WRECKS + part))
            check(home, expected, original)
            clean(home)
            check(home, expected, original)
            assert not [name for name in home.names() if name.endswith((".cleaned", ".swap"))]


def test_writing_reading_and_compacting_at_once(tmp_path: Path) -> None:
    """On threads and files of this machine."""
    expected: dict[bytes, bytes] = {}
    runs: list[BaseException | None] = []

    def latest(log: PartitionLog) -> dict[bytes, bytes]:
        return {record.key: record.value for record in read_all(log, max_bytes=100_000) if record.key and record.value}

    async def scenario() -> None:
        worker = ThreadWorker(asyncio.get_running_loop(), executor)
        config = LogConfig(segment_bytes=20_000, index_interval_bytes=500, cleanup_policy=("compact",))
        disk, clock, directory = SystemDisk(), SystemClock(), str(tmp_path / "shop-0")
        log = PartitionLog.open(disk, directory, "shop", 0, bytes(16), config, clock, worker, clean_shutdown=True)
        rng = random.Random(1)
        waiting = None
        idle = asyncio.Event()

        def finished(error: BaseException | None) -> None:
            runs.append(error)
            idle.set()

        for number in range(3000):
            key, value = b"key%d" % rng.randrange(50), b"%d" % number * 10
            expected[key] = value
            offset = log.append(batch(value, keys=[key], timestamps=[NOW_MS])).last_offset
            waiting = log.when_durable(offset)
            if number % 20 == 0:
                if waiting is not None:
                    await asyncio.wait_for(waiting, 20)
                assert log.high_watermark > offset
                if log.cleaning is None and cleaner.clean(log, finished):
                    idle.clear()
                found = log.read(log.log_start_offset, 50_000, Isolation.READ_COMMITTED, at_least_one_batch=True)
                assert bytes(found.records)
            if number % 500 == 0:
                log.release_idle()
        if waiting is not None:
            await waiting
        await asyncio.wait_for(idle.wait(), 60)
        assert latest(log) == expected
        log.close()
        for clean in (True, False):
            log = PartitionLog.open(disk, directory, "shop", 0, bytes(16), config, clock, worker, clean_shutdown=clean)
            assert log.high_watermark == 3000 and latest(log) == expected
            log.close()
        log = PartitionLog.open(disk, directory, "shop", 0, bytes(16), config, clock, worker, clean_shutdown=True)
        assert not [name for name in disk.listdir(directory) if name.endswith((".swap", ".cleaned"))]
        log.delete()
        assert not disk.exists(directory)

    with ThreadPoolExecutor(2) as executor:
        asyncio.run(scenario())
    assert len(runs) > 2 and set(runs) == {None}
