"""A client that does what it is told: any request in any version, once, and nothing hidden.

`RawConnection` speaks frames, whole or in pieces. `RawClient` adds requests, each one request and one answer, so that
its caller can send what a well-behaved client never would: a batch twice, an epoch that is over, a sequence with a gap.
An error code is a value where callers look at it (`produce`, `end`), and raises Refused where they want the answer
(`read`, `offset`). Works with any Kafka-protocol broker.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from fencepost.client.connection import MAX_ANSWER_BYTES, PLAINTEXT, Channel, Pending
from fencepost.client.fields import by_topic, producer_fields
from fencepost.client.offsets import EARLIEST, LIST_OFFSETS
from fencepost.client.registration import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    first_offset_code,
    first_partition_code,
)
from fencepost.client.retry import COORDINATOR_MOVED, LEADER_MOVED, known_code
from fencepost.client.transaction import DESCRIBE_TRANSACTIONS, INIT_PRODUCER_ID
from fencepost.errors import ConnectionLost, ErrorCode, Refused
from fencepost.security.settings import ClientSecurity
from fencepost.wire import messages
from fencepost.wire.batch import HEADER_BYTES, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, read_header
from fencepost.wire.codec import Message
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, decode_batch, decode_marker, encode_batch
from fencepost.wire.terms import Address, Isolation

FETCH, DESCRIBE_PRODUCERS = 1, 61
FETCH_BY_NAME, FETCH_BY_ID = 11, 13

#: By its version a request says which transaction protocol its sender speaks (KIP-890).
PRODUCE_V1, END_TXN_V1, TXN_OFFSET_COMMIT_V1 = 11, 4, 4
PRODUCE_V2, END_TXN_V2, TXN_OFFSET_COMMIT_V2 = 12, 5, 5

#: "In a moment": the coordinator is busy, loading or moving. To old clients Kafka says NOT_ENOUGH_REPLICAS for busy.
IN_A_MOMENT = COORDINATOR_MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
PATIENCE_S = 20.0
PAUSE_S = 0.01

Partition = tuple[str, int]
T = TypeVar("T")


class RawConnection(Channel):
    def __init__(
        self,
        address: tuple[str, int],
        *,
        timeout_s: float = 15.0,
        client_id: str = "raw",
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        super().__init__(Address(*address), client_id, timeout_s, timeout_s, security)

    @property
    def socket(self) -> socket.socket:
        return self._socket

    def call(self, api_key: int, version: int, /, **fields: Any) -> Message:
        return self.receive(self.request(api_key, version, fields))

    def frame(self, api_key: int, version: int, fields: Mapping[str, Any]) -> tuple[bytes, Pending]:
        """A request as it would be sent, size and header included."""
        body = messages.api(api_key).request.encode(version, fields)
        pending, header = self._header(api_key, version, [body])
        return bytes(header + body), pending

    def send_bytes(self, data: bytes, *complete: Pending) -> None:
        """Send anything; `complete` are the requests that can be answered with it."""
        self._send([data])
        self._in_flight.extend(complete)

    def receive_bytes(self) -> bytes:
        """The next frame without its size, whatever it is."""
        return bytes(self._read_frame("what was sent", self._timeout_s, None, MAX_ANSWER_BYTES))

    def is_closed_by_peer(self) -> bool:
        """Wait until the broker hangs up; answers that come before are dropped. Raises TimeoutError."""
        with contextlib.suppress(ConnectionError):
            while self._socket.recv(1 << 16):
                pass
        return True


@dataclass
class Session:
    """A producer: its identity for a broker, and the sequences that it has used."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    transactional_id: str | None = None
    sequences: dict[Partition, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"producer {self.producer_id}, epoch {self.epoch}"

    @property
    def fields(self) -> dict[str, Any]:
        return producer_fields(self.transactional_id, self.producer_id, self.epoch)

    def batch(
        self,
        topic: str,
        partition: int,
        values: Sequence[str | bytes],
        *,
        sequence: int | None = None,
        compression: Compression = Compression.NONE,
        record_key: str | None = None,
    ) -> bytearray:
        """The next batch for a partition; with `sequence`, one that does not count."""
        where = (topic, partition)
        if self.producer_id == NO_PRODUCER_ID:
            sequence = NO_SEQUENCE
        elif sequence is None:
            sequence = self.sequences.get(where, 0)
            self.sequences[where] = sequence + len(values)
        key = record_key.encode() if record_key is not None else None
        return encode_batch(
            [Record(key, value.encode() if isinstance(value, str) else value, now_ms()) for value in values],
            compression=compression,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=self.transactional_id is not None,
        )

    def moved_to(self, producer_id: int, epoch: int) -> None:
        """Sequences begin at 0 in every epoch."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences.clear()


class Produced(NamedTuple):
    error: ErrorCode
    base_offset: int

    def __str__(self) -> str:
        return self.error.name if self.error else f"written at offset {self.base_offset}"


@dataclass(frozen=True, slots=True)
class View:
    """A partition as one kind of reader sees it, from its start to its end."""

    records: list[Record]
    batches: list[BatchHeader]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int

    @property
    def values(self) -> list[str]:
        return [(record.value or b"").decode() for record in self.records]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]


class RawClient(RawConnection):
    # -- writing -----------------------------------------------------------------------------------------------------

    def try_init(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        producer_id: int = NO_PRODUCER_ID,
        epoch: int = NO_PRODUCER_EPOCH,
        version: int = 5,
    ) -> Session:
        """InitProducerId once. Fences the id's earlier owner, unless `producer_id` and `epoch` are that owner's."""
        fields = producer_fields(transactional_id, producer_id, epoch)
        answer = self.call(INIT_PRODUCER_ID, version, **fields, transaction_timeout_ms=timeout_ms)
        check(answer.error_code, f"InitProducerId of {transactional_id!r}")
        return Session(answer.producer_id, answer.producer_epoch, transactional_id)

    def init_producer(self, transactional_id: str | None = None, **more: int) -> Session:
        """`try_init`, repeated while the previous transaction is ending, as clients do."""
        return patiently(lambda: self.try_init(transactional_id, **more))

    def produce(
        self,
        topic: str | bytes,
        partition: int,
        records: bytes | bytearray | None,
        *,
        transactional_id: str | None = None,
        version: int = PRODUCE_V1,
        acks: int = -1,
    ) -> Produced:
        """`topic` is an id from version 13 on."""
        answer = self.call(PRODUCE, version, **produce_fields({(topic, partition): records}, transactional_id, acks))
        result = answer.responses[0].partition_responses[0]
        return Produced(known_code(result.error_code), result.base_offset)

    def append(
        self, session: Session, topic: str, partition: int, values: Sequence[str], *, version: int = PRODUCE_V2
    ) -> int:
        """Produce the session's next batch, and give its offset. Repeated while the previous transaction is ending."""
        batch = session.batch(topic, partition, values)
        result = patiently(
            lambda: self.produce(topic, partition, batch, transactional_id=session.transactional_id, version=version)
        )
        check(result.error, f"Produce {topic}-{partition}")
        return result.base_offset

    # -- transactions ------------------------------------------------------------------------------------------------

    def add_partitions(self, session: Session, partitions: Iterable[Partition]) -> ErrorCode:
        """AddPartitionsToTxn, of the first protocol."""
        fields = {f"v3_and_below_{name}": value for name, value in session.fields.items()}
        answer = self.call(ADD_PARTITIONS_TO_TXN, 3, **fields, v3_and_below_topics=by_topic(partitions))
        return known_code(first_partition_code(answer))

    def add_offsets(self, session: Session, group: str) -> ErrorCode:
        """AddOffsetsToTxn, of the first protocol."""
        return known_code(self.call(ADD_OFFSETS_TO_TXN, 3, **session.fields, group_id=group).error_code)

    def commit_offsets_in_transaction(
        self, session: Session, group: str, offsets: Mapping[Any, int], *, version: int = TXN_OFFSET_COMMIT_V2
    ) -> ErrorCode:
        """TxnOffsetCommit: the offsets wait for the end of the transaction."""
        topics = offset_topics(offsets)
        answer = self.call(TXN_OFFSET_COMMIT, version, **session.fields, group_id=group, topics=topics)
        return known_code(first_offset_code(answer))

    def end(self, session: Session, *, commit: bool, version: int = END_TXN_V2) -> ErrorCode:
        """EndTxn once; in the second protocol the session moves to the epoch in the answer."""
        answer = self.call(END_TXN, version, **session.fields, committed=commit)
        if not answer.error_code and version >= END_TXN_V2:
            session.moved_to(answer.producer_id, answer.producer_epoch)
        return known_code(answer.error_code)

    def describe_transaction(self, transactional_id: str) -> Message:
        answer = self.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id])
        state: Message = answer.transaction_states[0]
        check(state.error_code, f"transactional id {transactional_id!r}")
        return state

    def producers(self, topic: str, partition: int) -> dict[int, Any]:
        """Producer id → what the partition knows about it."""
        answer = self.call(DESCRIBE_PRODUCERS, 0, topics=by_topic([(topic, partition)], "partition_indexes"))
        result = answer.topics[0].partitions[0]
        check(result.error_code, f"DescribeProducers {topic}-{partition}")
        return {p.producer_id: p for p in result.active_producers}

    # -- reading -----------------------------------------------------------------------------------------------------

    def fetch_once(self, topic: str | bytes, partition: int, offset: int, isolation: int, **more: int) -> Message:
        """The partition's part of the answer. `topic` is a name or an id, `more` is as for `fetch_fields`."""
        version = FETCH_BY_ID if isinstance(topic, bytes) else FETCH_BY_NAME
        answer = self.call(FETCH, version, **fetch_fields(topic, partition, offset, isolation, **more))
        result: Message = answer.responses[0].partitions[0]
        return result

    def read(self, topic: str, partition: int, isolation: int = Isolation.READ_COMMITTED) -> View:
        """Everything that a reader of this isolation level can see now."""
        offset = self.offset(topic, partition, EARLIEST)
        records: list[Record] = []
        batches: list[BatchHeader] = []
        while True:
            result = self.fetch_once(topic, partition, offset, isolation)
            check(result.error_code, f"Fetch {topic}-{partition} at {offset}")
            aborted = [(a.first_offset, a.producer_id) for a in result.aborted_transactions or ()]
            found, next_offset = visible_records(bytes(result.records or b""), offset, aborted, batches)
            records += found
            end = result.last_stable_offset if isolation == Isolation.READ_COMMITTED else result.high_watermark
            if next_offset == offset:
                if offset < end:
                    text = f"nothing to read at {offset} of {topic}-{partition}, which ends at {end}"
                    raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, text)
                return View(records, batches, result.high_watermark, result.last_stable_offset, result.log_start_offset)
            offset = next_offset

    def offset(self, topic: str, partition: int, timestamp: int, isolation: int = Isolation.READ_UNCOMMITTED) -> int:
        entry = {"partition_index": partition, "timestamp": timestamp}
        answer = self.call(LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=by_topic([(topic, entry)]))
        result = answer.topics[0].partitions[0]
        check(result.error_code, f"ListOffsets {topic}-{partition}")
        return int(result.offset)


