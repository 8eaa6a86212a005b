"""A full or broken disk: writes are refused and logged, reads go on, nothing acknowledged is lost."""

import contextlib
import copy
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.raw import Session
from fencepost.errors import ErrorCode
from tests.conftest import wait_until
from tests.faults.conftest import MakeBroker
from tests.faults.disks import UnreliableDisk
from tests.faults.inprocess import BrokerThread
from tests.faults.observe import settled
from tests.faults.raw import Kafka

#: The broker's work is cut off in the middle, as by a kill.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR
#: A coordinator's answers when it cannot write. Clients look for it again and repeat the request.
COORDINATOR_TROUBLE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    REFUSED,
}
SOURCE = ("source", 0)


@pytest.fixture
def disk(tmp_path: Path) -> UnreliableDisk:
    return UnreliableDisk(str(tmp_path))


@pytest.fixture
def broker(tmp_path: Path, disk: UnreliableDisk) -> Iterator[BrokerThread]:
    broker = BrokerThread(tmp_path, disk, {"internal.segment.bytes": "30000"})
    yield broker
    broker.crash()


@contextlib.contextmanager
def full(disk: UnreliableDisk, room: int = 0) -> Iterator[None]:
    """No more than `room` bytes are left, until the end of the block."""
    disk.capacity_bytes = disk.used_bytes() + room
    try:
        yield
    finally:
        disk.capacity_bytes = None


@contextlib.contextmanager
def broken(disk: UnreliableDisk) -> Iterator[None]:
    disk.fail_writes = True
    try:
        yield
    finally:
        disk.fail_writes = False


def restarted(broker: BrokerThread, tmp_path: Path, disk: UnreliableDisk) -> BrokerThread:
    broker.stop()
    return BrokerThread(tmp_path, disk, {"internal.segment.bytes": "30000"})


@pytest.mark.parametrize("trouble", [full, broken])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_on_a_full_disk_is_whole(
    broker: BrokerThread, disk: UnreliableDisk, tmp_path: Path, trouble: object, commit: bool
) -> None:
    with broker.client() as client:
        client.create_topic("t", 2)
        client.create_topic("source")
        session = client.init_producer("tx")
        client.append(session, "t", 0, ["a"])
        with trouble(disk):  # type: ignore[operator]
            joining = session.batch("t", 1, ["b"])
            code = client.produce("t", 1, joining, transactional_id="tx", version=12).error
            assert code in COORDINATOR_TROUBLE
            assert client.commit_offsets_in_transaction(session, "g", {SOURCE: 3}) in COORDINATOR_TROUBLE
            assert client.end(session, commit=commit) in COORDINATOR_TROUBLE
            assert client.read("t", 0).values == []
    if trouble is broken:  # what could not even be undone is read-only until the next start
        broker = restarted(broker, tmp_path, disk)
    with broker.client() as client:
        wait_until(
            lambda: client.produce("t", 1, joining, transactional_id="tx", version=12).error is ErrorCode.NONE,
            "the partition joins",
        )
        wait_until(
            lambda: client.commit_offsets_in_transaction(session, "g", {SOURCE: 3}) is ErrorCode.NONE, "offsets join"
        )
        wait_until(lambda: client.end(session, commit=commit) is ErrorCode.NONE, "the transaction ends")
        check_whole(client, commit=commit)
    with restarted(broker, tmp_path, disk) as again, again.client() as client:
        check_whole(client, commit=commit)


def check_whole(client: Kafka, *, commit: bool) -> None:
    settled(client, [("t", 0), ("t", 1)])
    assert client.read("t", 0).values == (["a"] if commit else [])
    assert client.read("t", 1).values == (["b"] if commit else [])
    assert client.committed("g", [SOURCE]) == {SOURCE: 3 if commit else -1}


def test_markers_that_a_full_disk_refused_are_written_later(broker: BrokerThread, disk: UnreliableDisk) -> None:
    """The disk is full after the outcome was logged. The transaction stays in PREPARE only until there is room."""
    with broker.client() as client:
        client.create_topic("t", 8)
        session = client.init_producer("tx")
        for partition in range(8):
            client.append(session, "t", partition, [f"v:{partition}"])
        seen = set()
        for room in range(0, 2000, 40):
            before = Session(session.producer_id, session.epoch, "tx")
            with full(disk, room):
                seen.add(client.end(session, commit=True))
            if session.epoch != before.epoch:
                break
            wait_until(lambda: client.transactions()["tx"] in {"Ongoing", "CompleteCommit"}, "it goes on by itself")
        else:
            raise AssertionError("the transaction never ended")
        assert seen > {ErrorCode.NONE}, "it was never refused"
        settled(client, [("t", partition) for partition in range(8)])
        for partition in range(8):
            assert client.read("t", partition).values == [f"v:{partition}"]


