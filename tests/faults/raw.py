"""A client that does exactly what it is told: any request in any version, nothing retried, nothing hidden.

`RawClient` speaks frames; `Kafka` adds the requests that the fault tests need, each one request and one answer, so that
a test can send what a well-behaved client never would. Works against any Kafka-protocol broker.
"""

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from fencepost.errors import ErrorCode
from fencepost.wire import messages
from fencepost.wire.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader, read_header
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, decode_batch, decode_marker, encode_batch
from fencepost.wire.varint import read_unsigned

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 18, 19, 20, 22
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, WRITE_TXN_MARKERS, TXN_OFFSET_COMMIT = 24, 25, 26, 27, 28
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST, EARLIEST = -1, -2

#: The transaction protocols by the versions in which their requests are sent.
PRODUCE_V1, END_TXN_V1, TXN_OFFSET_COMMIT_V1 = 11, 4, 4
PRODUCE_V2, END_TXN_V2, TXN_OFFSET_COMMIT_V2 = 12, 5, 5

Address = tuple[str, int]
T = TypeVar("T")


class Disconnected(ConnectionError):
    """The broker closed the connection (or died)."""


class Refused(Exception):
    """The broker answered with an error code."""

    def __init__(self, code: int, where: str) -> None:
        self.code = ErrorCode(code)
        super().__init__(f"{where}: {self.code.name}")


def check(code: int, where: str) -> None:
    if code:
        raise Refused(code, where)