def check(code: int, what: str) -> None:
    if code:
        raise Refused(known_code(code), what)


def patiently(ask: Callable[[], T], timeout_s: float = PATIENCE_S, *, recover: Callable[[], None] | None = None) -> T:
    """Ask until the answer is not "in a moment". After `timeout_s` the last answer counts.

    `recover` is called between two attempts. With it, a lost connection and a leader that moved are "in a moment" too.
    Only for what may be done twice.
    """
    again = IN_A_MOMENT | LEADER_MOVED if recover is not None else IN_A_MOMENT
    deadline_s = time.monotonic() + timeout_s
    while True:
        is_last = time.monotonic() > deadline_s
        try:
            result = ask()
            code = result.error if isinstance(result, Produced) else result
            if is_last or not (isinstance(code, ErrorCode) and code in again):
                return result
        except (Refused, ConnectionLost) as error:
            is_soon = error.code in again if isinstance(error, Refused) else recover is not None
            if is_last or not is_soon:
                raise
        if recover is not None:
            recover()
        time.sleep(PAUSE_S)


def visible_records(
    data: bytes, from_offset: int, aborted: Iterable[tuple[int, int]], batches: list[BatchHeader]
) -> tuple[list[Record], int]:
    """The records that an application sees, and the next offset to fetch. A batch that is cut at the end is left out.

    `aborted` is (first offset, producer id), as the broker sent it. Headers are added to `batches`.
    """
    found: list[Record] = []
    to_come = sorted(aborted, reverse=True)
    open_aborted: set[int] = set()
    position = 0
    next_offset = from_offset
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position)
        if header.size > len(data) - position:
            break
        batch = data[position : position + header.size]
        position += header.size
        while to_come and to_come[-1][0] <= header.last_offset:
            open_aborted.add(to_come.pop()[1])
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and not marker.commit:
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            found += [record for record in decode_batch(batch, header) if record.offset >= from_offset]
        batches.append(header)
        next_offset = header.last_offset + 1
    return found, next_offset


def produce_fields(
    batches: Mapping[Any, bytes | bytearray | None], transactional_id: str | None = None, acks: int = -1
) -> dict[str, Any]:
    """Batches by topic, which is a name or an id, and partition."""
    are_ids = any(isinstance(topic, bytes) for topic, _ in batches)
    entries = (
        (topic, {"index": partition, "records": None if records is None else bytes(records)})
        for (topic, partition), records in batches.items()
    )
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 30_000,
        "topic_data": by_topic(entries, "partition_data", "topic_id" if are_ids else "name"),
    }


def fetch_fields(
    topic: str | bytes, partition: int, offset: int, isolation: int, *, max_wait_ms: int = 0, max_bytes: int = 1 << 20
) -> dict[str, Any]:
    entry = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": 1 if max_wait_ms else 0,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id" if isinstance(topic, bytes) else "topic": topic, "partitions": [entry]}],
    }


def offset_topics(offsets: Mapping[Any, int], metadata: str = "") -> list[dict[str, Any]]:
    """Offsets to be committed, by partition."""
    return by_topic(
        (topic, {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata})
        for (topic, partition), offset in offsets.items()
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000
