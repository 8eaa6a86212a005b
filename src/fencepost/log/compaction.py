"""What compaction keeps of a batch: a pure decision, batch by batch, in the order of the log.

A key's newest record is kept. A tombstone is kept until `delete.retention.ms` after compaction first met it; that time
is written into the batch (bit 6 of its attributes, with the time in place of the base timestamp: KIP-534). Data of
aborted transactions goes. A marker goes once no data of its transaction is left and its own such time has passed.

Two kinds of batches stay even if they become empty. A known producer's last batch preserves its sequence and epoch.
The last batch of a segment shows where the segment ends: without it, recovery could not tell a compacted range from one
that a power failure took. Reads pass over both. Invariants: offsets never change; what is beyond the offset map is kept
as it is.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.errors import Malformed
from fencepost.log.offset_map import OffsetMap
from fencepost.log.txn_index import AbortedTransaction
from fencepost.wire.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    repack,
)
from fencepost.wire.compression import compress, decompress
from fencepost.wire.records import decode_marker
from fencepost.wire.varint import read_signed, write_signed


class LastRecord(NamedTuple):
    """Where a known producer wrote last: the batch that must not disappear."""

    last_offset: int  #: -1 when nothing but a marker of its epoch is left
    epoch: int


class RawRecord(NamedTuple):
    """A record in its place: enough to decide about it and to write it again."""

    encoded: bytes  #: with its length
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool
    rest: bytes  #: everything after the offset delta


@dataclass(slots=True)
class _Aborted:
    transaction: AbortedTransaction
    has_data: bool = False


class TransactionTracker:
    """Follows transactions through the log as compaction walks along it."""

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, int, AbortedTransaction]] = []
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        #: Aborted transactions that still had data: they go into the new segment's index.
        self.still_aborted: list[AbortedTransaction] = []

    def expect(self, aborted: list[AbortedTransaction]) -> None:
        for transaction in aborted:
            heapq.heappush(self._upcoming, (transaction.first_offset, transaction.producer_id, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_data = True
        return True

    def is_spent(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether a control batch ends a transaction that has no data left."""
        self._reach(header.last_offset)
        if header.record_count == 0:
            return True
        marker = decode_marker(batch)
        if marker is None:
            return False
        if marker.commit:
            had_data = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_data
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is not None and aborted.has_data:
            self.still_aborted.append(aborted.transaction)
            return False
        return True

    def _reach(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            _, producer_id, transaction = heapq.heappop(self._upcoming)
            self._aborted.setdefault(producer_id, _Aborted(transaction))


class BatchFilter:
    def __init__(
        self, newest: OffsetMap, last_records: dict[int, LastRecord], now_ms: int, delete_retention_ms: int
    ) -> None:
        self._newest = newest
        self._last_records = last_records
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self.transactions = TransactionTracker()

    def apply(self, header: BatchHeader, batch: memoryview, *, is_last: bool) -> bytes | memoryview | None:
        """What is left of a batch. The last batch of a segment stays, if only empty, to show where the segment ends."""
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON_FLAG else None
        horizon_passed = horizon is not None and horizon <= self._now_ms
        spent_marker = False
        if header.is_control:
            spent_marker = self.transactions.is_spent(header, batch)
            discard = spent_marker and horizon_passed
        else:
            discard = self.transactions.is_aborted(header)
        kept: list[RawRecord] = []
        tombstones = False
        if not discard and header.record_count:
            if header.is_control:
                if not spent_marker or horizon is not None:
                    return batch
                kept = list(raw_records(header, batch))
            else:
                kept = [
                    record
                    for record in raw_records(header, batch)
                    if self._keeps(record, header, tombstones_go=horizon_passed)
                ]
                tombstones = any(record.is_tombstone for record in kept)
        if not kept:
            return _emptied(header) if is_last or self._is_last_of_producer(header) else None
        new_horizon = None
        if horizon is None and (tombstones or spent_marker):
            new_horizon = self._now_ms + self._delete_retention_ms
        if new_horizon is None and len(kept) == header.record_count:
            return batch
        return _rebuilt(header, kept, new_horizon)

    def merge(self, header: BatchHeader, batch: memoryview, *, is_last: bool) -> memoryview | None:
        """What is left of a batch that `apply` has kept, now that its segment is merged with its neighbours."""
        return batch if header.record_count or is_last or self._is_last_of_producer(header) else None

    def _keeps(self, record: RawRecord, header: BatchHeader, *, tombstones_go: bool) -> bool:
        offset = header.base_offset + record.offset_delta
        if offset > self._newest.latest_offset:
            return True
        if record.key is None or offset < self._newest.get(record.key):
            return False
        return not (record.is_tombstone and tombstones_go)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch


def raw_records(header: BatchHeader, batch: memoryview) -> Iterator[RawRecord]:
    """The records of a stored batch, in their encoded form."""
    body = bytes(decompress(header.compression, batch[HEADER_BYTES:]))
    position = 0
    for _ in range(header.record_count):
        start = position
        length, position = read_signed(body, position)
        end = position + length
        if length < 1 or end > len(body):
            raise Malformed("a stored record's length runs past its batch")
        attributes = body[position]
        timestamp_delta, position = read_signed(body, position + 1)
        offset_delta, position = read_signed(body, position)
        rest = body[position:end]
        key_length, position = read_signed(body, position)
        key = body[position : position + key_length] if key_length >= 0 else None
        value_length, _ = read_signed(body, position + max(key_length, 0))
        yield RawRecord(body[start:end], attributes, timestamp_delta, offset_delta, key, value_length < 0, rest)
        position = end


def _rebuilt(header: BatchHeader, kept: list[RawRecord], new_horizon: int | None) -> bytes:
    """The same batch with fewer records. After `new_horizon` its tombstones or its marker may go."""
    shift = 0
    if not header.uses_append_time:
        newest = max(header.base_timestamp + record.timestamp_delta for record in kept)
        header = header._replace(max_timestamp=newest)
    if new_horizon is not None:
        shift = header.base_timestamp - new_horizon
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=new_horizon)
    body = b"".join(_shifted(record, shift) if shift else record.encoded for record in kept)
    return bytes(repack(header._replace(record_count=len(kept)), compress(header.compression, body)))


def _shifted(record: RawRecord, shift: int) -> bytes:
    """A record whose time is counted from another base."""
    body = bytearray((record.attributes,))
    write_signed(body, record.timestamp_delta + shift)
    write_signed(body, record.offset_delta)
    body += record.rest
    out = bytearray()
    write_signed(out, len(body))
    return bytes(out + body)


def _emptied(header: BatchHeader) -> bytes:
    """A batch without records: its offsets, producer and sequences remain."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return bytes(repack(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b""))
