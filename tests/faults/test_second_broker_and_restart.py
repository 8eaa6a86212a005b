"""One broker per directory; files that a crash left torn, lost or spoiled are put right at the next start."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.errors import ErrorCode
from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.faults.conftest import MakeBroker
from tests.faults.observe import settled
from tests.faults.seeds import chosen_seed, replayable

# -- one broker per directory -----------------------------------------------------------------------------------------


def test_a_second_broker_on_the_same_directory_is_refused(make_broker: MakeBroker) -> None:
    first = make_broker().start()
    second = make_broker(directory=first.directory)
    second.launch()
    assert second.wait_until_dead() not in {0, -9, -15}
    assert str(first.directory) in second.log
    assert "another broker" in second.log
    with first.client() as client:
        client.create_topic("still-alive")
        client.write("still-alive", 0, ["a"])
    first.kill()
    second.start()
    with second.client() as client:
        assert client.read("still-alive", 0).values == ["a"]


# -- torn, lost and spoiled files -------------------------------------------------------------------------------------

SETTINGS = {
    "internal.segment.bytes": "20000",
    "log.index.interval.bytes": "300",
    "log.flush.offset.checkpoint.interval.ms": "100",
}


def torn(directory: Path) -> None:
    """Rubbish after the end of every log, the coordinators' too, and files that are nobody's."""
    for partition in {path.parent for path in directory.glob("*-*/*.log")}:
        with max(partition.glob("*.log")).open("ab") as file:
            file.write(random.Random(2).randbytes(300))
    (directory / "lost+found").mkdir()
    (directory / "README").write_text("what is this doing here")
    (directory / "no-such-topic-0").mkdir()
    (directory / "torn-0" / "core.1234").write_bytes(b"\0" * 100)


def all_that_can_be_made_again(directory: Path) -> list[Path]:
    patterns = ("*/*.index", "*/*.timeindex", "*/*.snapshot", "*/leader-epoch-checkpoint", "*-checkpoint")
    return [path for pattern in patterns for path in directory.glob(pattern)]


def gone(directory: Path) -> None:
    for path in all_that_can_be_made_again(directory):
        path.unlink()


def rubbish(directory: Path) -> None:
    for path in all_that_can_be_made_again(directory):
        path.write_bytes(random.Random(3).randbytes(path.stat().st_size + 69))


@pytest.mark.parametrize("damage", [torn, gone, rubbish], ids=lambda damage: damage.__name__)
def test_files_that_a_kill_left_damaged_cost_no_whole_batch(
    make_broker: MakeBroker, damage: Callable[[Path], None]
) -> None:
    """`tests/unit/log/test_recovery.py` damages one kind of file at a time."""
    broker = make_broker(SETTINGS).start()
    where, source = ("torn", 0), ("source", 0)
    with broker.client() as client:
        client.create_topic("torn")
        client.create_topic("source")
        session, booked = client.init_producer(), client.init_producer("tx")
        for number in range(60):
            client.append(booked, *where, [f"t:{number}:" + "x" * 600])
            client.append(session, *where, [f"i:{number}:" + "y" * 200, f"j:{number}"], version=9)
            assert client.commit_offsets_in_transaction(booked, "g", {source: number}) is ErrorCode.NONE
            assert client.end(booked, commit=number % 3 != 0) is ErrorCode.NONE
        batch = session.batch(*where, ["last"])
        offset = client.produce(*where, batch).base_offset
        seen = [client.read(*where, isolation).values for isolation in Isolation]
    assert len(list((broker.directory / "torn-0").glob("*.log"))) >= 3
    checkpoint = broker.directory / "recovery-point-offset-checkpoint"
    wait_until(lambda: checkpoint.exists() and "torn 0" in checkpoint.read_text(), "recovery points are written")
    broker.kill()
    damage(broker.directory)
    broker.start()
    with broker.client() as client:
        settled(client, [where])
        assert [client.read(*where, isolation).values for isolation in Isolation] == seen
        assert client.committed("g", [source]) == {source: 59}
        repeated = client.produce(*where, batch)
        assert (repeated.error, repeated.base_offset) == (ErrorCode.NONE, offset)
        for number in range(6):  # into the next segment
            client.append(session, *where, [f"u:{number}:" + "z" * 4000], version=9)
            assert client.end(booked, commit=False) is ErrorCode.NONE
        assert client.read(*where).values[-1] == "u:5:" + "z" * 4000


def test_a_broker_killed_while_it_starts_starts_the_next_time(make_broker: MakeBroker) -> None:
    broker = make_broker(SETTINGS).start()
    with broker.client() as client:
        client.create_topic("orders")
        session = client.init_producer("t")
        for number in range(200):
            client.append(session, "orders", 0, [f"{number}:" + "x" * 500])
            client.end(session, commit=number % 4 != 0)
        expected = client.read("orders", 0).values
    with replayable(chosen_seed()) as rng:
        for _ in range(6):
            broker.kill()
            broker.launch()
            time.sleep(rng.uniform(0, 0.4))
        broker.kill()
        broker.start()
        with broker.client() as client:
            assert client.read("orders", 0).values == expected
