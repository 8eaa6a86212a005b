"""Markers, the last stable offset, and the aborted ranges that a reader is told."""

import pytest

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.config import LogConfig
from fencepost.wire.terms import Isolation
from tests.unit.log.support import SMALL, Fixture, headers, read_all, refused

COMMITTED = Isolation.READ_COMMITTED


def send(home: Fixture, producer_id: int, sequence: int, epoch: int = 0, value: bytes = b"x", sync: bool = True) -> int:
    producer = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return home.append(value, sync=sync, transactional=True, **producer).base_offset


def end(
    home: Fixture,
    producer_id: int,
    *,
    commit: bool,
    epoch: int = 0,
    coordinator: int = 0,
    version: int = 1,
    sync: bool = True,
) -> int:
    offset = home.log.append_marker(producer_id, epoch, commit, coordinator, version)
    if sync:
        home.worker.run()
    return offset


def refused_marker(home: Fixture, producer_id: int, **options: int) -> ErrorCode:
    before = home.log.log_end_offset
    with pytest.raises(KafkaError) as error:
        end(home, producer_id, commit=True, **options)  # type: ignore[arg-type]
    assert home.log.log_end_offset == before
    return error.value.code


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(home: Fixture) -> None:
    home.append(b"plain")
    send(home, 1, 0)
    send(home, 2, 0)
    assert home.log.last_stable_offset == 1
    end(home, 2, commit=True)
    assert home.log.last_stable_offset == 1
    end(home, 1, commit=True)
    assert home.log.last_stable_offset == home.log.high_watermark == 5
    assert home.log.producers.open_transactions == {}


def test_a_marker_counts_once_it_is_durable(home: Fixture) -> None:
    send(home, 1, 0)
    end(home, 1, commit=True, sync=False)
    assert home.log.last_stable_offset == 0
    home.worker.run()
    assert home.log.last_stable_offset == 2
    assert home.progress[-1] == (2, 2)


def test_without_forced_syncs_a_marker_counts_at_once() -> None:
    home = Fixture(LogConfig(flush_messages=2**63 - 1))
    send(home, 1, 0, sync=False)
    assert (home.log.high_watermark, home.log.last_stable_offset) == (1, 0)
    end(home, 1, commit=False, sync=False)
    assert (home.log.high_watermark, home.log.last_stable_offset) == (2, 2)


def test_readers_get_committed_records_and_the_aborted_ranges(home: Fixture) -> None:
    send(home, 1, 0, value=b"kept")
    send(home, 2, 0, value=b"gone")
    end(home, 2, commit=False)
    end(home, 1, commit=True)
    send(home, 3, 0, value=b"open")
    fetched = home.read(0, 10_000, COMMITTED)
    assert [header.base_offset for header in headers(fetched.records)] == [0, 1, 2, 3]
    assert fetched.aborted is not None
    assert [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in fetched.aborted] == [(2, 1, 2)]
    assert fetched.last_stable_offset == 4 and fetched.high_watermark == 5
    assert [record.value for record in read_all(home.log, COMMITTED)] == [b"kept"]
    assert home.read().aborted is None


def test_aborted_ranges_are_found_when_the_marker_is_segments_away() -> None:
    home = Fixture(SMALL)
    send(home, 1, 0, value=b"gone")
    for number in range(60):
        home.append(b"%d" % number * 30)
    end(home, 1, commit=False)
    assert len(home.log.segments.all) > 3
    fetched = home.read(0, 100, COMMITTED)
    assert fetched.aborted is not None and [txn.first_offset for txn in fetched.aborted] == [0]
    for restart in (home.restart, home.kill, home.power_failure):
        restart()
        assert b"gone" not in [record.value for record in read_all(home.log, COMMITTED)]
    last = home.read(50, 100, COMMITTED)
    assert last.aborted is not None and len(last.aborted) == 1, "the transaction spans this range too"
    assert home.read(62, 100, COMMITTED).aborted == []


def test_many_aborted_transactions_do_not_all_go_to_every_reader() -> None:
    home = Fixture(LogConfig(segment_bytes=50_000, index_interval_bytes=100))
    for number in range(300):
        send(home, 1, number, sync=False)
        end(home, 1, commit=False, sync=False)
    home.worker.run()
    fetched = home.read(200, 200, COMMITTED)
    assert fetched.aborted is not None
    assert 1 <= len(fetched.aborted) < 10 and fetched.aborted[0].first_offset == 200


def test_with_version_1_a_marker_has_the_datas_epoch(home: Fixture) -> None:
    send(home, 1, 0, epoch=3)
    assert refused_marker(home, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    end(home, 1, commit=True, epoch=3)
    end(home, 1, commit=True, epoch=3)
    send(home, 1, 1, epoch=3)
    assert 1 in home.log.producers.open_transactions.values()


def test_with_version_2_a_marker_has_the_next_epoch_and_fences_late_writes(home: Fixture) -> None:
    send(home, 1, 0, epoch=3)
    end(home, 1, commit=True, epoch=4, version=2)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        send(home, 1, 1, epoch=3)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        send(home, 1, 1, epoch=4)
    assert send(home, 1, 0, epoch=4) == 2


def test_a_repeated_marker_of_version_2_passes_while_nothing_is_open(home: Fixture) -> None:
    """A coordinator that restarts repeats its markers; refusing them would leave the transaction unfinished."""
    send(home, 1, 0, epoch=3)
    end(home, 1, commit=True, epoch=4, version=2)
    assert end(home, 1, commit=True, epoch=4, version=2) == 2
    home.kill()
    assert end(home, 1, commit=True, epoch=4, version=2) == 3
    send(home, 1, 0, epoch=4)
    assert refused_marker(home, 1, epoch=4, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert 1 in home.log.producers.open_transactions.values(), (
        "the next transaction was not ended by the last one's marker"
    )
    end(home, 1, commit=True, epoch=5, version=2)


def test_a_marker_of_an_older_coordinator_is_refused(home: Fixture) -> None:
    send(home, 1, 0)
    end(home, 1, commit=True, coordinator=5)
    assert refused_marker(home, 1, coordinator=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    home.kill()
    assert refused_marker(home, 1, coordinator=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_for_a_producer_that_never_wrote_here_changes_nothing_for_readers(home: Fixture) -> None:
    end(home, 1, commit=False)
    fetched = home.read(0, 1000, COMMITTED)
    assert fetched.aborted == [] and fetched.last_stable_offset == 1


def test_retention_does_not_wait_for_a_hanging_transaction() -> None:
    home = Fixture(SMALL)
    send(home, 1, 0)
    for _ in range(30):
        home.append(b"x" * 100)
    home.log.delete_records(20)
    assert home.log.last_stable_offset == home.log.log_start_offset == 20
    home.maintain()
    home.worker.run()
    home.kill()
    assert home.log.producers.open_transactions == {0: 1}
    assert home.log.last_stable_offset == home.log.log_start_offset