# -- a disk that does not sync ----------------------------------------------------------------------------------------


def test_a_failed_sync_is_never_taken_for_done(
    broker: BrokerThread, disk: UnreliableDisk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel may drop the pages and let the next sync succeed. So the partition takes no writes until a restart."""
    with broker.client() as client:
        client.create_topic("t", 2)
        session = client.init_producer()
        client.append(session, "t", 0, ["synced"], version=9)
        client.write("t", 1, ["synced"])
        batch = session.batch("t", 0, ["not synced"])
        disk.fail_syncs = True
        with caplog.at_level(logging.ERROR):
            assert client.produce("t", 0, batch).error is REFUSED
        assert any("read-only" in record.getMessage() for record in caplog.records)
        assert client.read("t", 0).values == ["synced"]
        assert client.produce("t", 0, batch).error is REFUSED
        disk.fail_syncs = False
        assert client.produce("t", 0, batch).error is REFUSED
        assert client.read("t", 0).values == ["synced"]
        client.write("t", 1, ["the other partition is well"])
    disk.turn_off()
    broker.crash()
    survivor = copy.deepcopy(disk)
    survivor.lose_power()
    with BrokerThread(tmp_path, survivor) as again, again.client() as client:
        assert client.read("t", 0).values == ["synced"]
        assert client.read("t", 1).values == ["synced", "the other partition is well"]
        assert client.produce("t", 0, batch).error is ErrorCode.NONE
        assert client.read("t", 0).values == ["synced", "not synced"]


def test_a_transaction_whose_sync_fails_is_whole_after_the_restart(
    broker: BrokerThread, disk: UnreliableDisk, tmp_path: Path
) -> None:
    with broker.client() as client:
        client.create_topic("t", 2)
        client.create_topic("source")
        session = client.init_producer("tx")
        client.append(session, "t", 0, ["a"])
        client.append(session, "t", 1, ["b"])
        assert client.commit_offsets_in_transaction(session, "g", {SOURCE: 3}) is ErrorCode.NONE
        disk.fail_syncs = True
        assert client.end(session, commit=True) is not ErrorCode.NONE
        assert client.read("t", 0).values == []
    disk.turn_off()
    broker.crash()
    for keeps_all in (False, True):
        survivor = copy.deepcopy(disk)
        survivor.fail_syncs = False
        if keeps_all:
            survivor.turn_on()
        else:
            survivor.lose_power()
        with BrokerThread(tmp_path, survivor) as again, again.client() as client:
            mine = Session(session.producer_id, session.epoch, "tx")
            wait_until(
                lambda mine=mine, client=client: client.end(mine, commit=True) is ErrorCode.NONE,
                "the transaction ends",
            )
            check_whole(client, commit=True)


# -- a real one -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_mount(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes, if the test may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_file_system_that_is_really_full(make_broker: MakeBroker, small_mount: Path) -> None:
    ballast = small_mount / "ballast"
    ballast.write_bytes(bytes(2 * 1024 * 1024))
    broker = make_broker(directory=small_mount / "data").start()
    with broker.client() as client:
        client.create_topic("t")
        session = client.init_producer()
        written = 0
        while True:
            batch = session.batch("t", 0, [f"{written}:" + "x" * 100_000])
            code = client.produce("t", 0, batch).error
            if code is not ErrorCode.NONE:
                break
            written += 1
        assert code is REFUSED
        assert "No space left on device" in broker.log
        expected = [f"{number}:" + "x" * 100_000 for number in range(written)]
        assert client.read("t", 0).values == expected
        assert client.produce("t", 0, batch).error is REFUSED
        ballast.unlink()
        assert client.produce("t", 0, batch).error is ErrorCode.NONE
        expected.append(f"{written}:" + "x" * 100_000)
    broker.restart(kill=True)
    with broker.client() as client:
        assert client.read("t", 0).values == expected


def test_a_broker_that_was_killed_on_a_full_disk_starts_on_it(make_broker: MakeBroker, small_mount: Path) -> None:
    """It starts as soon as there is a little room, and nothing is lost."""
    broker = make_broker(directory=small_mount / "data").start()
    with broker.client() as client:
        client.create_topic("t")
        client.write("t", 0, ["kept"])
        with contextlib.suppress(OSError), (small_mount / "ballast").open("wb") as ballast:
            while True:
                ballast.write(bytes(4096))
                ballast.flush()
        assert client.produce("t", 0, Session(-1, -1).batch("t", 0, ["x" * 100_000], sequence=-1)).error is REFUSED
    broker.kill()
    os.truncate(small_mount / "ballast", 1024 * 1024)
    broker.start()
    with broker.client() as client:
        assert client.read("t", 0).values == ["kept"]
        client.write("t", 0, ["more"])
