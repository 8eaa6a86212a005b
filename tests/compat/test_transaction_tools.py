"""kafka-transactions: list, describe, describe-producers, find-hanging and abort."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from fencepost.wire import frame, messages, records
from fencepost.wire.records import Record
from tests.compat.tools import Tool, table
from tests.conftest import wait_until


def producer(server: Any, transactional_id: str, **more: Any) -> Producer:
    made = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": transactional_id, **more})
    made.init_transactions(30)
    return made


@pytest.fixture
def ongoing(server, topic, name) -> Iterator[str]:
    """A transactional id with a transaction open on partitions 0 and 2."""
    made = producer(server, name)
    made.begin_transaction()
    made.produce(topic, "open", partition=0)
    made.produce(topic, "open", partition=2)
    assert made.flush(30) == 0
    yield name
    with contextlib.suppress(Exception):  # the test may have ended it
        made.abort_transaction(10)


def committed_values(server: Any, topic: str, count: int) -> list[bytes]:
    reader = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": f"reader-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe([topic])
    found: list[bytes] = []
    try:
        wait_until(lambda: len(found) >= count or read_some(reader, found, 0.2), "all is read", 60)
        read_some(reader, found, 1.0)
    finally:
        reader.close()
    return found


def read_some(reader: Consumer, found: list[bytes], timeout_s: float) -> bool:
    found += [message.value() or b"" for message in reader.consume(100, timeout_s)]
    return False


def test_transactions_are_listed_with_their_state(server, tool, topic, name, ongoing):
    done = producer(server, f"done-{name}")
    done.begin_transaction()
    done.produce(topic, "x")
    done.commit_transaction()
    listed = table(tool("transactions", "list"))
    states = {row["TransactionalId"]: row["TransactionState"] for row in listed}
    assert states[ongoing] == "Ongoing"
    wait_until(
        lambda: (
            {r["TransactionalId"]: r["TransactionState"] for r in table(tool("transactions", "list"))}[f"done-{name}"]
            == "CompleteCommit"
        ),
        "the commit is complete",
        60,
    )
    assert ongoing not in tool("transactions", "list", "--duration-filter", "10000000")


def test_a_transaction_is_described_with_its_partitions(tool, topic, ongoing):
    (row,) = table(tool("transactions", "describe", "--transactional-id", ongoing))
    assert row["TransactionState"] == "Ongoing"
    assert row["TransactionTimeoutMs"] == "60000"
    assert set(row["TopicPartitions"].split(",")) == {f"{topic}-0", f"{topic}-2"}
    unknown = tool.run("transactions", "describe", "--transactional-id", "nobody")
    assert unknown.returncode == 1
    assert "could not be found" in unknown.stdout + unknown.stderr


def test_the_producers_of_a_partition_are_described(tool, topic, ongoing):
    which = ("describe-producers", "--topic", topic, "--partition")
    (row,) = table(tool("transactions", *which, "2"))
    assert row["CurrentTransactionStartOffset"] == "0"
    assert row["LastSequence"] == "0"
    assert table(tool("transactions", *which, "1")) == []


def test_an_open_transaction_is_not_hanging(tool, topic, ongoing):
    assert table(tool("transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")) == []


def test_an_open_transaction_is_aborted_by_the_tool(server, tool, topic, ongoing, fill):
    fill(topic, 2, ["after"])
    tool("transactions", "abort", "--topic", topic, "--partition", "2", "--start-offset", "0")
    assert committed_values(server, topic, 1) == [b"after"], "readers of partition 2 are released"
    (row,) = [
        row
        for row in table(tool("transactions", "describe-producers", "--topic", topic, "--partition", "2"))
        if row["LastSequence"] != "0" or row["LatestCoordinatorEpoch"] != "-1"
    ]
    assert row["CurrentTransactionStartOffset"] == "None"


def test_a_transaction_is_terminated_by_its_id(server, tool, topic, ongoing):
    tool("transactions", "forceTerminateTransaction", "--transactionalId", ongoing)
    wait_until(
        lambda: (
            table(tool("transactions", "describe", "--transactional-id", ongoing))[0]["TransactionState"]
            in {"CompleteAbort", "Empty"}
        ),
        "it is aborted",
        60,
    )


def ask(port: int, key: int, version: int, values: dict[str, Any]) -> Any:
    """One request in our own words: no client would leave a transaction hanging."""
    api = messages.api(key)
    head = struct.pack(">hhih", key, version, 1, -1) + (b"\x00" if version in api.request.flexible else b"")
    body = head + api.request.encode(version, values)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        reader = connection.makefile("rb")
        (size,) = struct.unpack(">i", reader.read(4))
        answer = reader.read(size)
    start = frame.skip_tags(answer, 4) if version in api.response.flexible else 4
    return api.response.decode(version, answer, start)


def test_a_hanging_transaction_is_found_and_aborted(start_server, name):
    """A batch of a transaction that the coordinator does not know, so that it never ends."""
    server = start_server({"transaction.partition.verification.enable": "false"})
    tool = Tool(server.bootstrap)
    tool("topics", "--create", "--topic", name, "--partitions", "1")
    batch = records.encode_batch(
        [Record(None, b"lost", 1_700_000_000_000)],
        producer_id=4_000,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    partition = {"index": 0, "records": bytes(batch)}
    request = {
        "transactional_id": "lost",
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": name, "partition_data": [partition]}],
    }
    answer = ask(server.address.port, 0, 11, request)
    assert answer.responses[0].partition_responses[0].error_code == 0

    words = ("--topic", name, "--max-transaction-timeout", "1")
    (row,) = table(tool("transactions", "find-hanging", *words))
    assert (row["Topic"], row["Partition"], row["ProducerId"], row["StartOffset"]) == (name, "0", "4000", "0")
    tool("transactions", "abort", "--topic", name, "--partition", "0", "--start-offset", "0")
    assert table(tool("transactions", "find-hanging", *words)) == []
    (after,) = table(tool("transactions", "describe-producers", "--topic", name, "--partition", "0"))
    assert after["CurrentTransactionStartOffset"] == "None"