class RawClient:
    """One connection; requests may be pipelined with `send` and `receive`."""

    def __init__(
        self,
        address: Address,
        *,
        timeout_s: float = 15.0,
        client_id: str = "raw",
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(timeout_s)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id.encode()
        self._correlation = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def frame(self, api: int, version: int, fields: Mapping[str, Any]) -> tuple[bytes, int]:
        """The bytes of a request, its size in front, and its correlation id."""
        schema = messages.api(api).request
        correlation = next(self._correlation)
        out = bytearray(struct.pack(">hhih", api, version, correlation, len(self._client_id)) + self._client_id)
        if version in schema.flexible:
            out.append(0)
        schema.encode(version, fields, out)
        return struct.pack(">i", len(out)) + out, correlation

    def send(self, api: int, version: int, fields: Mapping[str, Any]) -> int:
        data, correlation = self.frame(api, version, fields)
        self.send_bytes(data)
        return correlation

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise Disconnected(str(error)) from None

    def receive(self) -> bytes:
        """One whole answer without its size."""
        (size,) = struct.unpack(">i", self.receive_bytes(4))
        return self.receive_bytes(size)

    def receive_bytes(self, count: int) -> bytes:
        out = bytearray()
        while len(out) < count:
            try:
                piece = self.socket.recv(min(count - len(out), 1 << 20))
            except TimeoutError:
                raise
            except OSError as error:
                raise Disconnected(str(error)) from None
            if not piece:
                raise Disconnected("closed by the broker")
            out += piece
        return bytes(out)

    def decode(self, api: int, version: int, answer: bytes) -> Any:
        schema = messages.api(api).response
        position = 4
        if version in schema.flexible and api != API_VERSIONS:
            count, position = read_unsigned(answer, position)
            if count:
                raise ValueError("tags in a response header")
        return schema.decode(version, answer, position)

    def call(self, api: int, version: int, **fields: Any) -> Any:
        correlation = self.send(api, version, fields)
        answer = self.receive()
        (echoed,) = struct.unpack_from(">i", answer)
        if echoed != correlation:
            raise ValueError(f"answer to request {echoed} where {correlation} was expected")
        return self.decode(api, version, answer)

    def is_closed_by_peer(self) -> bool:
        """Wait until the broker hangs up; answers that come before are read and dropped. Raises TimeoutError."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(1 << 16):
                pass
        return True


@dataclass
class Session:
    """A producer: its identity and the sequences that it has used."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def batch(
        self,
        topic: str,
        partition: int,
        values: Sequence[str],
        *,
        sequence: int | None = None,
        compression: Compression = Compression.NONE,
        record_key: str | None = None,
    ) -> bytearray:
        """The next batch for a partition; with `sequence`, one that does not count."""
        key = (topic, partition)
        if sequence is None:
            sequence = self.sequences.get(key, 0)
            self.sequences[key] = sequence + len(values)
        return encode_batch(
            [Record(record_key and record_key.encode(), value.encode(), now_ms()) for value in values],
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


@dataclass(frozen=True)
class Produced:
    error: ErrorCode
    base_offset: int
    message: str | None


@dataclass(frozen=True)
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


class Kafka(RawClient):
    """The requests of the fault tests, with the answer's error raised unless the caller wants to look at it."""

    # -- topics -------------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        answer = self.call(
            CREATE_TOPICS,
            5,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [{"name": k.replace("_", "."), "value": v} for k, v in config.items()],
                }
            ],
            timeout_ms=10_000,
        )
        check(answer.topics[0].error_code, f"CreateTopics {name}")
        eventually(lambda: self._has_leaders(name, partitions), f"leaders of {name}")

    def _has_leaders(self, name: str, partitions: int) -> bool:
        """Apache Kafka answers before the partitions are ready, and tells of a leader before that one knows."""
        topic = self.metadata([name]).topics[0]
        if topic.error_code or len([p for p in topic.partitions if p.leader_id >= 0]) != partitions:
            return False
        try:
            for partition in range(partitions):
                self.offset(name, partition, LATEST)
        except Refused:
            return False
        return True

    def metadata(self, names: Sequence[str] | None) -> Any:
        topics = None if names is None else [{"name": name} for name in names]
        return self.call(METADATA, 12, topics=topics, allow_auto_topic_creation=False)

    def delete_topic(self, name: str) -> ErrorCode:
        answer = self.call(DELETE_TOPICS, 4, topic_names=[name], timeout_ms=10_000)
        return ErrorCode(answer.responses[0].error_code)

    # -- writing ------------------------------------------------------------------------------------------------------

    def init_producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        producer_id: int = -1,
        epoch: int = -1,
        version: int = 5,
    ) -> Session:
        """Repeats while a transaction before is being ended, as clients do."""

        def attempt() -> Session | None:
            answer = self.call(
                INIT_PRODUCER_ID,
                version,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            if answer.error_code in RETRY_INIT:
                return None
            check(answer.error_code, f"InitProducerId {transactional_id}")
            return Session(answer.producer_id, answer.producer_epoch, transactional_id)

        return eventually(attempt, f"InitProducerId {transactional_id}")

    def produce(
        self,
        topic: str,
        partition: int,
        records: bytes | bytearray | None,
        *,
        transactional_id: str | None = None,
        version: int = PRODUCE_V1,
        acks: int = -1,
    ) -> Produced:
        answer = self.call(PRODUCE, version, **produce_fields({(topic, partition): records}, transactional_id, acks))
        result = answer.responses[0].partition_responses[0]
        return Produced(ErrorCode(result.error_code), result.base_offset, result.error_message)

    def append(
        self, session: Session, topic: str, partition: int, values: Sequence[str], *, version: int = PRODUCE_V2
    ) -> int:
        """Produce the session's next batch and give its offset; while a transaction before is ended, repeat."""
        batch = session.batch(topic, partition, values)

        def attempt() -> int | None:
            result = self.produce(topic, partition, batch, transactional_id=session.transactional_id, version=version)
            if result.error in RETRY_PRODUCE:
                return None
            check(result.error, f"Produce {topic}-{partition}")
            return result.base_offset

        return eventually(attempt, f"Produce {topic}-{partition}")

    def write(self, topic: str, partition: int, values: Sequence[str]) -> int:
        """A plain acks=all batch without a producer id."""
        batch = encode_batch([Record(None, value.encode(), now_ms()) for value in values])
        result = self.produce(topic, partition, batch)
        check(result.error, f"Produce {topic}-{partition}")
        return result.base_offset

    # -- transactions -------------------------------------------------------------------------------------------------

    def add_partitions(self, session: Session, partitions: Iterable[tuple[str, int]], *, version: int = 3) -> ErrorCode:
        """The first error of any partition."""
        answer = self.call(
            ADD_PARTITIONS_TO_TXN,
            version,
            v3_and_below_transactional_id=session.transactional_id,
            v3_and_below_producer_id=session.producer_id,
            v3_and_below_producer_epoch=session.epoch,
            v3_and_below_topics=[{"name": t, "partitions": ps} for t, ps in by_topic(partitions).items()],
        )
        codes = [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]
        return ErrorCode(next((code for code in codes if code), 0))

    def add_offsets(self, session: Session, group: str) -> ErrorCode:
        answer = self.call(
            ADD_OFFSETS_TO_TXN,
            3,
            transactional_id=session.transactional_id,
            producer_id=session.producer_id,
            producer_epoch=session.epoch,
            group_id=group,
        )
        return ErrorCode(answer.error_code)

    def commit_offsets_in_transaction(
        self,
        session: Session,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        version: int = TXN_OFFSET_COMMIT_V2,
    ) -> ErrorCode:
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            )
        answer = self.call(
            TXN_OFFSET_COMMIT,
            version,
            transactional_id=session.transactional_id,
            group_id=group,
            producer_id=session.producer_id,
            producer_epoch=session.epoch,
            topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        )
        codes = [p.error_code for t in answer.topics for p in t.partitions]
        return ErrorCode(next((code for code in codes if code), 0))

    def end(self, session: Session, *, commit: bool, version: int = END_TXN_V2) -> ErrorCode:
        """EndTxn once; from version 5 on the session moves to the epoch in the answer."""
        answer = self.call(END_TXN, version, **end_fields(session, commit=commit))
        if answer.error_code == 0 and version >= END_TXN_V2:
            session.moved_to(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)

    def transactions(self) -> dict[str, str]:
        """Transactional id → state."""
        answer = self.call(LIST_TRANSACTIONS, 0, state_filters=[], producer_id_filters=[])
        check(answer.error_code, "ListTransactions")
        return {t.transactional_id: t.transaction_state for t in answer.transaction_states}

    def describe_transaction(self, transactional_id: str) -> Any:
        return self.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id]).transaction_states[0]

    def producers(self, topic: str, partition: int) -> dict[int, Any]:
        """Producer id → what the partition knows about it."""
        answer = self.call(DESCRIBE_PRODUCERS, 0, topics=[{"name": topic, "partition_indexes": [partition]}])
        result = answer.topics[0].partitions[0]
        check(result.error_code, f"DescribeProducers {topic}-{partition}")
        return {p.producer_id: p for p in result.active_producers}

    # -- reading ------------------------------------------------------------------------------------------------------

    def fetch_once(
        self, topic: str, partition: int, offset: int, isolation: int, *, max_wait_ms: int = 0, max_bytes: int = 1 << 20
    ) -> Any:
        answer = self.call(
            FETCH, 11, **fetch_fields(topic, partition, offset, isolation, max_wait_ms=max_wait_ms, max_bytes=max_bytes)
        )
        return answer.responses[0].partitions[0]

    def read(self, topic: str, partition: int, isolation: int = READ_COMMITTED) -> View:
        """Everything that a reader of this isolation level can see now."""
        offset = self.offset(topic, partition, EARLIEST)
        records: list[Record] = []
        batches: list[BatchHeader] = []
        while True:
            result = self.fetch_once(topic, partition, offset, isolation)
            check(result.error_code, f"Fetch {topic}-{partition} at {offset}")
            aborted = sorted(((a.first_offset, a.producer_id) for a in result.aborted_transactions or ()), reverse=True)
            found, next_offset = visible_records(bytes(result.records or b""), offset, aborted, batches)
            records += found
            end = result.last_stable_offset if isolation == READ_COMMITTED else result.high_watermark
            if next_offset == offset:
                if offset < end:
                    raise AssertionError(f"nothing to read at {offset} of {topic}-{partition}, which ends at {end}")
                return View(records, batches, result.high_watermark, result.last_stable_offset, result.log_start_offset)
            offset = next_offset

    def offset(self, topic: str, partition: int, timestamp: int, isolation: int = READ_UNCOMMITTED) -> int:
        answer = self.call(
            LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=isolation,
            topics=[{"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}],
        )
        result = answer.topics[0].partitions[0]
        check(result.error_code, f"ListOffsets {topic}-{partition}")
        return int(result.offset)

    # -- groups -------------------------------------------------------------------------------------------------------

    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        answer = self.call(
            OFFSET_COMMIT,
            7,
            group_id=group,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
                    ],
                }
            ],
        )
        check(answer.topics[0].partitions[0].error_code, f"OffsetCommit {group}")

    def committed(
        self, group: str, partitions: Iterable[tuple[str, int]], *, require_stable: bool = True
    ) -> dict[tuple[str, int], int]:
        """Committed offsets, -1 for none; waits for pending ones unless told otherwise."""
        wanted = by_topic(partitions)

        def attempt() -> dict[tuple[str, int], int] | None:
            answer = self.call(
                OFFSET_FETCH,
                8,
                groups=[
                    {
                        "group_id": group,
                        "topics": [{"name": t, "partition_indexes": ps} for t, ps in wanted.items()],
                    }
                ],
                require_stable=require_stable,
            ).groups[0]
            if answer.error_code in RETRY_COORDINATOR:
                return None
            check(answer.error_code, f"OffsetFetch {group}")
            results = {(t.name, p.partition_index): p for t in answer.topics for p in t.partitions}
            if any(p.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT for p in results.values()):
                return None
            for where, result in results.items():
                check(result.error_code, f"OffsetFetch {group} {where}")
            return {where: result.committed_offset for where, result in results.items()}

        return eventually(attempt, f"stable offsets of {group}")

    def find_coordinator(self, key: str, key_type: int) -> None:
        """Until there is one: Apache Kafka creates its internal topics at the first question."""

        def attempt() -> bool:
            answer = self.call(FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[key])
            return bool(answer.coordinators[0].error_code == 0)

        eventually(attempt, f"coordinator of {key}")


