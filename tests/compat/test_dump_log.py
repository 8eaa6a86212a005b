"""kafka-dump-log and Kafka's formatters read the files that the broker wrote."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.harness import brokers
from fencepost.cli.main import main
from fencepost.lab.kit.servers import SHORT_CYCLES, Node
from tests.compat.tools import Tool
from tests.conftest import wait_until

SEGMENT_BYTES = 1024 * 1024


class Files:
    """What the broker left in its directory after a clean stop, and the names that were used."""

    def __init__(self, server: Node, tool: Tool, topic: str, transactional_id: str, group: str) -> None:
        self.directory, self.tool = server.directory, tool
        self.topic, self.transactional_id, self.group = topic, transactional_id, group

    def of(self, suffix: str, topic: str | None = None) -> list[Path]:
        """Files of that kind which are not empty, oldest first."""
        found = sorted(self.directory.glob(f"{topic or self.topic}-*/*{suffix}"))
        return [path for path in found if path.stat().st_size]

    def dump(self, paths: list[Path], *more: str) -> str:
        return self.tool("dump-log", "--files", ",".join(map(str, paths)), *more)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, kind: str, pytestconfig: pytest.Config) -> Iterator[Files]:
    if pytestconfig.getoption("--bootstrap"):
        pytest.skip("needs the broker's files")
    server = brokers.make(kind, tmp_path_factory.mktemp("dump"), SHORT_CYCLES)
    server.start()
    try:
        tool = Tool(server.bootstrap)
        made = Files(server, tool, "dumped", "dump-transactions", "dump-group")
        write(server, tool, made)
        server.stop()
        yield made
    finally:
        server.kill()


def write(server: Node, tool: Tool, made: Files) -> None:
    """Several segments: plain and compressed records, a committed and an aborted transaction, offsets inside one."""
    size = f"segment.bytes={SEGMENT_BYTES}"
    tool("topics", "--create", "--topic", made.topic, "--partitions", "1", "--config", size)
    where = {"bootstrap.servers": server.bootstrap}
    noise = random.Random(0)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        plain = Producer({**where, "compression.type": codec, "batch.size": 20_000, "enable.idempotence": True})
        for index in range(400):
            plain.produce(made.topic, noise.randbytes(1500) + bytes(1500), key=f"k{index}", headers={"h": "1"})
        assert plain.flush(30) == 0
    consumer = Consumer({**where, "group.id": made.group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([made.topic])
    wait_until(lambda: consumer.poll(0.5), "the group reads", 60)
    transactional = Producer({**where, "transactional.id": made.transactional_id})
    transactional.init_transactions(30)
    for outcome in ("commit", "abort", "commit"):
        transactional.begin_transaction()
        for index in range(3):
            transactional.produce(made.topic, f"{outcome}{index}")
        assert transactional.flush(30) == 0
        offsets = [TopicPartition(made.topic, 0, 7)]
        transactional.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        getattr(transactional, f"{outcome}_transaction")(30)
    consumer.commit(offsets=[TopicPartition(made.topic, 0, 9, "with a note")], asynchronous=False)
    consumer.close()


def batches(printed: str) -> list[dict[str, str]]:
    return [dict(re.findall(r"(\w+): (\S+)", line)) for line in printed.splitlines() if line.startswith("baseOffset: ")]


def payloads(printed: str) -> list[dict[str, Any]]:
    """The records of an internal topic as the decoders print them: a key and a payload, each JSON."""
    found = re.findall(r"key: (\{.*?\}) payload: (\{.*\}|<DELETE>|null)", printed)
    return [
        {"key": json.loads(key), "value": json.loads(value) if value.startswith("{") else None} for key, value in found
    ]


def test_every_batch_of_every_segment_is_valid_and_offsets_follow_each_other(files):
    paths = files.of(".log")
    assert len(paths) > 2, "the log was rolled"
    found = batches(files.dump(paths, "--deep-iteration"))
    assert all(batch["isvalid"] == "true" for batch in found)
    assert {batch["compresscodec"] for batch in found} == {"none", "gzip", "snappy", "lz4", "zstd"}
    expected = 0
    for batch in found:
        assert int(batch["baseOffset"]) == expected
        expected = int(batch["lastOffset"]) + 1
    assert expected == 5 * 400 + 3 * 3 + 3
    assert {batch["partitionLeaderEpoch"] for batch in found} <= {"0", "1"}


def test_records_and_markers_are_printed(files):
    printed = files.dump(files.of(".log")[-1:], "--print-data-log")
    assert "payload: commit2" in printed
    markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: \d+", printed)
    assert markers == ["COMMIT", "ABORT", "COMMIT"]
    controls = [batch for batch in batches(printed) if batch["isControl"] == "true"]
    assert all(batch["isTransactional"] == "true" and batch["baseSequence"] == "-1" for batch in controls)


def test_indexes_agree_with_the_log(files):
    for suffix in (".index", ".timeindex"):
        closed = [path for path in files.of(suffix) if path != files.of(suffix)[-1]]
        assert closed, f"rolled segments have {suffix} files"
        printed = files.dump(closed)
        entries = re.findall(r"(?m)^(?:offset: \d+ position|timestamp: \d+ offset): \d+$", printed)
        assert len(entries) >= len(closed)
        for word in ("Mismatch", "Error", "not found", "corrupt", "out of order"):
            assert word not in printed, printed[-2000:]
        assert printed.count("Dumping") == len(closed)
        checked = files.dump(closed, "--index-sanity-check")
        assert checked.count("passed sanity check.") == len(closed), checked


def test_the_aborted_transaction_is_in_the_transaction_index(files):
    printed = files.dump(files.of(".txnindex"))
    (entry,) = re.findall(
        r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", printed
    )
    first, last, stable = (int(word) for word in entry[1:])
    assert (first, last) == (2004, 2007)
    assert stable == 2008


def test_producer_state_is_in_the_snapshot(files):
    (newest,) = files.of(".snapshot")[-1:]
    printed = files.dump([newest])
    producers = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+)", printed
    )
    assert len(producers) == 6, printed
    assert all(first in {"None", "OptionalLong.empty"} for *_, first in producers), printed
    assert re.search(
        r"lastTimestamp: \d+ firstSequence: \d+ lastSequence: \d+ lastOffset: \d+ offsetDelta: \d+ timestamp: \d+",
        printed,
    )


def test_the_transaction_topic_is_decoded(files):
    printed = files.dump(files.of(".log", "__transaction_state"), "--transaction-log-decoder")
    mine = [entry for entry in payloads(printed) if files.transactional_id in json.dumps(entry["key"])]
    assert mine, printed[-2000:]
    states = [entry["value"]["data"]["transactionStatus"] for entry in mine if entry["value"]]
    # Empty 0, Ongoing 1, PrepareCommit 2, PrepareAbort 3, CompleteCommit 4, CompleteAbort 5
    in_order = [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state]
    assert in_order == [0, 1, 2, 4, 1, 3, 5, 1, 2, 4]
    ongoing = next(entry["value"]["data"] for entry in mine if entry["value"]["data"]["transactionStatus"] == 2)
    topics = {each["topic"] for each in ongoing["transactionPartitions"]}
    assert topics == {files.topic, "__consumer_offsets"}


def test_the_offsets_topic_is_decoded(files):
    printed = files.dump(files.of(".log", "__consumer_offsets"), "--offsets-decoder")
    entries = [entry for entry in payloads(printed) if entry["key"]["data"].get("group") == files.group]
    commits = [entry["value"] for entry in entries if "topic" in entry["key"]["data"] and entry["value"]]
    assert [commit["data"]["offset"] for commit in commits] == [7, 7, 7, 9]
    assert commits[-1]["data"]["metadata"].startswith("with a note")
    groups = [entry["value"] for entry in entries if "topic" not in entry["key"]["data"] and entry["value"]]
    assert any(group["data"]["members"] for group in groups)
    assert groups[-1]["data"]["members"] == [], "the member left"
    assert re.findall(r"endTxnMarker: (\w+)", printed) == ["COMMIT", "ABORT", "COMMIT"]


def test_checkpoints_and_partition_metadata_have_kafkas_format(files):
    partition = files.directory / f"{files.topic}-0"
    assert re.fullmatch(r"version: 0\ntopic_id: [A-Za-z0-9_-]{22}\n?", (partition / "partition.metadata").read_text())
    assert re.fullmatch(r"0\n\d+\n(\d+ \d+\n)+", (partition / "leader-epoch-checkpoint").read_text())
    checkpoint = (files.directory / "recovery-point-offset-checkpoint").read_text()
    version, count, *lines = checkpoint.splitlines()
    assert version == "0" and int(count) == len(lines)
    (recovery_point,) = [int(line.split()[2]) for line in lines if line.startswith(f"{files.topic} 0 ")]
    assert 0 < recovery_point <= 5 * 400 + 3 * 3 + 3


def ours(paths: list[Path], *more: str) -> list[dict[str, Any]]:
    """What `fencepost log dump` says of the same files."""
    done = CliRunner().invoke(main, ["log", "dump", "--json", *more, *map(str, paths)])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_our_dump_agrees_with_kafkas_on_every_batch(files):
    names = {
        "baseOffset": "base_offset", "lastOffset": "last_offset", "count": "count", "position": "position",
        "producerId": "producer_id", "producerEpoch": "producer_epoch", "baseSequence": "base_sequence",
        "lastSequence": "last_sequence", "partitionLeaderEpoch": "leader_epoch", "size": "size",
        "compresscodec": "compression",
    }  # fmt: skip
    theirs = [{ours: batch[name] for name, ours in names.items()} for batch in batches(files.dump(files.of(".log")))]
    found = ours(files.of(".log"), "--records")
    assert all(batch["valid"] for batch in found)
    assert [{name: str(batch[name]) for name in names.values()} for batch in found] == theirs
    markers = re.findall(r"endTxnMarker: (\w+)", files.dump(files.of(".log"), "--print-data-log"))
    assert [batch["marker"].upper() for batch in found if "marker" in batch] == markers


def test_our_dump_agrees_with_kafkas_on_indexes_and_snapshots(files):
    for suffix, pattern, names in (
        (".index", r"(?m)^offset: (\d+) position: (\d+)$", ("offset", "position")),
        (".timeindex", r"(?m)^timestamp: (\d+) offset: (\d+)$", ("timestamp", "offset")),
        (
            ".txnindex",
            r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)",
            ("producer_id", "first_offset", "last_offset", "last_stable_offset"),
        ),
        (
            ".snapshot",
            r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+)",
            ("producer_id", "epoch", "coordinator_epoch"),
        ),
    ):
        paths = files.of(suffix)
        theirs = re.findall(pattern, files.dump(paths))
        found = [tuple(str(entry[name]) for name in names) for entry in ours(paths)]
        assert found and sorted(found) == sorted(theirs), suffix


def test_our_dump_agrees_with_kafkas_on_internal_topics(files):
    paths = files.of(".log", "__transaction_state")
    theirs = [
        entry["value"]["data"] for entry in payloads(files.dump(paths, "--transaction-log-decoder")) if entry["value"]
    ]
    found = [record["decoded"] for batch in ours(paths, "--records") for record in batch["records"]]
    assert [(each["producer_id"], each["producer_epoch"], each["timeout_ms"]) for each in found if each["state"]] == [
        (each["producerId"], each["producerEpoch"], each["transactionTimeoutMs"]) for each in theirs
    ]
    paths = files.of(".log", "__consumer_offsets")
    decoded = payloads(files.dump(paths, "--offsets-decoder"))
    theirs = [
        entry["value"]["data"]["offset"] for entry in decoded if "topic" in entry["key"]["data"] and entry["value"]
    ]
    records = [record for batch in ours(paths, "--records") for record in batch.get("records", ())]
    found = [record["decoded"]["offset"] for record in records if "topic" in record.get("decoded", {})]
    assert found == theirs
