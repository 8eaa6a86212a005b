"""The record batch of magic 2: the unit that is produced, stored and fetched. The broker never re-encodes it.

Layout (big-endian), 61 bytes before the records::

     0  baseOffset            int64    patched by the log          \\ outside the CRC, so the
     8  batchLength           int32    bytes after this field       | broker can patch them
    12  partitionLeaderEpoch  int32    patched by the log           | for free
    16  magic                 int8     2                           /
    17  crc                   uint32   CRC-32C of everything from attributes on
    21  attributes            int16    0-2 compression, 3 append time, 4 transactional, 5 control, 6 delete horizon
    23  lastOffsetDelta       int32
    27  baseTimestamp         int64
    35  maxTimestamp          int64
    43  producerId            int64    -1 when not idempotent
    51  producerEpoch         int16
    53  baseSequence          int32
    57  recordsCount          int32
    61  records
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from fencepost.errors import Malformed
from fencepost.wire.compression import Compression

MAGIC = 2
LENGTH_OFFSET = 8
LOG_OVERHEAD = 12  #: baseOffset and batchLength, which `batchLength` does not count
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35
PRODUCER_OFFSET = 43
HEADER_BYTES = 61

COMPRESSION_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
SEQUENCE_MODULUS = 2**31

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")
_APPEND_TIME = struct.Struct(">q")

unpack_header = _HEADER.unpack_from


class BatchHeader(NamedTuple):
    """The 61 bytes as values; the names are Kafka's."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2147483647 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULUS

    @property
    def compression(self) -> Compression:
        """Raises Malformed for the three values that are no compression."""
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError:
            raise Malformed(f"unknown compression {self.attributes & COMPRESSION_MASK}") from None

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def uses_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME_FLAG)


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header at `position`. The caller makes sure that 61 bytes are there."""
    return BatchHeader._make(unpack_header(buffer, position))


def checksum(batch: bytes | bytearray | memoryview) -> int:
    return int(crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))


def stamp_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """LogAppendTime: the broker's clock replaces the records' timestamps, so the CRC is recomputed."""
    (attributes,) = struct.unpack_from(">h", batch, ATTRIBUTES_OFFSET)
    struct.pack_into(">h", batch, ATTRIBUTES_OFFSET, attributes | APPEND_TIME_FLAG)
    _APPEND_TIME.pack_into(batch, MAX_TIMESTAMP_OFFSET, now_ms)
    _CRC.pack_into(batch, CRC_OFFSET, checksum(batch))


def pack_batch(
    records: bytes,
    *,
    record_count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """Put a header with a valid CRC before records that are already encoded (and compressed)."""
    batch = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        batch, 0, base_offset, HEADER_BYTES - LOG_OVERHEAD + len(records), -1, MAGIC, 0, attributes,
        last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
    )  # fmt: skip
    batch += records
    _CRC.pack_into(batch, CRC_OFFSET, checksum(batch))
    return batch


def repack(header: BatchHeader, records: bytes) -> bytearray:
    """The batch that `header` describes, with other records: its length and CRC are new."""
    batch = bytearray(_HEADER.pack(*header._replace(batch_length=HEADER_BYTES - LOG_OVERHEAD + len(records))))
    batch += records
    _CRC.pack_into(batch, CRC_OFFSET, checksum(batch))
    return batch
