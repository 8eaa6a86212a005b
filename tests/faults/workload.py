"""Clients under load, each a thread: they write, commit, copy and read while the broker is killed, and keep a history.

A worker retries as its protocol allows and never guesses: a transaction whose outcome it was not told is UNKNOWN.
"""

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from fencepost.client.raw import IN_A_MOMENT, Session
from fencepost.errors import ConnectionLost, ErrorCode, Refused
from fencepost.lab.chaos.clients.membership import GroupMember
from tests.faults.history import Copier, History, Outcome, Partition, Seen, Transaction, Write
from tests.faults.raw import Address, Kafka

T = TypeVar("T")
#: How long a worker may take for one thing, all repetitions together, before it gives up and the test fails.
PATIENCE_S = 90.0
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE})


class World:
    """What all workers share."""

    def __init__(self, address: Address, history: History) -> None:
        self.address = address
        self.history = history
        self.stopping = threading.Event()

    @property
    def client_settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"{self.address[0]}:{self.address[1]}",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 5000,
            # After a re-bootstrap librdkafka 2.16 waits for ever for a group coordinator that it has forgotten.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }


class Worker(ABC):
    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.done = 0  #: how much it got done, to tell a test that tested nothing
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def work(self) -> None: ...

    def join(self) -> None:
        self._thread.join(PATIENCE_S + 30)
        if self._thread.is_alive():
            raise AssertionError(f"{self.name} does not come to its end")
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed after {self.done} rounds: {self.failure!r}") from self.failure


class IdempotentWriter(Worker):
    """librdkafka with idempotence: every record is acknowledged in the end, once, in order."""

    def __init__(self, world: World, name: str, rng: random.Random, partitions: list[Partition]) -> None:
        self._partitions = partitions
        super().__init__(world, name, rng)

    def work(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 2, "delivery.timeout.ms": 120_000}
        producer = Producer({**self.world.client_settings, **settings, "error_cb": self._on_error})
        number = 0
        while not self.world.stopping.is_set():
            for _ in range(self.rng.randint(1, 20)):
                topic, partition = self.rng.choice(self._partitions)
                write = Write(f"{self.name}:{number}", (topic, partition))
                number += 1
                producer.produce(topic, write.value, partition=partition, on_delivery=self._told(write))
            producer.poll(0.02)
            while len(producer) > 500 and not self.world.stopping.is_set():
                producer.poll(0.05)
        if producer.flush(PATIENCE_S):
            raise AssertionError(f"{len(producer)} records were never acknowledged")

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.world.history.surprise(f"{self.name}: {error}")

    def _told(self, write: Write) -> Callable[[KafkaError | None, Any], None]:
        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.done += 1
                self.world.history.acknowledged.append(Write(write.value, write.partition, message.offset()))
            else:
                self.world.history.unacknowledged.append(write)
                self.world.history.surprise(f"{self.name} was refused: {error}")

        return told


