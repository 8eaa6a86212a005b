"""The brokers' own view through the protocol: owners and epochs, what the coordinator logged, LSO and ends.

Works on any Kafka: DescribeTransactions, DescribeProducers, ListOffsets, and the records of `__transaction_state`, read
like any topic and decoded with Kafka's schema. It changes nothing.
"""

import itertools
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.fields import by_topic
from fencepost.client.groups import NO_OFFSET, OFFSET_FETCH
from fencepost.client.offsets import latest
from fencepost.client.retry import known_code
from fencepost.errors import ErrorCode, Refused, TopicNotFound
from fencepost.lab.kit.raw import Brokers
from fencepost.wire import messages
from fencepost.wire.terms import TRANSACTION_STATE, Isolation, TopicPartition, coordinator_partition

NOT_OPEN = -1

#: By their number in the records.
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
        self._brokers = Brokers(cluster)

    def close(self) -> None:
        self._brokers.close()

    def owner(self, transactional_id: str) -> Owner | None:
        """None if the coordinator does not know the id."""
        try:
            found = self._brokers.coordinator(
                Coordinates.TRANSACTION, transactional_id, lambda client: client.describe_transaction(transactional_id)
            )
        except Refused as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            raise
        names = tuple(sorted(f"{topic.topic}-{p}" for topic in found.topics for p in topic.partitions))
        return Owner(transactional_id, found.producer_id, found.producer_epoch, found.transaction_state, names)

    def writers(self, where: TopicPartition) -> list[Writer]:
        """The producers that the partition knows."""
        found = self._brokers.leader(where, lambda client: client.producers(*where))
        return [
            Writer(producer_id, p.producer_epoch, p.last_sequence, p.current_txn_start_offset)
            for producer_id, p in sorted(found.items())
        ]

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
        """Last stable offset, and high watermark."""
        wanted = list(partitions)
        stable = latest(self._cluster, wanted, Isolation.READ_COMMITTED)
        end = latest(self._cluster, wanted, Isolation.READ_UNCOMMITTED)
        return {where: Ends(stable[where], end[where]) for where in wanted}

    def committed(self, group: str, partitions: Iterable[TopicPartition], *, stable: bool) -> dict[str, int | str]:
        """By partition: the offset, -1 for none, or the name of an error such as UNSTABLE_OFFSET_COMMIT."""
        wanted = list(partitions)
        entries = by_topic(wanted, "partition_indexes")
        answer, code = self._cluster.call_coordinator(
            Coordinates.GROUP,
            group,
            OFFSET_FETCH,
            {"groups": [{"group_id": group, "topics": entries}], "require_stable": stable},
            what=f"offsets of {group!r}",
            code_of=lambda answer: int(answer.groups[0].error_code),
            lowest=8,
            highest=8,
        )
        if code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {str(where): NO_OFFSET for where in wanted}
        if code:
            raise Refused(code, f"offsets of {group!r}")
        found = [(topic.name, p) for topic in answer.groups[0].topics for p in topic.partitions]
        return {
            f"{name}-{p.partition_index}": known_code(p.error_code).name if p.error_code else int(p.committed_offset)
            for name, p in found
        }

    def transaction_log(self, transactional_id: str) -> list[Logged]:
        """The coordinator's records about this id, as far as compaction has left them, oldest first."""
        try:
            count = len(self._cluster.topic(TRANSACTION_STATE).partitions)
        except TopicNotFound:
            return []
        where = TopicPartition(TRANSACTION_STATE, coordinator_partition(transactional_id, count))
        view = self._brokers.leader(where, lambda client: client.read(*where, Isolation.READ_UNCOMMITTED))
        return [
            _logged(record.offset, record.value)
            for record in view.records
            if record.key is not None and _transactional_id(record.key) == transactional_id
        ]


def as_dict(seen: Owner | Logged) -> dict[str, Any]:
    """For JSON, with Kafka's names: `producer_id` is producerId."""
    return {re.sub("_(.)", lambda m: m[1].upper(), name): value for name, value in asdict(seen).items()}


def shorten(logged: Sequence[Logged]) -> str:
    """The records as text. Equal transactions in a row are counted, not repeated."""
    transactions: list[list[str]] = [[]]
    for entry in logged:
        if str(entry) not in transactions[-1][-1:]:
            transactions[-1].append(str(entry))
        if entry.state.startswith(("Complete", "Empty")):
            transactions.append([])
    words = [" → ".join(steps) for steps in transactions if steps]
    counted = [(word, len(list(same))) for word, same in itertools.groupby(words)]
    return "; ".join(f"{count}× {word}" if count > 1 else word for word, count in counted) or "nothing"


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