RETRY_COORDINATOR = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
RETRY_INIT = RETRY_COORDINATOR | {ErrorCode.CONCURRENT_TRANSACTIONS}
#: To old clients Kafka says "not enough replicas" when it means that the coordinator is busy.
RETRY_PRODUCE = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS})


def visible_records(
    data: bytes, from_offset: int, aborted: list[tuple[int, int]], batches: list[BatchHeader]
) -> tuple[list[Record], int]:
    """The records that an application gets to see, and the next offset to fetch; a batch cut at the end is left out.

    `aborted` is (first offset, producer id) with the lowest offset last, as the broker sent it.
    """
    found: list[Record] = []
    open_aborted: set[int] = set()
    position = 0
    next_offset = from_offset
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position)
        if header.size > len(data) - position:
            break
        batch = data[position : position + header.size]
        position += header.size
        while aborted and aborted[-1][0] <= header.last_offset:
            open_aborted.add(aborted.pop()[1])
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
    batches: Mapping[tuple[str, int], bytes | bytearray | None], transactional_id: str | None = None, acks: int = -1
) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), records in batches.items():
        data = None if records is None else bytes(records)
        topics.setdefault(topic, []).append({"index": partition, "records": data})
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 30_000,
        "topic_data": [{"name": name, "partition_data": data} for name, data in topics.items()],
    }


def fetch_fields(
    topic: str, partition: int, offset: int, isolation: int, *, max_wait_ms: int = 0, max_bytes: int = 1 << 20
) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": 1 if max_wait_ms else 0,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {
                "topic": topic,
                "partitions": [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}],
            }
        ],
    }


def end_fields(session: Session, *, commit: bool) -> dict[str, Any]:
    return {
        "transactional_id": session.transactional_id,
        "producer_id": session.producer_id,
        "producer_epoch": session.epoch,
        "committed": commit,
    }


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def eventually(condition: Callable[[], T | None], what: str, *, timeout_s: float = 20.0) -> T:
    """Wait for a condition to be true (or a value to be there), and say what was waited for when it never is."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.002
    while True:
        result = condition()
        if result is not None and result is not False:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)


#: What precedes a batch's length in bytes, for tests that cut files.
BATCH_PREFIX_BYTES = LOG_OVERHEAD
