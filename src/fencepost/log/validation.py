"""Whether a batch from a client may enter the log: everything that can be told without knowing the log's state.

Each refusal is the error that Kafka gives. Every batch costs a walk over its records' lengths. Keys and single
timestamps are checked only if a topic's settings require it.
"""

from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.log.config import CREATE_TIME, FOREVER, PRODUCER_COMPRESSION, LogConfig
from fencepost.wire import batch as batches
from fencepost.wire.batch import (
    APPEND_TIME_FLAG,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from fencepost.wire.compression import Compression, compress, decompress
from fencepost.wire.records import count_records, decode_batch

#: Fewer equal lengths in a row than this, and looking for runs costs more than it saves.
WORTHWHILE_RUN = 16
#: How many records one comparison looks at.
RUN_WINDOW = 256
#: Attributes that a client's batch may have without a closer look.
UNREMARKABLE = TRANSACTIONAL_FLAG | COMPRESSION_MASK
#: Upper bound for one batch: all other clients wait while its records are counted.
MAX_RECORDS = 1_000_000
#: The smallest message of the oldest format, in bytes after its length.
MIN_BATCH_LENGTH = 14
LAST_CODEC = int(Compression.ZSTD)
#: A record cannot be shorter: length, attributes, two deltas, two lengths, header count.
MIN_RECORD_BYTES = 7


def check_frame(batch: bytearray | memoryview) -> None:
    """The size, magic and length of what claims to be one batch.

    Kafka calls corrupt what cannot be a batch of any format, and invalid what is not one whole batch of this one.
    """
    size = len(batch)
    if size <= batches.MAGIC_OFFSET:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{size} bytes where a batch was expected")
    length = int.from_bytes(batch[batches.LENGTH_OFFSET : batches.LOG_OVERHEAD], "big", signed=True)
    magic = batch[batches.MAGIC_OFFSET]
    if length < MIN_BATCH_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch says that it has {length} bytes")
    if magic > batches.MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch has magic {magic}")
    if magic != batches.MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a batch has magic {magic}, only {batches.MAGIC} is stored")
    if size < HEADER_BYTES or size != length + batches.LOG_OVERHEAD:
        whole = length + batches.LOG_OVERHEAD
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{size} bytes where a batch of {whole} was announced")


def check_header(header: BatchHeader) -> None:
    """What a client's batch may say about itself."""
    problem = None
    if header.attributes & CONTROL_FLAG:
        problem = "clients may not write control batches"
    elif header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        problem = f"{header.record_count} records do not cover the offsets 0 to {header.last_offset_delta}"
    elif header.base_offset != 0:
        problem = f"the base offset is {header.base_offset} where a producer writes 0"
    elif header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        problem = f"sequence {header.base_sequence} and epoch {header.producer_epoch} are not an idempotent producer's"
    elif header.producer_id < 0 and header.attributes & TRANSACTIONAL_FLAG:
        problem = "a transactional batch has no producer id"
    elif header.attributes & COMPRESSION_MASK > Compression.ZSTD:
        problem = f"compression {header.attributes & COMPRESSION_MASK} does not exist"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, problem)
    if header.attributes & APPEND_TIME_FLAG:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "producers may not set the timestamp type to LogAppendTime")


