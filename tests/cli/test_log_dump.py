"""`fencepost log dump`: segments, indexes, snapshots and checkpoints; and files that are damaged."""

import json
import struct
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fencepost.cli.main import main
from fencepost.lab.kit.servers import Ours
from fencepost.log import snapshot
from fencepost.log.producers import Producer, Producers
from fencepost.wire.records import Record, encode_batch
from tests.cli.shell import Shell
from tests.commands import command
from tests.conftest import WAIT_TIMEOUT_S, unique, wait_until


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["log", "dump", *map(str, words)])


def dumped(*words: object, code: int = 0) -> list[dict]:
    done = run("--json", *words)
    assert done.exit_code == code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Two batches of two records, at offsets 10 and 12."""
    path = tmp_path / "shop-0" / "00000000000000000010.log"
    path.parent.mkdir()
    batches = [encode_batch([Record(b"k", b"v", 5), Record(None, None, 6)], base_offset=base) for base in (10, 12)]
    path.write_bytes(b"".join(batches))
    return path


def test_the_files_of_a_running_broker_are_read(shell: Shell, broker: Ours, topic) -> None:
    name, group = topic(), unique("group")
    now_ms = int(time.time() * 1000)
    shell.write(name, [(b"\xff", None, [("h", b"1")], now_ms)])
    with shell.transaction() as producer:
        producer.produce(name, b"undone")
        producer.flush()
        producer.abort_transaction(WAIT_TIMEOUT_S)
    shell.run("consume", name, "-g", group, "--commit", "-e")
    shell.run("produce", name, "--transactional-id", group, stdin=b"x\n")
    (log,) = (broker.directory / f"{name}-0").glob("*.log")
    plain, undone, marker, *_ = dumped("--records", log)
    assert plain["valid"] and not plain["transactional"]
    assert plain["records"] == [
        {"offset": 0, "timestamp": now_ms, "key": {"base64": "/w=="}, "value": None, "headers": [["h", "1"]]}
    ]
    assert undone["transactional"] and undone["records"][0]["value"] == "undone"
    assert (marker["marker"], marker["producer_id"]) == ("abort", undone["producer_id"])
    (aborted,) = dumped(log.with_suffix(".txnindex"))
    assert (aborted["first_offset"], aborted["last_offset"], aborted["last_stable_offset"]) == (1, 2, 3)
    assert dumped(log.parent / "leader-epoch-checkpoint")[0]["epoch"] == 0
    assert "topic_id" in dumped(log.parent / "partition.metadata")[0]

    def states() -> list[str]:
        found = dumped("--records", *broker.directory.glob("__transaction_state-*/*.log"))
        records = [record["decoded"] for batch in found for record in batch.get("records", ())]
        return [record["state"] for record in records if record["transactional_id"] == group]

    wait_until(lambda: states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"], "the commit is complete")
    found = dumped("--records", *broker.directory.glob("__consumer_offsets-*/*.log"))
    commits = [record["decoded"] for batch in found for record in batch.get("records", ())]
    assert [each["offset"] for each in commits if each["group"] == group and "offset" in each] == [3]


def test_lines_for_people(segment: Path) -> None:
    done = run("-r", segment)
    first, key, *_ = done.stdout.splitlines()
    assert first.startswith("10-11, 2 records, 1970-01-01T00:00:00.006+00:00, at 0, 77 bytes")
    assert json.loads(key)["key"] == "k"


def test_damage_is_told_and_what_is_readable_is_shown(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    segment.write_bytes(data[:-3])
    good, cut = dumped(segment, code=4)
    assert good["valid"] and "74 are left" in cut["problem"]
    segment.write_bytes(data[: 77 + 20])
    assert "the file ends within the header of a batch, 20 of 61 bytes" in dumped(segment, code=4)[-1]["problem"]
    data[70] ^= 1
    segment.write_bytes(data)
    wrong, good = dumped(segment, code=4)
    assert (wrong["valid"], wrong["problem"], good["valid"]) == (False, "its checksum is wrong", True)
    segment.write_bytes(data[77:] + bytes(100))
    assert "100 zeros" in dumped(segment, code=4)[-1]["problem"]


def test_indexes_are_checked_against_the_log_and_end_at_reserved_space(segment: Path) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(struct.pack(">iiii", 3, 77, 0, 0))
    assert [(each["offset"], each["position"]) for each in dumped(index)] == [(13, 77)]
    index.write_bytes(struct.pack(">ii", 3, 76))
    assert dumped(index, code=4)[0]["problem"] == "no batch begins at its position"
    times = segment.with_suffix(".timeindex")
    times.write_bytes(struct.pack(">qi", 6, 1) + bytes(12))
    assert [(each["timestamp"], each["offset"]) for each in dumped(times)] == [(6, 11)]


def test_producers_of_a_snapshot(tmp_path: Path) -> None:
    producers, producer = Producers(), Producer(3)
    producer.add_batch(0, 4, 20, 24, 99)
    producer.txn_first_offset = 20
    producers.restore(7, producer)
    path = tmp_path / "00000000000000000025.snapshot"
    path.write_bytes(snapshot.encode(producers))
    (found,) = dumped(path)
    assert (found["producer_id"], found["epoch"], found["txn_first_offset"], found["last_offset"]) == (7, 3, 20, 24)
    path.write_bytes(b"garbage that is long enough")
    assert "has version" in run(path).stderr


def test_a_pipelines_ledger_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "fencepost.ledger-3" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(encode_batch([Record(b"shop", b'{"version": 2, "batch": 7}', 5)]))
    ((batch,)) = dumped("-r", path)
    assert batch["records"][0]["decoded"] == {"pipeline": "shop", "entry": {"version": 2, "batch": 7}}


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    done = run(path)
    assert done.exit_code == 2 and "is none of .log" in done.stderr


def test_garbage_in_small_files_is_damage(tmp_path: Path) -> None:
    for name in ("partition.metadata", "leader-epoch-checkpoint", "00000000000000000000.txnindex"):
        (tmp_path / name).write_bytes(b"\xd0\xff" * 5)
        done = run(tmp_path / name)
        assert done.exit_code == 4 and done.stderr.count("\n") == 1, name


def test_an_index_that_is_cut_off_shows_its_whole_entries(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 7, 1, 2, 3) + b"cut")
    done = run(path, "--json")
    assert done.exit_code == 4
    assert [json.loads(line)["producer_id"] for line in done.stdout.splitlines()] == [7]
    assert done.stderr == f"Error: {path}: it ends within an entry, after 3 of 34 bytes\n"


def test_a_reader_that_goes_away_is_no_error(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes() * 2000)
    dumping = subprocess.Popen(command("log", "dump", segment), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with dumping as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0
