"""Produce, written by hand: the most frequent request is decoded and answered without the tables.

`tests/unit/wire` compares it with the tables in every version.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from fencepost.errors import ErrorCode, Malformed
from fencepost.wire.codec import MAX_REQUEST_ITEMS
from fencepost.wire.frame import finish_response, new_tuple, skip_tags, start_response, write_count, write_topic
from fencepost.wire.varint import read_unsigned, write_unsigned

API_KEY = 0
VERSIONS = (3, 13)
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13
#: From this version on the broker adds the partition to the transaction by itself (KIP-890).
FIRST_WITH_IMPLICIT_REGISTRATION = 12

TOO_MANY = f"more than {MAX_REQUEST_ITEMS} topics and partitions in one request"

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_INDEX_LENGTH = struct.Struct(">ii")
_INDEX_SHORT_LENGTH = struct.Struct(">iBBB")
_RESULT = struct.Struct(">ihqqq")
_LOG_START_BYTES = 8
_NO_ERRORS_PLAIN = _INT32.pack(0) + _INT16.pack(-1)
_NO_ERRORS_FLEXIBLE = b"\x01\x00\x00"  # no record errors, no message, no tags

#: Topic (name, or id from version 13 on), partition, batch. A bare tuple: every batch makes one.
PartitionData = tuple[str | bytes, int, memoryview | None]
#: The fields of `PartitionResult` as a bare tuple, for the hot path.
Result = tuple[str | bytes, int, int, int, int, int, str | None]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[PartitionData]


class PartitionResult(NamedTuple):
    topic: str | bytes
    partition: int
    error_code: int
    base_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None


def decode_request(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """`position` is the end of the request header, tags included."""
    try:
        if version >= FIRST_FLEXIBLE:
            return _decode_flexible(version, frame, position)
        return _decode_plain(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"Produce v{version}: {error}") from None


def _decode_plain(frame: memoryview, position: int) -> ProduceRequest:
    (length,) = _INT16.unpack_from(frame, position)
    position += 2
    transactional_id = None
    if length >= 0:
        transactional_id = str(_part(frame, position, length), "utf-8")
        position += length
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    (topics,) = _INT32.unpack_from(frame, position + 6)
    position += 10
    partitions: list[PartitionData] = []
    for _ in range(topics):
        (length,) = _INT16.unpack_from(frame, position)
        topic = str(_part(frame, position + 2, length), "utf-8")
        position += 2 + length
        (count,) = _INT32.unpack_from(frame, position)
        position += 4
        if topics + count + len(partitions) > MAX_REQUEST_ITEMS:
            raise Malformed(TOO_MANY)
        for _ in range(count):
            index, length = _INDEX_LENGTH.unpack_from(frame, position)
            position += 8
            records = None
            if length >= 0:
                records = _part(frame, position, length)
                position += length
            partitions.append((topic, index, records))
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def _decode_flexible(version: int, frame: memoryview, position: int) -> ProduceRequest:
    transactional_id = None
    length, position = _read_length(frame, position)
    if length:
        transactional_id = str(_part(frame, position, length - 1), "utf-8")
        position += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topics, position = _read_length(frame, position + 6)
    partitions: list[PartitionData] = []
    for _ in range(topics - 1):
        topic: str | bytes
        if version >= FIRST_WITH_TOPIC_IDS:
            topic = _part(frame, position, 16).tobytes()
            position += 16
        else:
            length, position = _read_length(frame, position)
            topic = str(_part(frame, position, length - 1), "utf-8")
            position += length - 1
        count, position = _read_length(frame, position)
        if topics + count + len(partitions) > MAX_REQUEST_ITEMS:
            raise Malformed(TOO_MANY)
        for _ in range(count - 1):
            index, low, middle, high = _INDEX_SHORT_LENGTH.unpack_from(frame, position)
            # The batch's length: nearly always two bytes (128 bytes to 16 KB) or three (up to 2 MB).
            if low >= 0x80 and middle < 0x80:
                length, position = low & 0x7F | middle << 7, position + 6
            elif low >= 0x80 and high < 0x80:
                length, position = low & 0x7F | (middle & 0x7F) << 7 | high << 14, position + 7
            else:
                length, position = read_unsigned(frame, position + 4)
            records = None
            if length:
                begin, position = position, position + length - 1
                if position > len(frame):
                    raise Malformed(f"batch of {length - 1} bytes runs past the end")
                records = frame[begin:position]
            partitions.append((topic, index, records))
            position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
        position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
    return new_tuple(ProduceRequest, (transactional_id, acks, timeout_ms, partitions))


def encode_response(version: int, correlation_id: int, results: Sequence[Result]) -> bytearray:
    flexible = version >= FIRST_FLEXIBLE
    out = start_response(correlation_id, flexible=flexible)
    no_errors = _NO_ERRORS_FLEXIBLE if flexible else _NO_ERRORS_PLAIN
    by_topic: dict[str | bytes, list[bytes]] = {}
    for topic, partition, error_code, base_offset, append_time_ms, log_start_offset, message in results:
        row = _RESULT.pack(partition, error_code, base_offset, append_time_ms, log_start_offset)
        if version >= 8:
            row += no_errors if message is None else _encode_message(message, flexible=flexible)
        elif version < 5:
            row = row[:-_LOG_START_BYTES]
        if topic in by_topic:
            by_topic[topic].append(row)
        else:
            by_topic[topic] = [row]
    write_count(out, len(by_topic), flexible=flexible)
    for topic, rows in by_topic.items():
        write_topic(out, topic, flexible=flexible)
        write_count(out, len(rows), flexible=flexible)
        out += b"".join(rows)
        if flexible:
            out.append(0)
    out += b"\x00\x00\x00\x00\x00" if flexible else b"\x00\x00\x00\x00"  # throttle time, tags
    return finish_response(out)


def error_results(request: ProduceRequest, code: ErrorCode, message: str | None = None) -> list[Result]:
    return [PartitionResult(topic, index, code, message=message) for topic, index, _ in request.partitions]


def _encode_message(message: str, *, flexible: bool) -> bytes:
    """One message for the whole batch, and no errors of single records."""
    text = message.encode()
    if not flexible:
        return _INT32.pack(0) + _INT16.pack(len(text)) + text
    out = bytearray(b"\x01")
    write_unsigned(out, len(text) + 1)
    return bytes(out + text + b"\x00")


def _part(frame: memoryview, position: int, length: int) -> memoryview:
    end = position + length
    if length < 0 or end > len(frame):
        raise Malformed(f"field of {length} bytes runs past the end")
    return frame[position:end]


def _read_length(frame: memoryview, position: int) -> tuple[int, int]:
    """A compact length: nearly always one byte."""
    value = frame[position]
    return (value, position + 1) if value < 0x80 else read_unsigned(frame, position)