class TransactionalWriter(Worker):
    """librdkafka, which speaks the first transaction protocol. Every transaction raises the offset of its own group."""

    def __init__(
        self, world: World, name: str, rng: random.Random, partitions: list[Partition], source: Partition
    ) -> None:
        self._partitions = partitions
        self._source = source
        super().__init__(world, name, rng)

    def work(self) -> None:
        member = Consumer({**self.world.client_settings, "group.id": f"group of {self.name}"})
        producer = self._new_producer()
        number = 0
        round_number = 0
        while not self.world.stopping.is_set():
            round_number += 1
            where = self.rng.sample(self._partitions, self.rng.randint(1, len(self._partitions)))
            writes = tuple(Write(f"{self.name}-{p[0]}{p[1]}:{number + k}", p) for k, p in enumerate(where))
            number += len(writes)
            outcome = Outcome.UNKNOWN
            try:
                outcome = self._one(producer, member, writes, round_number)
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise
                producer = self._new_producer()
            finally:
                group = f"group of {self.name}"
                self.world.history.ended(Transaction(self.name, writes, outcome, group, round_number))
            self.done += 1
        member.close()

    def _new_producer(self) -> Producer:
        settings = {"transactional.id": self.name, "linger.ms": 0, "transaction.timeout.ms": 60_000}
        producer = Producer({**self.world.client_settings, **settings})
        again(lambda: producer.init_transactions(5), "init_transactions")
        return producer

    def _one(self, producer: Producer, member: Consumer, writes: tuple[Write, ...], number: int) -> Outcome:
        wants_commit = self.rng.random() < 0.75
        producer.begin_transaction()
        try:
            for write in writes:
                producer.produce(write.partition[0], write.value, partition=write.partition[1])
            offsets = [TopicPartition(*self._source, number)]
            again(
                lambda: producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 5),
                "send_offsets_to_transaction",
            )
            if not wants_commit:
                producer.flush(self.rng.choice([0, 1]))
            else:
                again(lambda: producer.commit_transaction(5), "commit_transaction")
                return Outcome.COMMITTED
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        again(lambda: producer.abort_transaction(5), "abort_transaction")
        return Outcome.ABORTED


class RawWorker(Worker):
    """One that speaks the protocol by hand and repeats every request over new connections until it is answered."""

    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self._client: Kafka | None = None
        super().__init__(world, name, rng)

    def _run(self) -> None:
        super()._run()
        if self._client is not None:
            self._client.close()

    def until_accepted(self, what: Callable[[Kafka], ErrorCode], name: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            code = self.ask(what)
            if code is ErrorCode.NONE:
                return
            if code not in IN_A_MOMENT:
                raise WasRefused(name, code)
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} of {self.name} was put off for {PATIENCE_S} s: {code.name}")
            time.sleep(0.01)

    def ask(self, what: Callable[[Kafka], T]) -> T:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self._client is None:
                    self._client = Kafka(self.world.address, timeout_s=10)
                return what(self._client)
            except ConnectionLost:
                if self._client is not None:
                    self._client.close()
                    self._client = None
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


class WasRefused(Exception):
    def __init__(self, what: str, code: ErrorCode) -> None:
        super().__init__(f"{what} was refused: {code.name}")
        self.code = code


