"""The brokers' own view, asked through the protocol: owners and epochs, what the coordinator logged, LSO and ends.

Works on any Kafka: DescribeTransactions, DescribeProducers, ListOffsets, and the records of `__transaction_state` read
as any other topic's and decoded by Kafka's schema. Only looks; changes nothing.
"""

import itertools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.groups import NO_OFFSET, OFFSET_FETCH
from fencepost.client.offsets import earliest, latest
from fencepost.client.retry import BUSY, LEADER_MOVED, Retry, known_code
from fencepost.client.transaction import DESCRIBE_TRANSACTIONS
from fencepost.errors import ConnectionLost, ErrorCode, Refused, TopicNotFound
from fencepost.wire import messages
from fencepost.wire.batch import HEADER_BYTES, read_header
from fencepost.wire.codec import ALWAYS, Message
from fencepost.wire.records import decode_batch
from fencepost.wire.terms import TRANSACTION_STATE, Isolation, TopicPartition, coordinator_partition

DESCRIBE_PRODUCERS, FETCH = 61, 1
FETCH_VERSION = 11  #: the last but one that names topics
NOT_OPEN = -1

#: As the records number them.
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "EpochFence")


@dataclass(frozen=True, slots=True)
class Owner:
    """A transactional id as its coordinator describes it."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    partitions: tuple[str, ...]

    def __str__(self) -> str:
        inside = f", {', '.join(self.partitions)} in it" if self.partitions else ""
        return f"{self.transactional_id}: producer {self.producer_id}, epoch {self.epoch}, {self.state}{inside}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "transactionalId": self.transactional_id,
            "producerId": self.producer_id,
            "epoch": self.epoch,
            "state": self.state,
            "partitions": list(self.partitions),
        }


@dataclass(frozen=True, slots=True)
class Logged:
    """One record of `__transaction_state`; `state` is Dead for a tombstone."""

    offset: int
    state: str
    producer_id: int
    epoch: int
    partitions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.state}({self.epoch})"

    def as_dict(self) -> dict[str, Any]:
        return {
            "offset": self.offset,
            "state": self.state,
            "producerId": self.producer_id,
            "epoch": self.epoch,
            "partitions": list(self.partitions),
        }


@dataclass(frozen=True, slots=True)
class Writer:
    """A producer as a partition's leader knows it."""

    producer_id: int
    epoch: int
    last_sequence: int
    open_since: int  #: the first offset of its open transaction, or NOT_OPEN


@dataclass(frozen=True, slots=True)
class Ends:
    lso: int
    end: int

    def __str__(self) -> str:
        return f"{self.lso} of {self.end}"


