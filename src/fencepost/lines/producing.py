"""Records to be written, gathered in batches: idempotently, or all of them in one transaction.

Batches fit what their topic takes (`max.message.bytes`). A record that it can never take is refused when it is added.

Invariant: in a transaction nothing is visible before all of the input has been read and written, and after an error
nothing ever is. Without one, a partition's records are written in the order of the input, each once.
"""

import contextlib
import enum
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from fencepost.client.cluster import Cluster
from fencepost.client.idempotent import init_idempotent
from fencepost.client.partitioner import partition_for
from fencepost.client.produce_parts import ACKS_ALL
from fencepost.client.rights import Operation, wanted
from fencepost.client.shapes import TopicShape, shape_of
from fencepost.client.transaction import DEFAULT_TIMEOUT_MS, SharedTransaction
from fencepost.client.writing import Acknowledged, TransactionWriter
from fencepost.errors import ConfigError, FencepostError
from fencepost.lines.json_lines import Draft
from fencepost.wire.batch import HEADER_BYTES
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition

#: Record batches are filled up to this size, before they are compressed.
BATCH_BYTES = 512 << 10
#: What a record takes beside its key, value and headers, at most.
RECORD_OVERHEAD = 32
#: In all partitions together, before the fullest one is written.
GATHERED_BYTES_MAX = 8 << 20


class Placing(enum.Enum):
    """Which partition a record goes to."""

    OWN = enum.auto()  #: the one that its line names, else by key
    BY_KEY = enum.auto()  #: as Kafka's clients do; without a key, one batch here and one there


@dataclass(frozen=True, slots=True)
class Order:
    topic: str | None  #: None: the one that a line names
    placing: Placing | int = Placing.OWN  #: or one partition for all
    compression: Compression = Compression.NONE
    acks: int = ACKS_ALL
    transactional_id: str | None = None  #: None: without a transaction
    transaction_timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(slots=True)
class _Gathered:
    records: list[Record] = field(default_factory=list)
    size: int = 0


class Producing:
    """`add` records, then `finish`. After an error, `give_up`."""

    def __init__(self, cluster: Cluster, order: Order) -> None:
        self._cluster = cluster
        self._order = order
        self._transaction: SharedTransaction | None = None
        if order.transactional_id is not None:
            self._transaction = SharedTransaction(
                cluster, order.transactional_id, timeout_ms=order.transaction_timeout_ms
            )
            self._transaction.init()
        self._writer: TransactionWriter | None = None
        self._gathered: dict[TopicPartition, _Gathered] = {}
        self._size = 0
        self._turns = itertools.count()
        self._shapes: dict[str, TopicShape] = {}
        self._keyless: dict[str, int] = {}  #: the partition for records without a key, until its batch is full

    def add(self, draft: Draft) -> None:
        where = self._place(draft)
        timestamp = time.time_ns() // 1_000_000 if draft.timestamp is None else draft.timestamp
        record = Record(draft.key, draft.value, timestamp, headers=draft.headers)
        size = RECORD_OVERHEAD + len(draft.key or b"") + len(draft.value or b"")
        size += sum(len(name) * 4 + len(value or b"") + 8 for name, value in draft.headers)
        shape = self._shape(where.topic)
        self._refuse_unfit(where.topic, shape, record, size)
        batch_bytes = min(BATCH_BYTES, (shape.max_message_bytes or BATCH_BYTES) - HEADER_BYTES)
        if where in self._gathered and self._gathered[where].size + size > batch_bytes:
            self._write(where)
        gathered = self._gathered.setdefault(where, _Gathered())
        gathered.records.append(record)
        gathered.size += size
        self._size += size
        if self._size > GATHERED_BYTES_MAX:
            self._write(max(self._gathered, key=lambda each: self._gathered[each].size))

    def flush(self) -> None:
        """Everything is written and acknowledged. In a transaction there is no hurry: nobody sees it yet."""
        if self._transaction is None:
            self._write_all()

    def finish(self) -> None:
        """Write the rest, and commit."""
        self._write_all()
        if self._writer is not None:
            self._writer.close()
            if self._transaction is not None:
                self._transaction.commit()

    def give_up(self) -> None:
        """Write no more; abort the transaction. Nothing is aborted once a commit may have been sent.

        What is under way is awaited first. Without KIP-890, records that arrive after the abort would begin a
        transaction that nobody ends.
        """
        if self._writer is not None:
            with contextlib.suppress(FencepostError):
                self._writer.flush()
            self._writer.close()
        if self._transaction is not None and self._transaction.is_open:
            self._transaction.abort()

    @property
    def is_transactional(self) -> bool:
        return self._transaction is not None

    @property
    def written(self) -> dict[TopicPartition, Acknowledged]:
        """By partition, as far as it is acknowledged."""
        return {} if self._writer is None else {w: a for w, a in self._writer.written.items() if a.records}

    # -- inside ------------------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        for where in list(self._gathered):
            self._write(where)
        if self._writer is not None:
            self._writer.flush()

    def _write(self, where: TopicPartition) -> None:
        gathered = self._gathered.pop(where)
        self._size -= gathered.size
        self._keyless.pop(where.topic, None)
        if self._writer is None:
            identity = self._transaction.begin() if self._transaction is not None else init_idempotent(self._cluster)
            self._writer = TransactionWriter(self._cluster, identity, acks=self._order.acks)
        for batch in _split(gathered.records):
            self._writer.write(where, encode_batch(batch, compression=self._order.compression))

    def _shape(self, topic: str) -> TopicShape:
        if topic not in self._shapes:
            self._shapes[topic] = shape_of(self._cluster, topic)
        return self._shapes[topic]

    def _refuse_unfit(self, topic: str, shape: TopicShape, record: Record, size: int) -> None:
        """`size` is what the record takes at most, before it is compressed."""
        if shape.needs_key and record.key is None:
            raise ConfigError(f"it has no key, and topic {topic!r} is compacted: give one with -K or -k")
        if shape.max_message_bytes is None or size + HEADER_BYTES <= shape.max_message_bytes:
            return
        alone = len(encode_batch([record], compression=self._order.compression))
        if alone > shape.max_message_bytes:
            raise ConfigError(
                f"its record makes a batch of {alone} bytes, and topic {topic!r} takes {shape.max_message_bytes}: "
                f"compress with -z, or fencepost topic config {topic} --set max.message.bytes={alone}"
            )

    @wanted(Operation.WRITE)
    def _place(self, draft: Draft) -> TopicPartition:
        topic = self._order.topic or draft.topic
        if topic is None:
            raise ConfigError("it names no topic: give one on the command line")
        known = self._cluster.topic(topic).partitions
        placing = self._order.placing
        if isinstance(placing, int):
            partition = placing
        elif placing is Placing.OWN and draft.partition is not None:
            partition = draft.partition
        elif draft.key is not None:
            partition = partition_for(draft.key, len(known))
        else:
            if topic not in self._keyless:
                self._keyless[topic] = next(self._turns) % len(known)
            partition = self._keyless[topic]
        if partition not in known:
            raise ConfigError(
                f"topic {topic!r} has partitions 0 to {len(known) - 1}, and no partition {partition}: use -p key to "
                f"place records by key, or fencepost topic add-partitions"
            )
        return TopicPartition(topic, partition)


def _split(records: list[Record]) -> Iterator[list[Record]]:
    """A batch stores timestamps as differences to its first one, which must fit into 64 bits."""
    batch: list[Record] = []
    for record in records:
        if batch and not -(2**63) <= record.timestamp - batch[0].timestamp < 2**63:
            yield batch
            batch = []
        batch.append(record)
    if batch:
        yield batch