class SecondProtocolWriter(RawWorker):
    """KIP-890 by hand: Produce registers partitions, EndTxn gives the next epoch. Now and then a late request of an
    earlier epoch arrives, as after a pause: it must be refused."""

    #: Long enough for every restart, unless the worker is one that oversleeps.
    timeout_ms = 60_000

    def __init__(
        self, world: World, name: str, rng: random.Random, partitions: list[Partition], source: Partition
    ) -> None:
        self._partitions = partitions
        self._source = source
        super().__init__(world, name, rng)

    def work(self) -> None:
        session = self.ask(self._init)
        number = 0
        round_number = 0
        while not self.world.stopping.is_set():
            round_number += 1
            where = self.rng.sample(self._partitions, self.rng.randint(1, len(self._partitions)))
            writes = tuple(Write(f"{self.name}-{p[0]}{p[1]}:{number + k}", p) for k, p in enumerate(where))
            number += len(writes)
            wanted = Outcome.COMMITTED if self.rng.random() < 0.75 else Outcome.ABORTED
            outcome = Outcome.UNKNOWN
            before = Session(session.producer_id, session.epoch, self.name)
            try:
                for write in writes:
                    self._produce(session, write)
                self._commit_offset(session, round_number)
                self.before_the_end()
                self._end(session, wanted)
                outcome = wanted
            except WasRefused as error:
                if not self.may_be_fenced or error.code not in FENCED:
                    raise
                session = self.ask(self._init)
            finally:
                group = f"group of {self.name}"
                self.world.history.ended(Transaction(self.name, writes, outcome, group, round_number))
            if outcome is not Outcome.UNKNOWN and self.rng.random() < 0.2:
                self._be_late(before, writes[0].partition, wanted)
            self.done += 1

    #: Whether the broker may have ended a transaction on its own.
    may_be_fenced = False

    def before_the_end(self) -> None:
        """Something that takes time."""

    def _init(self, client: Kafka) -> Session:
        return client.init_producer(self.name, timeout_ms=self.timeout_ms)

    def _produce(self, session: Session, write: Write) -> None:
        batch = session.batch(*write.partition, [write.value])
        self.until_accepted(
            lambda client: client.produce(*write.partition, batch, transactional_id=self.name, version=12).error,
            "Produce",
        )

    def _commit_offset(self, session: Session, offset: int) -> None:
        group = f"group of {self.name}"
        offsets = {self._source: offset}
        self.until_accepted(lambda c: c.commit_offsets_in_transaction(session, group, offsets), "TxnOffsetCommit")

    def _end(self, session: Session, outcome: Outcome) -> None:
        self.until_accepted(lambda client: client.end(session, commit=outcome is Outcome.COMMITTED), "EndTxn")

    def _be_late(self, before: Session, where: Partition, outcome: Outcome) -> None:
        """The same producer, one epoch ago: a batch on its way for too long, and an EndTxn that says the opposite."""
        batch = before.batch(*where, [f"late of {self.name}"], sequence=self.rng.randint(0, 3))
        code = self.ask(lambda c: c.produce(*where, batch, transactional_id=self.name, version=12).error)
        if code is ErrorCode.NONE:
            self.world.history.surprise(f"{self.name}: a batch of an earlier epoch was accepted")
        code = self.ask(lambda client: client.end(before, commit=outcome is not Outcome.COMMITTED))
        if code is ErrorCode.NONE:
            self.world.history.surprise(f"{self.name}: an EndTxn of an earlier epoch was accepted")


class OversleepingWriter(SecondProtocolWriter):
    """Pauses longer than its transaction timeout now and then, wakes up and goes on as if nothing had happened."""

    timeout_ms = 600
    may_be_fenced = True

    def before_the_end(self) -> None:
        if self.rng.random() < 0.3:
            time.sleep(self.rng.uniform(0.3, 1.2))


class LedgerWriter(RawWorker):
    """Keeps the last value of a few keys on a compacted topic, in transactions of which some are aborted."""

    def __init__(self, world: World, name: str, rng: random.Random, where: Partition) -> None:
        self._where = where
        self.last: dict[str, str] = {}  #: key → the last value that was committed
        self.aborted: set[str] = set()
        self.written = 0
        super().__init__(world, name, rng)

    def work(self) -> None:
        session = self.ask(lambda client: client.init_producer(self.name))
        while not self.world.stopping.is_set():
            commit = self.rng.random() < 0.7
            changes = {}
            for _ in range(self.rng.randint(1, 4)):
                key = f"{self.name}-{self.rng.randrange(5)}"
                changes[key] = f"{key}={self.written}"
                self.written += 1
                batch = session.batch(*self._where, [changes[key]], record_key=key)
                self.until_accepted(
                    lambda c, b=batch: c.produce(*self._where, b, transactional_id=self.name, version=12).error,
                    "Produce",
                )
            self.until_accepted(lambda client, commit=commit: client.end(session, commit=commit), "EndTxn")
            if commit:
                self.last.update(changes)
            else:
                self.aborted.update(changes.values())
            self.done += 1


class TopicChurner(RawWorker):
    """Creates a topic, writes to it, deletes it, and again under the same name: nothing may come back."""

    def __init__(self, world: World, name: str, rng: random.Random, topic: str) -> None:
        self._topic = topic
        self.expected: list[str] = []  #: what the topic of the present round holds
        super().__init__(world, name, rng)

    def work(self) -> None:
        number = 0
        while True:
            self.ask(self._create)
            self.expected = []
            session = self.ask(lambda client: client.init_producer())
            for _ in range(self.rng.randint(1, 5)):
                value = f"{self.name}:{number}"
                number += 1
                batch = session.batch(self._topic, 0, [value])
                self.until_accepted(lambda c, b=batch: c.produce(self._topic, 0, b).error, "Produce")
                self.expected.append(value)
            self.done += 1
            if self.world.stopping.wait(0.05):
                return
            self.ask(self._delete)

    def _create(self, client: Kafka) -> None:
        try:
            client.create_topic(self._topic)
        except Refused as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # the answer to the first attempt was lost
                raise

    def _delete(self, client: Kafka) -> None:
        code = client.delete_topic(self._topic)
        if code not in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
            raise WasRefused("DeleteTopics", code)


