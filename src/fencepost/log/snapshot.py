"""Producer state in a `.snapshot` file, named after the offset up to which it holds, as Kafka writes it.

Layout (big-endian)::

    version int16 = 1
    crc     uint32     CRC-32C of everything that follows
    count   int32
    count times
        producerId int64, epoch int16, lastSequence int32, lastOffset int64, offsetDelta int32, timestamp int64,
        coordinatorEpoch int32, currentTxnFirstOffset int64 (-1: none)
    ours, where Kafka's reader has stopped (it checks the CRC over all of it); each part may be missing
    "more"
    count   int32
    count times, for each producer the oldest first
        producerId int64, firstSequence int32, lastSequence int32, firstOffset int64, lastOffset int64, timestamp int64
    "here"
    position int32, index int32, timeIndex int32, txnIndex int32

Kafka keeps only the newest batch of a producer. But a producer has up to five in flight. It repeats all of them to a
broker that was restarted before it answered, and one that is not recognised is refused as out of order: so the older
ones follow. A snapshot taken within a segment says where in the segment that was, and how many entries its indexes had,
so that recovery can begin there. A file that is invalid or has another version is removed: an older one and the log
replace it.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from fencepost.errors import Malformed
from fencepost.log.producers import SEQUENCE_MASK, KeptBatch, Producer, Producers
from fencepost.wire.batch import NO_SEQUENCE

VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
MORE = b"more"
_OLDER = struct.Struct(">qiiqqq")
HERE = b"here"
_PLACE = struct.Struct(">iiii")
TAG_BYTES = 4


class Place(NamedTuple):
    """Where in a segment a snapshot was taken: the position, and how many entries each index had."""

    position: int
    index_entries: int
    time_index_entries: int
    txn_index_entries: int


def encode(producers: Producers, place: Place | None = None) -> bytes:
    body = bytearray(_COUNT.pack(len(producers.by_id)))
    for producer_id, producer in producers.by_id.items():
        _, last_sequence, first, last, _ = producer.batches[-1] if producer.batches else (0, NO_SEQUENCE, -1, -1, -1)
        body += _ENTRY.pack(
            producer_id, producer.epoch, last_sequence, last, last - first, producer.last_timestamp,
            producer.coordinator_epoch, producer.txn_first_offset,
        )  # fmt: skip
    older = [(producer_id, *batch) for producer_id, p in producers.by_id.items() for batch in p.batches[:-1]]
    if older:
        body += MORE + _COUNT.pack(len(older))
        for entry in older:
            body += _OLDER.pack(*entry)
    if place is not None:
        body += HERE + _PLACE.pack(*place)
    return _HEAD.pack(VERSION, crc32c(body)) + bytes(body)


def decode(data: bytes, producers: Producers, now_ms: int) -> Place | None:
    """Put a snapshot's producers into `producers`. Raises Malformed, and changes nothing, if it is invalid."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise Malformed("a producer snapshot is cut short")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise Malformed(f"a producer snapshot has version {version}")
    if crc32c(memoryview(data)[_HEAD.size :]) != crc:
        raise Malformed("a producer snapshot's CRC does not match")
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    entries = memoryview(data)[_HEAD.size + _COUNT.size :]
    size = count * _ENTRY.size
    if not 0 <= size <= len(entries):
        raise Malformed("a producer snapshot's count does not match its length")
    entries, rest = entries[:size], entries[size:]
    older: dict[int, list[KeptBatch]] = {}
    place: Place | None = None
    if rest[:TAG_BYTES] == MORE:
        older, rest = _decode_older(rest[TAG_BYTES:])
    if rest[:TAG_BYTES] == HERE and len(rest) == TAG_BYTES + _PLACE.size:
        place, rest = Place._make(_PLACE.unpack(rest[TAG_BYTES:])), rest[:0]
    if rest:
        raise Malformed("a producer snapshot ends in something unknown")
    for producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn in _ENTRY.iter_unpack(entries):
        producer = Producer(epoch)
        for batch in older.get(producer_id, ()):
            producer.add_batch(*batch)
        if offset >= 0:
            first_sequence = sequence if sequence == NO_SEQUENCE else (sequence - delta) & SEQUENCE_MASK
            producer.add_batch(first_sequence, sequence, offset - delta, offset, timestamp)
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.txn_first_offset = txn
        producer.seen_ms = now_ms
        producers.restore(producer_id, producer)
    producers.order_transactions()
    return place


def _decode_older(data: memoryview) -> tuple[dict[int, list[KeptBatch]], memoryview]:
    """The batches before each producer's newest one, and what follows them."""
    if len(data) < _COUNT.size:
        raise Malformed("a producer snapshot is cut short")
    (count,) = _COUNT.unpack_from(data)
    end = _COUNT.size + count * _OLDER.size
    if not _COUNT.size <= end <= len(data):
        raise Malformed("a producer snapshot's count does not match its length")
    older: dict[int, list[KeptBatch]] = {}
    for producer_id, *batch in _OLDER.iter_unpack(data[_COUNT.size : end]):
        older.setdefault(producer_id, []).append((batch[0], batch[1], batch[2], batch[3], batch[4]))
    return older, data[end:]
