"""A partition log and a topic registry in memory, with a disk that can be slow, fail, or forget what was not synced.

Everything that has to do with producers and markers is the real thing; only segments and files are not there.
"""

import asyncio
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.origin import Origin
from fencepost.log.producers import Producers
from fencepost.log.results import Appended, ProducerState
from fencepost.wire import batch as batches
from fencepost.wire.batch import BatchHeader, read_header
from fencepost.wire.records import Record, decode_batch, decode_marker, encode_batch, encode_marker
from fencepost.wire.terms import coordinator_partition


class Sync(enum.Enum):
    AT_ONCE = "a batch is durable when append returns"
    SOON = "... a turn of the event loop later"
    BY_HAND = "... when the test calls sync()"


class MemoryLog:
    def __init__(self, topic: str, partition: int, sync: Sync = Sync.AT_ONCE) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_epoch = 0
        self.log_start_offset = 0
        self.sync_mode = sync
        self.batches: list[bytearray] = []
        self.high_watermark = 0
        self.fails = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._producers = Producers()

    @property
    def log_end_offset(self) -> int:
        return read_header(self.batches[-1]).last_offset + 1 if self.batches else 0

    def append(self, batch: bytearray, origin: Origin) -> Appended:
        header = read_header(batch)
        if header.producer_id >= 0:
            self._producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence,
                header.attributes, origin,
            )  # fmt: skip
        return self._store(batch)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> int:
        self._producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        batch = encode_marker(
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp=0,
        )
        return self._store(batch).base_offset

    def when_durable(self, offset: int) -> "asyncio.Future[None] | None":
        if offset < self.high_watermark:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.fails:
            waiter.set_exception(_storage_error())
        else:
            self._waiters.append((offset, waiter))
        return waiter

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        for batch in self.batches:
            header = read_header(batch)
            if header.last_offset >= from_offset:
                yield header, memoryview(batch)

    def active_producers(self) -> list[ProducerState]:
        return [
            ProducerState(
                producer_id, producer.epoch, producer.last_sequence, producer.last_timestamp,
                producer.coordinator_epoch, producer.txn_first_offset,
            )
            for producer_id, producer in self._producers.by_id.items()
        ]  # fmt: skip

    # -- what only tests do ----------------------------------------------------------------------------------------

    def sync(self) -> None:
        self.high_watermark = self.log_end_offset
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def crash(self, *, power_loss: bool) -> None:
        """What a restart finds."""
        if power_loss:
            self.batches = [batch for batch in self.batches if read_header(batch).last_offset < self.high_watermark]
        self._waiters.clear()
        self._producers = Producers()
        for batch in self.batches:
            self._note(batch)
        self.high_watermark = self.log_end_offset

    def compact(self) -> None:
        """Keep the newest record of each key."""
        newest: dict[bytes | None, Record] = {}
        for header, batch in self.replay(0):
            for record in decode_batch(batch, header):
                newest.pop(record.key, None)
                newest[record.key] = record
        self.batches = [encode_batch([record], base_offset=record.offset) for record in newest.values()]

    def write(self, producer_id: int, epoch: int, value: bytes = b"v") -> int:
        """A record of a transaction, from a client. Sequences are not the subject here."""
        batch = encode_batch(
            [Record(b"k", value, 0)], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        return self.append(batch, Origin.COORDINATOR).base_offset

    def markers(self, producer_id: int) -> list[tuple[int, bool]]:
        """Epoch and outcome of every marker for this producer."""
        found = []
        for header, batch in self.replay(0):
            if header.is_control and header.producer_id == producer_id:
                marker = decode_marker(batch)
                assert marker is not None
                found.append((header.producer_epoch, marker.commit))
        return found

    def outcomes(self) -> dict[bytes, str]:
        """What a reader makes of every value: open, committed or aborted."""
        pending: dict[int, list[bytes]] = {}
        seen: dict[bytes, str] = {}
        for header, batch in self.replay(0):
            if header.is_control:
                marker = decode_marker(batch)
                assert marker is not None
                for value in pending.pop(header.producer_id, []):
                    seen[value] = "committed" if marker.commit else "aborted"
                continue
            for record in decode_batch(batch, header):
                assert record.value is not None
                pending.setdefault(header.producer_id, []).append(record.value)
                seen[record.value] = "open"
        return seen

    @property
    def has_open_transaction(self) -> bool:
        return bool(self._producers.open_transactions)

    def _store(self, batch: bytearray) -> Appended:
        if self.fails:
            raise _storage_error()
        base_offset = self.log_end_offset
        batches.place(batch, base_offset, self.leader_epoch)
        self.batches.append(batch)
        self._note(batch)
        if self.sync_mode is Sync.AT_ONCE:
            self.sync()
        elif self.sync_mode is Sync.SOON:
            asyncio.get_running_loop().call_soon(self._sync_unless_failed)
        return Appended(base_offset, read_header(batch).last_offset, -1, 0, False)

    def _sync_unless_failed(self) -> None:
        if not self.fails:
            self.sync()

    def _note(self, batch: bytearray) -> None:
        header = read_header(batch)
        if header.producer_id < 0:
            return
        if header.is_control:
            marker = decode_marker(batch)
            assert marker is not None
            self._producers.add_marker(
                header.producer_id, header.producer_epoch, marker.coordinator_epoch, header.base_offset, 0, 0,
                commit=marker.commit,
            )  # fmt: skip
        else:
            self._producers.add_data(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence,
                header.base_offset, header.last_offset, 0, header.attributes, 0,
            )  # fmt: skip


@dataclass
class MemoryTopic:
    name: str
    partitions: int


class MemoryTopics:
    """As much of a topic registry as coordinators need. Data topics have two partitions."""

    def __init__(self, sync: Sync = Sync.AT_ONCE) -> None:
        self.sync = sync
        self.logs: dict[tuple[str, int], MemoryLog] = {}
        self.topics: dict[str, MemoryTopic] = {}
        self.next_producer_id = 1000

    def create(self, name: str, partitions: int = 2) -> MemoryTopic:
        return self.topics.setdefault(name, MemoryTopic(name, partitions))

    def delete(self, name: str) -> None:
        del self.topics[name]
        for key in [key for key in self.logs if key[0] == name]:
            del self.logs[key]

    def get(self, name: str) -> MemoryTopic | None:
        return self.topics.get(name)

    def is_internal_name(self, name: str) -> bool:
        return name in ("__transaction_state", "__consumer_offsets")

    def ensure_internal(self, name: str) -> MemoryTopic:
        return self.create(name, 50)

    def log(self, topic: str, partition: int) -> MemoryLog | None:
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < known.partitions:
            return None
        key = (topic, partition)
        if key not in self.logs:
            self.logs[key] = MemoryLog(topic, partition, self.sync)
        return self.logs[key]

    def data(self, topic: str, partition: int) -> MemoryLog:
        log = self.log(topic, partition)
        assert log is not None
        return log

    def state_log(self, transactional_id: str) -> MemoryLog:
        return self.data("__transaction_state", coordinator_partition(transactional_id, 50))

    def reserve_producer_ids(self, count: int) -> range:
        first = self.next_producer_id
        self.next_producer_id += count
        return range(first, first + count)

    def crash(self, *, power_loss: bool = False) -> None:
        for log in self.logs.values():
            log.crash(power_loss=power_loss)

    def sync_all(self, *, unless: Callable[[MemoryLog], bool] = lambda log: False) -> None:
        for log in self.logs.values():
            if not unless(log):
                log.sync()


def _storage_error() -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is broken")