class CopyingMember(Worker):
    """A member of a group that copies one topic to another exactly once: records and offsets in one transaction."""

    def __init__(self, world: World, name: str, rng: random.Random, job: Copier) -> None:
        self._job = job
        super().__init__(world, name, rng)

    def work(self) -> None:
        consumer = Consumer(
            {
                **self.world.client_settings,
                "group.id": self._job.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 300,
            }
        )
        member = GroupMember(consumer)
        member.subscribe([self._job.source])
        producer = self._new_producer()
        while not self.world.stopping.is_set():
            messages = [m for m in member.poll(50, 0.2) if m.error() is None]
            if not messages:
                continue
            try:
                self._copy(producer, member, messages)
                self.done += 1
            except KafkaException as error:
                if error.args[0].fatal():
                    producer = self._new_producer()
                else:
                    again(lambda p=producer: p.abort_transaction(5), "abort_transaction")
                self._rewind(consumer)
        consumer.close()

    def _new_producer(self) -> Producer:
        producer = Producer({**self.world.client_settings, "transactional.id": self.name, "linger.ms": 0})
        again(lambda: producer.init_transactions(5), "init_transactions")
        return producer

    def _copy(self, producer: Producer, member: GroupMember, messages: list[Any]) -> None:
        producer.begin_transaction()
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            value = self._job.prefix + message.value().decode()
            producer.produce(self._job.target, value, partition=message.partition())
            ends[message.topic(), message.partition()] = message.offset() + 1
        offsets = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
        again(
            lambda: producer.send_offsets_to_transaction(offsets, member.metadata, 5),
            "send_offsets_to_transaction",
        )
        again(lambda: producer.commit_transaction(5), "commit_transaction")

    def _rewind(self, consumer: Consumer) -> None:
        """Back to what is committed. A partition that was taken away meanwhile is somebody else's now."""
        while not self.world.stopping.is_set():
            try:
                for where in consumer.committed(consumer.assignment(), timeout=5):
                    consumer.seek(TopicPartition(where.topic, where.partition, max(where.offset, 0)))
                return
            except KafkaException:
                consumer.poll(0)
                time.sleep(0.05)


class Reader(Worker):
    """Reads everything from the beginning as read_committed and remembers what it saw."""

    def __init__(self, world: World, name: str, rng: random.Random, partitions: list[Partition]) -> None:
        self._partitions = partitions
        super().__init__(world, name, rng)

    def work(self) -> None:
        consumer = Consumer(
            {
                **self.world.client_settings,
                "group.id": self.name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        seen: dict[Partition, list[tuple[int, str]]] = {where: [] for where in self._partitions}
        consumer.assign([TopicPartition(*where, 0) for where in self._partitions])
        while not self.world.stopping.is_set():
            for message in consumer.consume(100, 0.2):
                error = message.error()
                if error is not None:
                    if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
                        self.world.history.surprise(f"{self.name}: {error}")
                    continue
                seen[message.topic(), message.partition()].append((message.offset(), message.value().decode()))
                self.done += 1
        consumer.close()
        self.world.history.seen.extend(Seen(self.name, where, records) for where, records in seen.items())


def again(call: Callable[[], Any], what: str) -> None:
    """While librdkafka says that the same call may be repeated, which is all that one may do after a timeout."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                error.add_note(f"in {what}")
                raise
            time.sleep(0.02)
