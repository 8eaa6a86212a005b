"""Transactions that somebody has left open or hanging, readers behind them, and `fencepost tx` in this process."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from fencepost.cli.main import main
from fencepost.client.raw import RawClient
from fencepost.client.settings import parse_address
from fencepost.errors import ErrorCode
from fencepost.wire.records import Record, encode_batch
from tests import logins
from tests.conftest import wait_until

#: Brokers with this setting take a batch of a transaction that no coordinator knows, as brokers before KIP-890 did.
TRUSTING = {"transaction.partition.verification.enable": "false"}
#: What a coordinator of Apache Kafka answers that was never asked before.
UNREADY = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)


def leave_hanging(
    bootstrap: str, topic: str, partition: int = 0, *, producer_id: int = 4_000, values: Sequence[str] = ("lost",)
) -> None:
    """A batch of a transaction that no coordinator knows. No other client would leave one."""
    now_ms = time.time_ns() // 1_000_000
    batch = encode_batch(
        [Record(None, value.encode(), now_ms) for value in values],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    with RawClient(parse_address(bootstrap), security=logins.of(bootstrap)) as client:
        assert client.produce(topic, partition, batch, transactional_id="lost").error is ErrorCode.NONE


def write(bootstrap: str, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({**logins.confluent(bootstrap), "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def begin(bootstrap: str, transactional_id: str, topic: str, *values: str, timeout_ms: int = 60_000) -> Producer:
    """An open transaction with these values in partition 0."""
    settings = {**logins.confluent(bootstrap), "transactional.id": transactional_id, "linger.ms": 0}
    producer = Producer({**settings, "transaction.timeout.ms": timeout_ms})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    return producer


def commit(bootstrap: str, transactional_id: str, topic: str, *values: str) -> None:
    begin(bootstrap, transactional_id, topic, *values).commit_transaction(30)


def abort(bootstrap: str, transactional_id: str, topic: str, *values: str) -> None:
    begin(bootstrap, transactional_id, topic, *values).abort_transaction(30)


class Follower:
    """A read_committed consumer with a group, which reads until it gets no more."""

    def __init__(self, bootstrap: str, group: str, topic: str, more: Mapping[str, str]) -> None:
        self._topic = topic
        self.consumer = Consumer(
            {
                **logins.confluent(bootstrap),
                "group.id": group,
                "client.id": f"client-of-{group}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **more,
            }
        )
        self.consumer.subscribe([topic])
        self.values: list[str] = []

    def read(self, count: int) -> list[str]:
        """Read until it has `count` values in all, and commit."""

        def is_enough() -> bool:
            for message in self.consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                self.values.append((message.value() or b"").decode())
            return len(self.values) >= count

        wait_until(is_enough, f"{count} values are read", 60)
        self.consumer.commit(asynchronous=False)
        return self.values

    def is_idle(self) -> bool:
        """Whether it gets nothing for a moment."""
        return not self.consumer.consume(1, 0.5)


@contextmanager
def following(bootstrap: str, group: str, topic: str, more: Mapping[str, str] | None = None) -> Iterator[Follower]:
    """`more`: settings of the consumer."""
    follower = Follower(bootstrap, group, topic, more or {})
    try:
        yield follower
    finally:
        follower.consumer.close()


def set_offset(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**logins.confluent(bootstrap), "group.id": group, "enable.auto.commit": False})

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[Place(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in UNREADY:
                raise
            return False
        return True

    wait_until(is_committed, f"{group} has its offset")
    consumer.close()


def tx(bootstrap: str, *words: object, more: Mapping[str, str] | None = None) -> Result:
    """`fencepost tx …`, in this process."""
    settings = {**logins.java(bootstrap), **(more or {})}
    security = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    return CliRunner().invoke(main, ["tx", *map(str, words), *security])


def told(
    bootstrap: str, *words: object, exit_code: int = 0, more: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """What it says with --json."""
    done = tx(bootstrap, *words, "--json", more=more)
    assert done.exit_code == exit_code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]