class Admission:
    """What a topic's settings ask of a client's batch, in the form that the hot path needs."""

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._max_message_bytes = config.max_message_bytes
        # With append time the producer's own times do not matter.
        uses_create_time = config.message_timestamp_type == CREATE_TIME
        self._after_max_ms = config.message_timestamp_after_max_ms if uses_create_time else FOREVER
        self._before_max_ms = config.message_timestamp_before_max_ms if uses_create_time else FOREVER
        self._compacts = config.compacts
        self._looks_at_records = config.compacts or self._before_max_ms != FOREVER
        self._codec = _wanted_codec(config)

    def admit(self, view: memoryview, size: int, header: tuple[int, ...], now_ms: int) -> memoryview:
        """Refuse a batch with KafkaError or return it, recompressed where the topic insists on its own codec."""
        base_offset, _, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, count = header
        if size > self._max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes; max.message.bytes is {self._max_message_bytes}"
            )
        if (
            attributes & ~UNREMARKABLE
            or count != delta + 1
            or count < 1
            or base_offset
            or (attributes & TRANSACTIONAL_FLAG if producer_id < 0 else (sequence < 0 or epoch < 0))
            or attributes & COMPRESSION_MASK > LAST_CODEC
        ):
            check_header(BatchHeader._make(header))
        try:
            needs_a_look = (
                self._looks_at_records
                or attributes & COMPRESSION_MASK
                or count * MIN_RECORD_BYTES > size - HEADER_BYTES
                or not (has_equal_lengths(body := view[HEADER_BYTES:], count) or count_lengths(body) == count)
            )
        except Malformed:
            needs_a_look = True
        if needs_a_look:
            self._check_records(view, BatchHeader._make(header), now_ms)
        if max_timestamp > now_ms + self._after_max_ms:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {max_timestamp} is more than {self._after_max_ms} ms in the future",
            )
        if self._codec is not None and attributes & COMPRESSION_MASK != self._codec:
            return memoryview(_recompress(view, BatchHeader._make(header), self._codec))
        return view

    def _check_records(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        """Count the records, and check keys and times if the settings require it."""
        try:
            if header.record_count > MAX_RECORDS:
                raise Malformed(f"{header.record_count} records in one batch")
            if self._looks_at_records:
                self._check_each(batch, header, now_ms)
                return
            content = decompress(header.compression, batch[HEADER_BYTES:])
            # Before walking through what may be very many of them.
            if header.record_count * MIN_RECORD_BYTES > len(content):
                raise Malformed(f"{header.record_count} records do not fit in {len(content)} bytes")
            count = count_lengths(content)
            if count != header.record_count:
                raise Malformed(f"{count} records where {header.record_count} were announced")
        except Malformed as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None

    def _check_each(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        earliest = now_ms - self._before_max_ms
        for record in decode_batch(batch, header):
            if self._compacts and record.key is None:
                raise KafkaError(ErrorCode.INVALID_RECORD, "a compacted topic takes no record without a key")
            if batches.NO_TIMESTAMP != record.timestamp < earliest:
                raise KafkaError(
                    ErrorCode.INVALID_TIMESTAMP,
                    f"timestamp {record.timestamp} is more than {self._before_max_ms} ms in the past",
                )


def has_equal_lengths(body: memoryview, count: int) -> bool:
    """Whether the bytes (two at least) are exactly `count` records of one length, which is what most batches are."""
    first, second = body[0], body[1]
    if first < 0x80:
        stride = 1 + (first >> 1)
    elif second < 0x80:
        stride = 2 + ((first & 0x7F | second << 7) >> 1)
    else:
        return False
    # Each begins with the same length where the one before it ends, and the last ends where the bytes do.
    return (
        stride * count == len(body)
        and not first & 1
        and body[::stride].tobytes().count(first) == count
        and (first < 0x80 or body[1::stride].tobytes().count(second) == count)
    )


def count_lengths(body: bytes | memoryview) -> int:
    """`count_records`, faster where records of one length follow each other, as most producers write them.

    A record that begins with the same length bytes as the one before has the same size, so a run can be counted by
    comparing every n-th byte at once. This is exact: each member of the run begins where the one before it ends.
    """
    position, count, end = 0, 0, len(body)
    while end - position >= 2:
        first, second = body[position], body[position + 1]
        if first < 0x80:
            stride, width = 1 + (first >> 1), 1
        elif second < 0x80:
            stride, width = 2 + ((first & 0x7F | second << 7) >> 1), 2
        else:
            break
        if end - position < stride * WORTHWHILE_RUN:
            break
        window = min(end, position + stride * RUN_WINDOW)
        run = _leading(body[position:window:stride], first)
        if width == 2:
            run = min(run, _leading(body[position + 1 : window : stride], second))
        # Of the last of them only the beginning is known to be there.
        run = min(run, (end - position) // stride)
        if first & 1 or run < WORTHWHILE_RUN:
            break
        count += run
        position += run * stride
    return count + count_records(body[position:])


def _leading(data: bytes | memoryview, value: int) -> int:
    """How many times `value` stands at the beginning."""
    data = bytes(data)
    return len(data) - len(data.lstrip(bytes((value,))))


def _wanted_codec(config: LogConfig) -> Compression | None:
    """The compression that the topic insists on, None when the producer may choose."""
    if config.compression_type == PRODUCER_COMPRESSION:
        return None
    return Compression[{"uncompressed": "NONE"}.get(config.compression_type, config.compression_type.upper())]


def _recompress(batch: memoryview, header: BatchHeader, codec: Compression) -> bytearray:
    """The same records under the topic's own compression. Only such batches are not stored as they came."""
    body = decompress(header.compression, batch[HEADER_BYTES:])
    header = header._replace(attributes=header.attributes & ~COMPRESSION_MASK | codec)
    return batches.repack(header, compress(codec, bytes(body)))
