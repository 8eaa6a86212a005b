"""Commands of the command line, in this process, on the broker under test; and another client's view of a topic."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.cli.main import main
from tests import logins
from tests.conftest import WAIT_TIMEOUT_S, wait_until

#: Key, value, headers and timestamp of a record.
Plain = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


class Shell:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.login = [word for name, value in logins.java(bootstrap).items() for word in ("-X", f"{name}={value}")]

    def run(self, *words: object, stdin: bytes = b"", code: int = 0) -> Result:
        done = CliRunner().invoke(main, [*map(str, words), *self.login], input=stdin)
        assert done.exit_code == code, f"{words}: {done.exit_code}\n{done.output}\n{done.exception!r}"
        return done

    def says(self, *words: object, stdin: bytes = b"", code: int = 0) -> str:
        return self.run(*words, stdin=stdin, code=code).stdout

    def error(self, *words: object, stdin: bytes = b"", code: int = 1) -> str:
        return self.run(*words, stdin=stdin, code=code).stderr

    def asked(self, *words: object, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.says(*words, "--json", code=code).splitlines()]

    def asked_with(self, *words: object, stdin: bytes) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.says(*words, "--json", stdin=stdin).splitlines()]

    def lines(self, *words: object) -> bytes:
        """What `consume --json` prints, to its end."""
        return self.run("consume", *words, "--json", "-e").stdout_bytes

    # -- another client ----------------------------------------------------------------------------------------------

    def producer(self, **settings: Any) -> Producer:
        return Producer({**logins.confluent(self.bootstrap), "linger.ms": 0, **settings})

    def write(self, topic: str, records: list[Plain], partition: int = 0) -> None:
        producer = self.producer()
        for key, value, headers, timestamp in records:
            producer.produce(topic, value, key, partition, timestamp=timestamp, headers=[*headers])
        assert producer.flush(WAIT_TIMEOUT_S) == 0

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """An open one; whoever is in the block ends it, or it is aborted."""
        producer = self.producer(**{"transactional.id": uuid.uuid4().hex})
        producer.init_transactions(WAIT_TIMEOUT_S)
        producer.begin_transaction()
        yield producer

    def delete_records(self, topic: str, before: int) -> None:
        """Of partition 0."""
        admin = AdminClient(logins.confluent(self.bootstrap))
        for done in admin.delete_records([TopicPartition(topic, 0, before)]).values():
            done.result(WAIT_TIMEOUT_S)

    @contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        """A group with a member, which has read something and committed nothing."""
        settings = {**logins.confluent(self.bootstrap), "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.subscribe([topic])
        try:
            wait_until(lambda: consumer.poll(0.1), "the consumer reads")
            yield
        finally:
            consumer.close()

    def read(self, topic: str, count: int, start: int = 0, partition: int = 0) -> list[Plain]:
        consumer = Consumer({**logins.confluent(self.bootstrap), "group.id": "reader", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            found: list[Plain] = []
            while len(found) < count:
                message = consumer.poll(WAIT_TIMEOUT_S)
                assert message is not None and message.error() is None, f"{len(found)} of {count} records came"
                _, timestamp = message.timestamp()
                headers: Any = message.headers() or []  # a list of pairs, for what is read
                found.append((message.key(), message.value(), headers, timestamp))
            return found
        finally:
            consumer.close()
