"""Producer state in a `.snapshot` file, named after the offset up to which it holds, as Kafka writes it.

Layout (big-endian)::

    version int16 = 1
    crc     uint32     CRC-32C of everything that follows
    count   int32
    count times
        producerId int64, epoch int16, lastSequence int32, lastOffset int64, offsetDelta int32, timestamp int64,
        coordinatorEpoch int32, currentTxnFirstOffset int64 (-1: none)

Only the newest batch of a producer is kept, as in Kafka. A file that does not check out is worth nothing and is
removed: an older one and the log make up for it. Another version is treated the same way.
"""

import struct

from crc32c import crc32c

from fencepost.errors import Malformed
from fencepost.log.producers import SEQUENCE_MASK, Producer, Producers
from fencepost.wire.batch import NO_SEQUENCE

VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def encode(producers: Producers) -> bytes:
    body = bytearray(_COUNT.pack(len(producers.by_id)))
    for producer_id, producer in producers.by_id.items():
        _, last_sequence, first, last, _ = producer.batches[-1] if producer.batches else (0, NO_SEQUENCE, -1, -1, -1)
        body += _ENTRY.pack(
            producer_id, producer.epoch, last_sequence, last, last - first, producer.last_timestamp,
            producer.coordinator_epoch, producer.txn_first_offset,
        )  # fmt: skip
    return _HEAD.pack(VERSION, crc32c(body)) + bytes(body)


def decode(data: bytes, producers: Producers, now_ms: int) -> None:
    """Put a snapshot's producers into `producers`; raises Malformed and changes nothing when it does not check out."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise Malformed("a producer snapshot is cut short")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise Malformed(f"a producer snapshot has version {version}")
    if crc32c(memoryview(data)[_HEAD.size :]) != crc:
        raise Malformed("a producer snapshot's CRC does not match")
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    entries = memoryview(data)[_HEAD.size + _COUNT.size :]
    if len(entries) != count * _ENTRY.size:
        raise Malformed("a producer snapshot's count does not match its length")
    for producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn in _ENTRY.iter_unpack(entries):
        producer = Producer(epoch)
        if offset >= 0:
            first_sequence = sequence if sequence == NO_SEQUENCE else (sequence - delta) & SEQUENCE_MASK
            producer.add_batch(first_sequence, sequence, offset - delta, offset, timestamp)
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.txn_first_offset = txn
        producer.seen_ms = now_ms
        producers.restore(producer_id, producer)
    producers.order_transactions()
