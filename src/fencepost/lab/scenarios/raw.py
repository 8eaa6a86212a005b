"""A producer that sends exactly what it is told: any identity, any sequence, one request at a time.

What a well-behaved client hides is what scenarios are about: an answer that nobody reads, a batch that is sent twice, a
zombie. So nothing is repeated here unless the broker says "in a moment", and an error code is a value and no exception.
Invariant: a `RawProducer` has connections of its own, as a process of its own would.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.connection import Connection, Pending
from fencepost.client.identity import TransactionProtocol
from fencepost.client.registration import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from fencepost.client.retry import COORDINATOR_MOVED, LEADER_MOVED, known_code
from fencepost.client.transaction import INIT_PRODUCER_ID
from fencepost.errors import ConnectionLost, ErrorCode, Refused
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from fencepost.wire.codec import Message
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition

#: By its version a request says which protocol its sender speaks (KIP-890).
PRODUCE_VERSION = {TransactionProtocol.V1: 11, TransactionProtocol.V2: 12}
END_TXN_VERSION = {TransactionProtocol.V1: 4, TransactionProtocol.V2: 5}
TXN_OFFSET_COMMIT_VERSION = {TransactionProtocol.V1: 4, TransactionProtocol.V2: 5}
ADD_PARTITIONS_VERSION = 3
ADD_OFFSETS_VERSION = 3

#: "In a moment": the coordinator is busy, loading or moving. To old clients Kafka says NOT_ENOUGH_REPLICAS for busy.
IN_A_MOMENT = (
    COORDINATOR_MOVED
    | LEADER_MOVED
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
PATIENCE_S = 60.0
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Who:
    """What a broker knows a producer by."""

    transactional_id: str | None
    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"producer {self.producer_id}, epoch {self.epoch}"


class Produced(NamedTuple):
    code: ErrorCode
    base_offset: int

    def __str__(self) -> str:
        return self.code.name if self.code else f"written at offset {self.base_offset}"


class Sent(NamedTuple):
    """A request whose answer nobody has read."""

    connection: Connection
    pending: Pending

    def hang_up(self) -> None:
        self.connection.close()


class RawProducer:
    def __init__(self, cluster: Cluster, protocol: TransactionProtocol = TransactionProtocol.V2) -> None:
        self._cluster = Cluster(cluster.settings)
        self.protocol = protocol
        self.who = Who(None, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._sequences: dict[TopicPartition, int] = {}
        self._asked: set[tuple[Coordinates, str]] = set()  #: coordinators, to be looked for anew when one is gone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    # -- identity ----------------------------------------------------------------------------------------------------

    def init(self, transactional_id: str | None = None, timeout_ms: int = 60_000) -> Who:
        """InitProducerId without saying who we were: whoever had the id before is fenced."""
        fields = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
        }

        def ask() -> tuple[ErrorCode, Message]:
            connection = (
                self._cluster.any() if transactional_id is None else self._coordinator_of_transactions(transactional_id)
            )
            answer = connection.call(INIT_PRODUCER_ID, fields, lowest=3, highest=4)
            return known_code(answer.error_code), answer

        code, answer = self._patiently(ask)
        if code or answer is None:
            raise Refused(code, f"InitProducerId of {transactional_id!r}")
        self.become(Who(transactional_id, answer.producer_id, answer.producer_epoch))
        return self.who

    def become(self, who: Who) -> None:
        """Go on as this one; a new epoch starts its sequences at 0."""
        self.who = who
        self._sequences.clear()

    def next_sequence(self, where: TopicPartition) -> int:
        return self._sequences.get(where, 0)

    # -- records -----------------------------------------------------------------------------------------------------

    def produce(
        self, where: TopicPartition, values: Sequence[bytes | str], *, sequence: int | None = None, patient: bool = True
    ) -> Produced:
        """One batch; with the next sequence unless one is given."""
        first = self.next_sequence(where) if sequence is None else sequence

        def ask() -> tuple[ErrorCode, Message]:
            # Not `Cluster.leader`, which waits: whoever is gone is to be noticed at once, and looked for anew.
            connection = self._cluster.connect(self._cluster.leader_address(*where))
            sent = self.send(where, values, first, connection)
            answer = connection.receive(sent.pending)
            result = answer.responses[0].partition_responses[0]
            return known_code(result.error_code), result

        code, result = self._patiently(ask, where) if patient else ask()
        if not code and sequence is None:
            self._sequences[where] = first + len(values)
        return Produced(code, -1 if result is None else int(result.base_offset))

    def send(
        self, where: TopicPartition, values: Sequence[bytes | str], sequence: int, connection: Connection | None = None
    ) -> Sent:
        """Only send it. On a connection of its own unless one is given."""
        connection = connection or self._cluster.borrow(self._cluster.leader_address(*where))
        version = PRODUCE_VERSION[self.protocol]
        now_ms = time.time_ns() // 1_000_000
        records = [Record(None, v.encode() if isinstance(v, str) else v, now_ms) for v in values]
        batch = encode_batch(
            records,
            producer_id=self.who.producer_id,
            producer_epoch=self.who.epoch,
            base_sequence=sequence,
            transactional=self.who.transactional_id is not None,
        )
        data = {"name": where.topic, "partition_data": [{"index": where.partition, "records": bytes(batch)}]}
        fields = {
            "transactional_id": self.who.transactional_id,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [data],
        }
        return Sent(connection, connection.send(PRODUCE, fields, lowest=version, highest=version))

    # -- the transaction ---------------------------------------------------------------------------------------------

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> ErrorCode:
        """AddPartitionsToTxn, of the first protocol."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        fields = {
            "v3_and_below_transactional_id": self.who.transactional_id,
            "v3_and_below_producer_id": self.who.producer_id,
            "v3_and_below_producer_epoch": self.who.epoch,
            "v3_and_below_topics": [{"name": name, "partitions": indexes} for name, indexes in topics.items()],
        }

        def code_of(answer: Message) -> int:
            topics = answer.results_by_topic_v3_and_below
            return next((p.partition_error_code for t in topics for p in t.results_by_partition), 0)

        return self._ask_coordinator(ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, fields, code_of)[0]

    def add_offsets(self, group: str) -> ErrorCode:
        """AddOffsetsToTxn, of the first protocol."""
        fields = {**self._fields(), "group_id": group}
        return self._ask_coordinator(ADD_OFFSETS_TO_TXN, ADD_OFFSETS_VERSION, fields, _error_code)[0]

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> ErrorCode:
        """TxnOffsetCommit: the offsets wait for the end of the transaction."""
        topics: dict[str, list[dict[str, object]]] = {}
        for (topic, partition), offset in offsets.items():
            entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(topic, []).append(entry)
        fields = {
            **self._fields(),
            "group_id": group,
            "topics": [{"name": name, "partitions": entries} for name, entries in topics.items()],
        }
        version = TXN_OFFSET_COMMIT_VERSION[self.protocol]

        def ask() -> tuple[ErrorCode, Message]:
            connection = self._coordinator(Coordinates.GROUP, group)
            answer = connection.call(TXN_OFFSET_COMMIT, fields, lowest=version, highest=version)
            codes = [p.error_code for topic in answer.topics for p in topic.partitions]
            return known_code(next((code for code in codes if code), 0)), answer

        return self._patiently(ask)[0]

    def end(self, *, commit: bool) -> ErrorCode:
        """EndTxn. The second protocol answers with the next epoch, which is taken."""
        version = END_TXN_VERSION[self.protocol]
        fields = {**self._fields(), "committed": commit}
        code, answer = self._ask_coordinator(END_TXN, version, fields, _error_code)
        if not code and answer is not None and self.protocol is TransactionProtocol.V2:
            self.become(replace(self.who, producer_id=answer.producer_id, epoch=answer.producer_epoch))
        return code

    def send_end(self, *, commit: bool) -> Sent:
        """Only send EndTxn."""
        version = END_TXN_VERSION[self.protocol]
        connection = self._cluster.borrow(self._coordinator_of_transactions(self.who.transactional_id or "").address)
        fields = {**self._fields(), "committed": commit}
        return Sent(connection, connection.send(END_TXN, fields, lowest=version, highest=version))

    def prepare(self, partitions: Iterable[TopicPartition], group: str | None = None) -> ErrorCode:
        """What comes before the first write: the first protocol registers, the second has nothing to do."""
        if self.protocol is TransactionProtocol.V2:
            return ErrorCode.NONE
        code = self.add_partitions(partitions)
        return self.add_offsets(group) if not code and group is not None else code

    # -- inside ------------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Any]:
        return {
            "transactional_id": self.who.transactional_id,
            "producer_id": self.who.producer_id,
            "producer_epoch": self.who.epoch,
        }

    def _coordinator(self, kind: Coordinates, key: str) -> Connection:
        self._asked.add((kind, key))
        return self._cluster.coordinator(kind, key)

    def _coordinator_of_transactions(self, transactional_id: str) -> Connection:
        return self._coordinator(Coordinates.TRANSACTION, transactional_id)

    def _ask_coordinator(
        self, key: int, version: int, fields: Mapping[str, Any], code_of: Callable[[Message], int]
    ) -> tuple[ErrorCode, Message | None]:
        def ask() -> tuple[ErrorCode, Message]:
            connection = self._coordinator_of_transactions(self.who.transactional_id or "")
            answer = connection.call(key, fields, lowest=version, highest=version)
            return known_code(code_of(answer)), answer

        return self._patiently(ask)

    def _patiently(
        self, ask: Callable[[], tuple[ErrorCode, Message]], where: TopicPartition | None = None
    ) -> tuple[ErrorCode, Message | None]:
        """Until the answer is not "in a moment". A lost connection is one as well: everything here may be repeated."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                code, answer = ask()
                if code not in IN_A_MOMENT or time.monotonic() > deadline_s:
                    return code, answer
            except ConnectionLost:
                if time.monotonic() > deadline_s:
                    raise
            self._forget(where)
            time.sleep(PAUSE_S)

    def _forget(self, where: TopicPartition | None) -> None:
        for kind, key in self._asked:
            self._cluster.forget_coordinator(kind, key)
        if where is not None:
            self._cluster.forget_topic(where.topic)


def _error_code(answer: Message) -> int:
    return int(answer.error_code)
