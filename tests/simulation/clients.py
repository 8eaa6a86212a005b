"""Clients as coroutines: producers that write transactions, and a reader of what was committed.

They speak the second transaction protocol (KIP-890), because the first one cannot tell a late EndTxn from a timely one.
A request that was not answered is sent again on a new connection until it is; only a refusal ends that.
"""

import asyncio
import enum
import itertools
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.clock import ManualClock, pause, within
from fencepost.errors import ErrorCode
from fencepost.wire import messages
from fencepost.wire.batch import read_header
from fencepost.wire.codec import Message
from fencepost.wire.frame import skip_tags
from fencepost.wire.records import Record, decode_batch, decode_marker, encode_batch
from tests.simulation.machine import Loop
from tests.simulation.network import Link, Network

TOPIC = "t"
PARTITIONS = 3
GROUP = "g"
TIMEOUT_MS = 2_000

PRODUCE, FETCH, OFFSET_FETCH, CREATE_TOPICS, INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT = 0, 1, 9, 19, 22, 26, 28
VERSIONS = {PRODUCE: 12, FETCH: 12, OFFSET_FETCH: 7, CREATE_TOPICS: 7, INIT_PRODUCER_ID: 5, END_TXN: 5,
            TXN_OFFSET_COMMIT: 5}  # fmt: skip

#: The same request again, a little later.
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT,
}  # fmt: skip


class Refused(Exception):
    """An answer that no repetition changes."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


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


class Notes:
    """What happened, line by line."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._start_ms = clock.now_ms()
        self.lines: list[str] = []

    def add(self, who: str, what: str) -> None:
        self.lines.append(f"{self._clock.now_ms() - self._start_ms:6d} {who} {what}")


class Client:
    """One connection at a time, one request at a time."""

    def __init__(self, name: str, network: Network, clock: ManualClock, loop: Loop, rng: random.Random) -> None:
        self.name = name
        self._network = network
        self._clock = clock
        self._loop = loop
        self._rng = rng
        self._ids = itertools.count(1)
        self._link: Link | None = None

    async def ask(self, key: int, fields: Mapping[str, Any]) -> Message:
        """Until there is an answer."""
        while True:
            frame = await self._try(key, fields)
            if frame is not None:
                response = messages.api(key).response
                body = skip_tags(frame, 4) if VERSIONS[key] in response.flexible else 4
                return response.decode(VERSIONS[key], memoryview(frame), body)
            self.hang_up()
            await pause(self._clock, self._rng.randint(10, 200))

    async def ask_until(self, key: int, fields: Mapping[str, Any], code_of: Any) -> Message:
        """Until the answer is not one of those that say "later"; Refused if it is an error."""
        while True:
            answer = await self.ask(key, fields)
            code = code_of(answer)
            if code == ErrorCode.NONE:
                return answer
            if code not in RETRIABLE:
                raise Refused(code)
            await pause(self._clock, self._rng.randint(10, 100))

    def hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _try(self, key: int, fields: Mapping[str, Any]) -> bytes | None:
        answered: asyncio.Future[bytes | None] = self._loop.create_future()

        def settle(frame: bytes | None) -> None:
            if not answered.done():
                answered.set_result(frame)

        frame = _request(key, next(self._ids), fields)
        self._link = self._link or self._network.connect()
        self._link.listen(settle, lambda: settle(None))
        self._link.send(frame)
        self._network.repeat(frame)
        if await within(self._clock, self._rng.randint(1_600, 3_000), answered):
            return answered.result()
        return None


def _request(key: int, correlation_id: int, fields: Mapping[str, Any]) -> bytes:
    version = VERSIONS[key]
    request = messages.api(key).request
    tags = b"\x00" if version in request.flexible else b""
    body = struct.pack(">hhihs", key, version, correlation_id, 1, b"c") + tags + request.encode(version, fields)
    return struct.pack(">i", len(body)) + bytes(body)


