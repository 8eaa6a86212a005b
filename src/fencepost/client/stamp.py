"""Completes a record batch: its producer, its sequence, and the checksum.

The encoder makes batches without a producer. When the transaction is open, producer id, epoch, sequence and the
transactional flag are written into the 61 bytes before the records. The records are neither copied nor changed. The
batches of an idempotent producer get no flag.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from fencepost.client.identity import ProducerIdentity
from fencepost.errors import Malformed
from fencepost.wire.batch import (
    ATTRIBUTES_OFFSET,
    CONTROL_FLAG,
    CRC_OFFSET,
    HEADER_BYTES,
    MAGIC,
    PRODUCER_OFFSET,
    SEQUENCE_MODULUS,
    TRANSACTIONAL_FLAG,
    read_header,
)
from fencepost.wire.codec import Buffer

_PRODUCER = struct.Struct(">qhi")
_ATTRIBUTES = struct.Struct(">h")
_CRC = struct.Struct(">I")


class Stamped(NamedTuple):
    header: bytearray
    records: memoryview
    record_count: int

    @property
    def size(self) -> int:
        return len(self.header) + len(self.records)


def stamp(blob: Buffer, identity: ProducerIdentity, sequence: int) -> Stamped:
    """The batch `blob` with this identity and base sequence."""
    view = memoryview(blob)
    if len(view) < HEADER_BYTES:
        raise Malformed("a record batch is shorter than its header")
    found = read_header(view)
    if found.magic != MAGIC or found.size != len(view) or found.record_count < 1 or found.attributes & CONTROL_FLAG:
        raise Malformed("these bytes are not one finished record batch")
    header = bytearray(view[:HEADER_BYTES])
    flag = TRANSACTIONAL_FLAG if identity.is_transactional else 0
    _ATTRIBUTES.pack_into(header, ATTRIBUTES_OFFSET, found.attributes | flag)
    _PRODUCER.pack_into(header, PRODUCER_OFFSET, identity.producer_id, identity.epoch, sequence)
    records = view[HEADER_BYTES:]
    _CRC.pack_into(header, CRC_OFFSET, crc32c(records, crc32c(memoryview(header)[ATTRIBUTES_OFFSET:])))
    return Stamped(header, records, found.last_offset_delta + 1)


def following(sequence: int, count: int) -> int:
    """Sequences wrap from 2147483647 to 0."""
    return (sequence + count) % SEQUENCE_MODULUS