class View:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def owner(self, transactional_id: str) -> Owner | None:
        """None if the coordinator does not know the id."""
        answer, code = self._cluster.call_coordinator(
            Coordinates.TRANSACTION,
            transactional_id,
            DESCRIBE_TRANSACTIONS,
            {"transactional_ids": [transactional_id]},
            lambda answer: int(answer.transaction_states[0].error_code),
            what=f"state of {transactional_id!r}",
        )
        if code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        if code:
            raise Refused(code, f"transactional id {transactional_id!r}")
        found = answer.transaction_states[0]
        names = tuple(sorted(f"{topic.topic}-{p}" for topic in found.topics for p in topic.partitions))
        return Owner(transactional_id, found.producer_id, found.producer_epoch, found.transaction_state, names)

    def writers(self, where: TopicPartition) -> list[Writer]:
        """Whom the partition knows."""
        fields = {"topics": [{"name": where.topic, "partition_indexes": [where.partition]}]}
        answer = self._ask_leader(
            where, DESCRIBE_PRODUCERS, fields, lambda answer: int(answer.topics[0].partitions[0].error_code)
        )
        found = answer.topics[0].partitions[0]
        return [
            Writer(p.producer_id, p.producer_epoch, p.last_sequence, p.current_txn_start_offset)
            for p in sorted(found.active_producers, key=lambda p: p.producer_id)
        ]

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
        """Last stable offset, and high watermark."""
        wanted = list(partitions)
        stable = latest(self._cluster, wanted, Isolation.READ_COMMITTED)
        end = latest(self._cluster, wanted, Isolation.READ_UNCOMMITTED)
        return {where: Ends(stable[where], end[where]) for where in wanted}

    def committed(self, group: str, partitions: Iterable[TopicPartition], *, stable: bool) -> dict[str, int | str]:
        """By partition: the offset, -1 for none, or the name of an error such as UNSTABLE_OFFSET_COMMIT."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        entries = [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
        answer, code = self._cluster.call_coordinator(
            Coordinates.GROUP,
            group,
            OFFSET_FETCH,
            {"groups": [{"group_id": group, "topics": entries}], "require_stable": stable},
            lambda answer: int(answer.groups[0].error_code),
            what=f"offsets of {group!r}",
            lowest=8,
            highest=8,
        )
        if code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {f"{topic}-{p}": NO_OFFSET for topic, indexes in topics.items() for p in indexes}
        if code:
            raise Refused(code, f"offsets of {group!r}")
        found = [(topic.name, p) for topic in answer.groups[0].topics for p in topic.partitions]
        return {
            f"{name}-{p.partition_index}": known_code(p.error_code).name if p.error_code else int(p.committed_offset)
            for name, p in found
        }

    def transaction_log(self, transactional_id: str) -> list[Logged]:
        """What the coordinator has logged about this id and compaction has left, oldest first."""
        try:
            count = len(self._cluster.topic(TRANSACTION_STATE).partitions)
        except TopicNotFound:
            return []
        where = TopicPartition(TRANSACTION_STATE, coordinator_partition(transactional_id, count))
        position = earliest(self._cluster, [where])[where]
        end = latest(self._cluster, [where], Isolation.READ_UNCOMMITTED)[where]
        found: list[Logged] = []
        while position < end:
            records, following = self._fetch(where, position)
            if following == position:
                break
            for offset, key, value in records:
                if offset >= position and key is not None and _transactional_id(key) == transactional_id:
                    found.append(_logged(offset, value))
            position = following
        return found

    def _fetch(self, where: TopicPartition, position: int) -> tuple[list[tuple[int, bytes | None, bytes | None]], int]:
        partition = {"partition": where.partition, "fetch_offset": position, "partition_max_bytes": 1 << 20}
        fields = {
            "replica_id": -1,
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": Isolation.READ_UNCOMMITTED,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": where.topic, "partitions": [partition]}],
        }
        answer = self._ask_leader(
            where, FETCH, fields, lambda answer: int(answer.responses[0].partitions[0].error_code), FETCH_VERSION
        )
        return _records(bytes(answer.responses[0].partitions[0].records or b""), position)

    def _ask_leader(
        self,
        where: TopicPartition,
        key: int,
        fields: Mapping[str, Any],
        code_of: Callable[[Message], int],
        highest: int = ALWAYS.last,
    ) -> Message:
        """Ask whoever leads the partition, and look for the next one when that one is gone."""
        retry = Retry(f"leader of {where}", self._cluster.settings)
        while True:
            reason: object
            try:
                connection = self._cluster.connect(self._cluster.leader_address(*where))
                answer = connection.call(key, fields, highest=highest)
                reason = code = known_code(code_of(answer))
                if not code:
                    return answer
                if code not in LEADER_MOVED | BUSY:
                    raise Refused(code, str(where))
            except ConnectionLost as error:
                reason = error
            self._cluster.forget_topic(where.topic)
            retry.wait(reason)


def shorten(logged: Sequence[Logged]) -> str:
    """The records as text; a transaction that went as the one before it is counted, not repeated."""
    transactions: list[list[str]] = [[]]
    for entry in logged:
        if str(entry) not in transactions[-1][-1:]:
            transactions[-1].append(str(entry))
        if entry.state.startswith(("Complete", "Empty")):
            transactions.append([])
    words = [" → ".join(steps) for steps in transactions if steps]
    counted = [(word, len(list(same))) for word, same in itertools.groupby(words)]
    return "; ".join(f"{count}× {word}" if count > 1 else word for word, count in counted) or "nothing"


def _records(data: bytes, following: int) -> tuple[list[tuple[int, bytes | None, bytes | None]], int]:
    """The records of whole batches, and the offset after the last."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    at = 0
    while len(data) - at >= HEADER_BYTES:
        header = read_header(data, at)
        if header.size > len(data) - at:
            break
        if not header.is_control:
            found += [(r.offset, r.key, r.value) for r in decode_batch(data[at : at + header.size], header)]
        at += header.size
        following = header.last_offset + 1
    return found, following


def _transactional_id(key: bytes) -> str | None:
    if len(key) < 2 or struct.unpack_from(">h", key)[0] != 0:
        return None
    name: str = messages.data("transaction_log_key").decode(0, key, 2).transactional_id
    return name


def _logged(offset: int, value: bytes | None) -> Logged:
    if value is None:
        return Logged(offset, "Dead", -1, -1, ())
    read = messages.data("transaction_log_value").decode(struct.unpack_from(">h", value)[0], value, 2)
    topics = read.transaction_partitions or ()
    names = tuple(sorted(f"{topic.topic}-{p}" for topic in topics for p in topic.partition_ids))
    return Logged(offset, STATES[read.transaction_status], read.producer_id, read.producer_epoch, names)