class Producer:
    """One incarnation of a transactional id."""

    def __init__(self, client: Client, transactional_id: str, incarnation: int, index: int, rng: random.Random) -> None:
        self._client = client
        self.transactional_id = transactional_id
        self.incarnation = incarnation
        self.index = index
        self._rng = rng
        self._producer = (-1, -1)
        self.written: list[Written] = []
        #: What the first answer gave it, and when. Of two incarnations the one with the higher epoch is the successor.
        self.epoch = (-1, -1)
        self.initialised_ms = -1

    async def run(self, notes: Notes, clock: ManualClock) -> None:
        who = f"{self.transactional_id}/{self.incarnation}"
        try:
            await self._init()
            self.epoch, self.initialised_ms = self._producer, clock.now_ms()
            notes.add(who, f"is {self._producer[0]}:{self._producer[1]}")
            for number in range(self._rng.randint(1, 3)):
                transaction = Written(self.transactional_id, self.incarnation, number)
                self.written.append(transaction)
                if not await self._write(transaction, clock):
                    notes.add(who, f"{number} goes silent")
                    return
                notes.add(who, f"{number} {transaction.outcome.value}")
        except Refused as refusal:
            notes.add(who, f"was refused: {refusal.code.name}")
        finally:
            self._client.hang_up()

    async def _init(self) -> None:
        fields = {"transactional_id": self.transactional_id, "transaction_timeout_ms": TIMEOUT_MS}
        answer = await self._client.ask_until(INIT_PRODUCER_ID, fields, lambda answer: answer.error_code)
        self._producer = (answer.producer_id, answer.producer_epoch)

    async def _write(self, transaction: Written, clock: ManualClock) -> bool:
        """False when the client dies with the transaction open."""
        for partition in sorted(self._rng.sample(range(PARTITIONS), self._rng.randint(1, PARTITIONS))):
            for sequence in range(self._rng.randint(1, 2)):
                await self._produce(transaction, partition, sequence)
            if self._rng.random() < 0.05:
                return False
            if self._rng.random() < 0.1:
                await pause(clock, self._rng.randint(0, 2 * TIMEOUT_MS))
        if self._rng.random() < 0.5:
            await self._commit_offset(transaction)
        commits = self._rng.random() < 0.7
        transaction.outcome = Outcome.COMMITTING if commits else Outcome.ABORTING
        transaction.commit_sent_ms = clock.now_ms()
        answer = await self._client.ask_until(
            END_TXN, {**self._fields(), "committed": commits}, lambda answer: answer.error_code
        )
        self._producer = (answer.producer_id, answer.producer_epoch)
        if commits:
            transaction.outcome = Outcome.COMMITTED
        return True

    async def _produce(self, transaction: Written, partition: int, sequence: int) -> None:
        value = f"{transaction.name}/{partition}/{sequence}".encode()
        producer_id, epoch = self._producer
        batch = encode_batch(
            [Record(None, value, 0)], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
            transactional=True,
        )  # fmt: skip
        data = {"index": partition, "records": bytes(batch)}
        fields = {
            "transactional_id": self.transactional_id, "acks": -1, "timeout_ms": 1000,
            "topic_data": [{"name": TOPIC, "partition_data": [data]}],
        }  # fmt: skip
        await self._client.ask_until(
            PRODUCE, fields, lambda answer: answer.responses[0].partition_responses[0].error_code
        )
        transaction.values.setdefault(partition, []).append(value)

    async def _commit_offset(self, transaction: Written) -> None:
        offset = transaction.incarnation * 1000 + transaction.number
        partition = {"partition_index": self.index, "committed_offset": offset, "committed_metadata": ""}
        fields = {**self._fields(), "group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [partition]}]}
        await self._client.ask_until(
            TXN_OFFSET_COMMIT, fields, lambda answer: answer.topics[0].partitions[0].error_code
        )
        transaction.offset = offset

    def _fields(self) -> dict[str, Any]:
        producer_id, epoch = self._producer
        return {"transactional_id": self.transactional_id, "producer_id": producer_id, "producer_epoch": epoch}


class Reader:
    """Reads what is committed, from the beginning, and goes on."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.positions = [0] * PARTITIONS
        self.stable = [-1] * PARTITIONS
        self.high_watermarks = [-1] * PARTITIONS
        self.seen: list[list[tuple[int, bytes]]] = [[] for _ in range(PARTITIONS)]

    async def poll(self, max_wait_ms: int) -> None:
        partitions = [
            {"partition": partition, "fetch_offset": position, "partition_max_bytes": 2**20}
            for partition, position in enumerate(self.positions)
        ]
        fields = {
            "max_wait_ms": max_wait_ms, "min_bytes": 1, "isolation_level": 1, "session_epoch": -1,
            "topics": [{"topic": TOPIC, "partitions": partitions}],
        }  # fmt: skip
        answer = await self._client.ask(FETCH, fields)
        for entry in answer.responses[0].partitions if answer.responses else ():
            if entry.error_code == ErrorCode.NONE:
                self._take(entry)

    async def follow(self) -> None:
        while True:
            await self.poll(1_500)

    async def read_all(self) -> None:
        """Up to the last stable offsets of now."""
        await self.poll(0)
        while any(position < stable for position, stable in zip(self.positions, self.stable, strict=True)):
            await self.poll(0)

    async def committed_offsets(self, partitions: int) -> list[int]:
        wanted = [{"name": TOPIC, "partition_indexes": list(range(partitions))}]
        fields = {"group_id": GROUP, "topics": wanted, "require_stable": True}
        answer = await self._client.ask_until(
            OFFSET_FETCH, fields, lambda answer: max(entry.error_code for entry in answer.topics[0].partitions)
        )
        return [entry.committed_offset for entry in answer.topics[0].partitions]

    def _take(self, entry: Any) -> None:
        partition = entry.partition_index
        self.stable[partition] = entry.last_stable_offset
        self.high_watermarks[partition] = entry.high_watermark
        aborted = sorted((one.first_offset, one.producer_id) for one in entry.aborted_transactions or ())
        skipped: set[int] = set()
        data = memoryview(entry.records or b"")
        while data:
            header = read_header(data)
            batch, data = data[: header.size], data[header.size :]
            while aborted and aborted[0][0] <= header.last_offset:
                skipped.add(aborted.pop(0)[1])
            if header.is_control:
                marker = decode_marker(batch)
                if marker is not None and not marker.commit:
                    skipped.discard(header.producer_id)
            elif header.producer_id not in skipped and header.base_offset >= self.positions[partition]:
                self.seen[partition] += [(record.offset, record.value or b"") for record in decode_batch(batch)]
            self.positions[partition] = max(self.positions[partition], header.last_offset + 1)


async def create_topic(client: Client) -> None:
    topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1, "assignments": [], "configs": []}

    def code(answer: Message) -> int:
        found: int = answer.topics[0].error_code
        return ErrorCode.NONE if found == ErrorCode.TOPIC_ALREADY_EXISTS else found

    await client.ask_until(CREATE_TOPICS, {"topics": [topic], "timeout_ms": 1000, "validate_only": False}, code)
    client.hang_up()
