"""What both coordinators stand on: state that is nothing but the replay of a log.

A *shard* is one partition of an internal topic (`__transaction_state`, `__consumer_offsets`) together with the state
in memory that its records describe. A coordinator works in four steps, always in this order::

    decide    a pure function of the state and the request gives records and an answer, or raises KafkaError
    append    `Shard.write` puts the records into the log
    apply     ... and hands each of them to the shard's machine: the same `apply` that runs when a shard is loaded
    reply     after `Shard.durable(offset)`: no client is told what a power failure could still take back

The invariant: **the state in memory is at every moment what replaying the log from its start would give.** Nothing
changes the state except `apply` and `apply_marker`, and these depend on nothing but the record (no clock, no settings),
so restarting is not a special path. `write` appends and applies without an await between, so on the one event loop no
other request can see the one without the other. State is therefore *ahead of the disk* until the next sync: an answer
from state that a record made waits until that record is durable.
"""

import enum
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from fencepost.clock import Clock
from fencepost.errors import ErrorCode, InvariantBroken, KafkaError
from fencepost.log.origin import Origin
from fencepost.log.partition import PartitionLog
from fencepost.log.results import Appended
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from fencepost.wire.records import Record, decode_batch, decode_marker, encode_batch
from fencepost.wire.terms import coordinator_partition

logger = logging.getLogger(__name__)

#: A batch of this size neither outgrows the log's limit nor holds up the event loop.
RECORDS_PER_BATCH = 500


class Machine(Protocol):
    """The state of one shard. Both methods are pure in the sense above: same records, same state."""

    def apply(self, record: Record, producer_id: int) -> None:
        """Take one record, with its offset and timestamp. `producer_id` is -1 unless the record is part of a
        transaction: then it must not take effect before a marker of that producer says so."""

    def apply_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """The transaction of `producer_id` ended on this partition. May come more than once for the same one."""


class Replay(enum.Enum):
    """What of a log has to be applied to get the state that it describes."""

    EVERYTHING = enum.auto()
    NEWEST_PER_KEY = enum.auto()  #: enough where a record replaces its predecessor whole; much faster on a long log


M = TypeVar("M", bound=Machine)


