"""kafka-transactions: list, describe, describe-producers, find-hanging and abort."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from fencepost.client.raw import RawClient
from fencepost.errors import ErrorCode
from fencepost.wire.records import Record, encode_batch
from tests.compat.tools import Tool, table
from tests.conftest import wait_until


def producer(server: Any, transactional_id: str, **more: Any) -> Producer:
    made = Producer({**server.client_config("confluent"), "transactional.id": transactional_id, **more})
    made.init_transactions(30)
    return made


@pytest.fixture
def ongoing(server, topic, name) -> Iterator[str]:
    """A transactional id with a transaction open on partitions 0 and 2."""
    with open_transaction(server, topic, name):
        yield name


@contextlib.contextmanager
def open_transaction(server: Any, topic: str, name: str) -> Iterator[None]:
    made = producer(server, name)
    made.begin_transaction()
    made.produce(topic, "open", partition=0)
    made.produce(topic, "open", partition=2)
    assert made.flush(30) == 0
    yield
    with contextlib.suppress(Exception):  # the test may have ended it
        made.abort_transaction(10)


def committed_values(server: Any, topic: str, count: int) -> list[bytes]:
    reader = Consumer(
        {
            **server.client_config("confluent"),
            "group.id": f"reader-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe([topic])
    found: list[bytes] = []

    def read_some(timeout_s: float = 0.2) -> bool:
        found.extend(message.value() or b"" for message in reader.consume(100, timeout_s))
        return len(found) >= count

    try:
        wait_until(read_some, "all is read", 60)
        read_some(1.0)
    finally:
        reader.close()
    return found


def test_transactions_are_listed_with_their_state(server, tool, topic, name, ongoing):
    done = producer(server, f"done-{name}")
    done.begin_transaction()
    done.produce(topic, "x")
    done.commit_transaction()

    def state(of: str) -> str:
        (found,) = [row for row in table(tool("transactions", "list")) if row["TransactionalId"] == of]
        return found["TransactionState"]

    assert state(ongoing) == "Ongoing"
    wait_until(lambda: state(f"done-{name}") == "CompleteCommit", "the commit is complete", 60)
    assert ongoing not in tool("transactions", "list", "--duration-filter", "10000000")


def test_a_transaction_is_described_with_its_partitions(tool, topic, ongoing):
    (row,) = table(tool("transactions", "describe", "--transactional-id", ongoing))
    assert row["TransactionState"] == "Ongoing"
    assert row["TransactionTimeoutMs"] == "60000"
    assert set(row["TopicPartitions"].split(",")) == {f"{topic}-0", f"{topic}-2"}
    assert "could not be found" in tool.refused("transactions", "describe", "--transactional-id", "nobody")


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


def test_a_hanging_transaction_is_found_and_aborted(start_server, name):
    """A batch of a transaction that the coordinator does not know, so that it never ends."""
    server = start_server({"transaction.partition.verification.enable": "false"}, None)
    tool = Tool(server.bootstrap)
    tool("topics", "--create", "--topic", name, "--partitions", "1")
    batch = encode_batch(
        [Record(None, b"lost", 1_700_000_000_000)],
        producer_id=4_000,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    with RawClient(server.address) as client:  # no other client would leave a transaction hanging
        assert client.produce(name, 0, batch, transactional_id="lost").error is ErrorCode.NONE

    words = ("--topic", name, "--max-transaction-timeout", "1")
    (row,) = table(tool("transactions", "find-hanging", *words))
    assert (row["Topic"], row["Partition"], row["ProducerId"], row["StartOffset"]) == (name, "0", "4000", "0")
    tool("transactions", "abort", "--topic", name, "--partition", "0", "--start-offset", "0")
    assert table(tool("transactions", "find-hanging", *words)) == []
    (after,) = table(tool("transactions", "describe-producers", "--topic", name, "--partition", "0"))
    assert after["CurrentTransactionStartOffset"] == "None"
