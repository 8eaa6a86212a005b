"""Those who write: producers of transactions, and a client without them. Each knows what it was told.

They speak the second transaction protocol (KIP-890), because the first one cannot tell a late EndTxn from a timely one.
"""

import enum
from dataclasses import dataclass, field
from typing import Any

from fencepost.client.raw import offset_topics
from fencepost.clock import pause
from fencepost.errors import ErrorCode
from fencepost.wire.codec import Message
from fencepost.wire.records import Record, encode_batch
from tests.simulation.clients import (
    CREATE_TOPICS,
    END_TXN,
    GROUP,
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    PARTITIONS,
    PLAIN_GROUP,
    PRODUCE,
    TIMEOUT_MS,
    TOPIC,
    TXN_OFFSET_COMMIT,
    Client,
    Refused,
    offset_code,
)


class Outcome(enum.Enum):
    OPEN = "open"  #: never ended by its producer: it must be aborted
    ABORTING = "aborting"
    COMMITTING = "committing"  #: a commit was sent and not answered: anything but half of it may be visible
    COMMITTED = "committed"


@dataclass
class Written:
    """One transaction as its producer knows it."""

    transactional_id: str
    incarnation: int
    number: int
    values: dict[int, list[bytes]] = field(default_factory=dict)  #: by partition, what was acknowledged
    offset: int | None = None  #: committed for the group, in the partition of the transactional id
    outcome: Outcome = Outcome.OPEN
    commit_sent_ms: int = -1

    @property
    def name(self) -> str:
        return f"{self.transactional_id}/{self.incarnation}/{self.number}"


class Producer:
    """One incarnation of a transactional id, which is the client's name."""

    def __init__(self, client: Client, incarnation: int, index: int, dies_when_ending: float) -> None:
        self._client = client
        self._rng = client.rng
        self.transactional_id = client.name
        self.incarnation = incarnation
        self.index = index
        self._dies_when_ending = dies_when_ending
        self._producer = (-1, -1)
        self.written: list[Written] = []
        #: What the first answer gave it, and when. Of two incarnations the one with the higher epoch is the successor.
        self.epoch = (-1, -1)
        self.initialised_ms = -1

    async def run(self) -> None:
        # A successor begins while its predecessor may still be at work.
        await pause(self._client.clock, self.incarnation * self._rng.randint(0, 5_000))
        who, notes = f"{self.transactional_id}/{self.incarnation}", self._client.notes
        try:
            fields = {"transactional_id": self.transactional_id, "transaction_timeout_ms": TIMEOUT_MS}
            self._became(await self._client.ask_until(INIT_PRODUCER_ID, fields))
            self.epoch, self.initialised_ms = self._producer, self._client.clock.now_ms()
            notes.add(who, f"is {self._producer[0]}:{self._producer[1]}")
            for number in range(self._rng.randint(1, 3)):
                transaction = Written(self.transactional_id, self.incarnation, number)
                self.written.append(transaction)
                if not await self._write(transaction):
                    notes.add(who, f"{number} goes silent")
                    return
                notes.add(who, f"{number} {transaction.outcome.value}")
        except Refused as refusal:
            notes.add(who, f"was refused: {refusal.code.name}")
        finally:
            self._client.hang_up()

    def _became(self, answer: Message) -> None:
        self._producer = (answer.producer_id, answer.producer_epoch)

    async def _write(self, transaction: Written) -> bool:
        """False when the client dies: with the transaction open, or while it is being ended."""
        for partition in sorted(self._rng.sample(range(PARTITIONS), self._rng.randint(1, PARTITIONS))):
            for sequence in range(self._rng.randint(1, 2)):
                await self._produce(transaction, partition, sequence)
            if self._rng.random() < 0.05:
                return False
            if self._rng.random() < 0.1:
                await self._client.pause(2 * TIMEOUT_MS)
        if self._rng.random() < 0.5:
            await self._commit_offset(transaction)
        commits = self._rng.random() < 0.7
        transaction.outcome = Outcome.COMMITTING if commits else Outcome.ABORTING
        transaction.commit_sent_ms = self._client.clock.now_ms()
        fields = {**self._fields(), "committed": commits}
        if self._rng.random() < self._dies_when_ending:
            await self._client.ask_once(END_TXN, fields)
            return False
        self._became(await self._client.ask_until(END_TXN, fields))
        if commits:
            transaction.outcome = Outcome.COMMITTED
        return True

    async def _produce(self, transaction: Written, partition: int, sequence: int) -> None:
        value = f"{transaction.name}/{partition}/{sequence}".encode()
        await produce(self._client, self._producer, partition, sequence, value, self.transactional_id)
        transaction.values.setdefault(partition, []).append(value)

    async def _commit_offset(self, transaction: Written) -> None:
        offset = transaction.incarnation * 1000 + transaction.number
        fields = {**self._fields(), "group_id": GROUP, "topics": offset_topics({(TOPIC, self.index): offset})}
        await self._client.ask_until(TXN_OFFSET_COMMIT, fields, offset_code)
        transaction.offset = offset

    def _fields(self) -> dict[str, Any]:
        producer_id, epoch = self._producer
        return {"transactional_id": self.transactional_id, "producer_id": producer_id, "producer_epoch": epoch}


class Plain:
    """Writes without transactions, commits offsets and creates topics: whatever was acknowledged stays."""

    PARTITION = 0

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rng = client.rng
        self.values: list[bytes] = []
        self.offsets: list[int] = []
        self.topics: list[str] = []

    async def run(self) -> None:
        """Nothing of this may ever be refused."""
        fields = {"transactional_id": None, "transaction_timeout_ms": 0}
        answer = await self._client.ask_until(INIT_PRODUCER_ID, fields)
        producer = (answer.producer_id, answer.producer_epoch)
        for number in range(self._rng.randint(1, 6)):
            value = f"w/{number}".encode()
            await produce(self._client, producer, self.PARTITION, number, value)
            self.values.append(value)
            if self._rng.random() < 0.3:
                await self._commit(number)
            if self._rng.random() < 0.2:
                await create_topic(self._client, f"new-{number}", 1)
                self.topics.append(f"new-{number}")
            await self._client.pause(300)
        self._client.notes.add("w", f"wrote {len(self.values)}, committed {self.offsets}, created {self.topics}")
        self._client.hang_up()

    async def _commit(self, offset: int) -> None:
        fields = {"group_id": PLAIN_GROUP, "topics": offset_topics({(TOPIC, 0): offset})}
        await self._client.ask_until(OFFSET_COMMIT, fields, offset_code)
        self.offsets.append(offset)


async def produce(
    client: Client,
    producer: tuple[int, int],
    partition: int,
    sequence: int,
    value: bytes,
    transactional_id: str | None = None,
) -> None:
    batch = encode_batch(
        [Record(None, value, 0)],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional_id is not None,
    )
    data = {"index": partition, "records": bytes(batch)}
    fields = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [{"name": TOPIC, "partition_data": [data]}],
    }
    await client.ask_until(PRODUCE, fields, lambda answer: answer.responses[0].partition_responses[0].error_code)


async def create_topic(client: Client, name: str, partitions: int) -> None:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}

    def code(answer: Message) -> int:
        found: int = answer.topics[0].error_code
        return ErrorCode.NONE if found == ErrorCode.TOPIC_ALREADY_EXISTS else found

    await client.ask_until(CREATE_TOPICS, {"topics": [topic], "timeout_ms": 1000, "validate_only": False}, code)