class Shard(Generic[M]):
    """One internal partition: its log, and the machine that mirrors it."""

    def __init__(
        self, partition: int, log: PartitionLog, machine: M, clock: Clock, replay: Replay = Replay.EVERYTHING
    ) -> None:
        self.partition = partition
        self.log = log
        self.machine = machine
        self._clock = clock
        self._replay = replay

    def load(self) -> int:
        """Replay the whole log into the (fresh) machine; gives the number of batches read."""
        batches = 0
        newest: dict[bytes | None, Record] = {}
        for header, batch in self.log.replay(self.log.log_start_offset):
            batches += 1
            if header.is_control:
                marker = decode_marker(batch)
                if marker is not None:
                    self.machine.apply_marker(header.producer_id, header.producer_epoch, marker.commit)
                continue
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in decode_batch(batch, header):
                if self._replay is Replay.EVERYTHING:
                    self.machine.apply(record, producer_id)
                else:
                    newest.pop(record.key, None)  # so the newest records keep their order
                    newest[record.key] = record
        for record in newest.values():
            self.machine.apply(record, NO_PRODUCER_ID)
        return batches

    def write(
        self,
        records: Sequence[Record],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Appended:
        """Append the records as one batch and apply them, inside the producer's transaction if a producer is given. A
        record without a timestamp gets the present time.

        Raises KafkaError when the log refuses; then nothing was appended and nothing applied.
        """
        if not records:
            raise InvariantBroken("a shard was asked to write no records")
        now_ms = self._clock.now_ms()
        stamped = [r if r.timestamp != NO_TIMESTAMP else Record(r.key, r.value, now_ms, 0, r.headers) for r in records]
        is_pending = producer_id != NO_PRODUCER_ID
        batch = encode_batch(stamped, producer_id=producer_id, producer_epoch=producer_epoch, transactional=is_pending)
        appended = self.log.append(batch, Origin.COORDINATOR)
        for offset, r in enumerate(stamped, appended.base_offset):
            self.machine.apply(Record(r.key, r.value, r.timestamp, offset, r.headers), producer_id)
        return appended

    def write_many(self, records: Sequence[Record]) -> None:
        """Append any number of records, in several batches. If the log refuses one, those before it are applied."""
        for first in range(0, len(records), RECORDS_PER_BATCH):
            self.write(records[first : first + RECORDS_PER_BATCH])

    def is_durable(self, offset: int) -> bool:
        return self.log.high_watermark > offset

    async def durable(self, offset: int) -> None:
        """Wait until `offset` is durable; raises KafkaError(KAFKA_STORAGE_ERROR) when the disk failed."""
        waiter = self.log.when_durable(offset)
        if waiter is not None:
            await waiter

    async def all_durable(self) -> None:
        """Wait for everything that has been written to this shard so far."""
        await self.durable(self.log.log_end_offset - 1)


class InternalTopic(Protocol):
    """What is needed of the broker's `Topic`."""

    @property
    def partitions(self) -> int: ...


class Topics(Protocol):
    """What both coordinators need of the broker's `TopicRegistry`. A Protocol because the broker is a layer above, and
    imports the coordinators."""

    def get(self, name: str) -> InternalTopic | None: ...

    def ensure_internal(self, name: str) -> InternalTopic: ...

    def log(self, topic: str, partition: int) -> PartitionLog | None: ...

    def reserve_producer_ids(self, count: int) -> range: ...


class Shards(Generic[M]):
    """All shards of one internal topic. The topic is created, and a shard made, when a key first needs it."""

    def __init__(
        self,
        topic: str,
        topics: Topics,
        machine: Callable[[int], M],
        clock: Clock,
        replay: Replay = Replay.EVERYTHING,
    ) -> None:
        self.topic = topic
        self._replay = replay
        self._topics = topics
        self._machine = machine
        self._clock = clock
        self._shards: dict[int, Shard[M]] = {}

    def load(self) -> None:
        """Bring back every shard that has records. Shards without any cost nothing until they are used."""
        topic = self._topics.get(self.topic)
        for partition in range(topic.partitions if topic is not None else 0):
            log = self._topics.log(self.topic, partition)
            if log is not None and log.log_end_offset > 0:
                self._open(partition, log)

    def for_key(self, key: str) -> Shard[M]:
        """The shard that owns `key`, made when it is first needed. Raises KafkaError if the topic cannot be created."""
        count = self._topics.ensure_internal(self.topic).partitions
        partition = coordinator_partition(key, count)
        return self._shards.get(partition) or self._open(partition, self._topics.log(self.topic, partition))

    def find(self, key: str) -> Shard[M] | None:
        """The shard that owns `key` if it holds anything: for questions, which must not create the topic."""
        topic = self._topics.get(self.topic)
        return None if topic is None else self._shards.get(coordinator_partition(key, topic.partitions))

    def at(self, partition: int) -> Shard[M] | None:
        return self._shards.get(partition)

    def __iter__(self) -> Iterator[Shard[M]]:
        return iter(list(self._shards.values()))

    def _open(self, partition: int, log: PartitionLog | None) -> Shard[M]:
        if log is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic}-{partition} has no log")
        shard = Shard(partition, log, self._machine(partition), self._clock, self._replay)
        batches = shard.load()
        if batches:
            logger.debug("loaded %s-%d: %d batches", self.topic, partition, batches)
        self._shards[partition] = shard
        return shard


_FOR_CLIENTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: KafkaError) -> KafkaError:
    """The error for clients when the coordinator's own log refused a write. On these codes they look the coordinator up
    again and retry. Storage errors would end their transaction."""
    code = _FOR_CLIENTS.get(error.code)
    return error if code is None else KafkaError(code, error.message)


@contextmanager
def retriable_errors() -> Iterator[None]:
    """A KafkaError that is raised inside becomes its `coordinator_error`."""
    try:
        yield
    except KafkaError as error:
        raise coordinator_error(error) from None
