"""Produce, by hand: it is the request that arrives most often, so it is read and answered without the tables.

`tests/unit/wire` holds it against the tables, version by version.
"""

import struct
from typing import NamedTuple

from fencepost.errors import ErrorCode, Malformed
from fencepost.wire.codec import MAX_REQUEST_ITEMS
from fencepost.wire.frame import finish_response, skip_tags, start_response, write_count, write_topic
from fencepost.wire.varint import read_unsigned, write_unsigned

API_KEY = 0
VERSIONS = (3, 13)
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13
#: From here on the broker itself registers the partition with the transaction (KIP-890).
FIRST_WITH_IMPLICIT_REGISTRATION = 12

TOO_MANY = f"more than {MAX_REQUEST_ITEMS} topics and partitions in one request"

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_INDEX_LENGTH = struct.Struct(">ii")
_RESULT = struct.Struct(">ihqq")
_LOG_START = struct.Struct(">q")
_NO_ERRORS_PLAIN = _INT32.pack(0) + _INT16.pack(-1)
_NO_ERRORS_FLEXIBLE = b"\x01\x00\x00"  # no record errors, no message, no tags


class PartitionData(NamedTuple):
    topic: str | bytes  #: a name, or from version 13 on the topic's id
    partition: int
    records: memoryview | None


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
    """`position` is after the request header, its tags included."""
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
            partitions.append(PartitionData(topic, index, records))
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
            topic = bytes(_part(frame, position, 16))
            position += 16
        else:
            length, position = _read_length(frame, position)
            topic = str(_part(frame, position, length - 1), "utf-8")
            position += length - 1
        count, position = _read_length(frame, position)
        if topics + count + len(partitions) > MAX_REQUEST_ITEMS:
            raise Malformed(TOO_MANY)
        for _ in range(count - 1):
            (index,) = _INT32.unpack_from(frame, position)
            length, position = read_unsigned(frame, position + 4)
            records = None
            if length:
                records = _part(frame, position, length - 1)
                position += length - 1
            position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
            partitions.append(PartitionData(topic, index, records))
        position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def encode_response(version: int, correlation_id: int, results: list[PartitionResult]) -> bytearray:
    flexible = version >= FIRST_FLEXIBLE
    out = start_response(correlation_id, flexible=flexible)
    groups = _by_topic(results)
    write_count(out, len(groups), flexible=flexible)
    for group in groups:
        write_topic(out, group[0].topic, flexible=flexible)
        write_count(out, len(group), flexible=flexible)
        for result in group:
            _write_result(out, version, result, flexible)
        if flexible:
            out.append(0)
    out += b"\x00\x00\x00\x00\x00" if flexible else b"\x00\x00\x00\x00"  # throttle time, tags
    return finish_response(out)


def error_results(request: ProduceRequest, code: ErrorCode, message: str | None = None) -> list[PartitionResult]:
    return [PartitionResult(data.topic, data.partition, code, message=message) for data in request.partitions]


def _write_result(out: bytearray, version: int, result: PartitionResult, flexible: bool) -> None:
    out += _RESULT.pack(result.partition, result.error_code, result.base_offset, result.append_time_ms)
    if version >= 5:
        out += _LOG_START.pack(result.log_start_offset)
    if version < 8:
        return
    if result.message is None:
        out += _NO_ERRORS_FLEXIBLE if flexible else _NO_ERRORS_PLAIN
        return
    message = result.message.encode()
    if flexible:
        out.append(1)
        write_unsigned(out, len(message) + 1)
        out += message
        out.append(0)
    else:
        out += _INT32.pack(0) + _INT16.pack(len(message)) + message


def _by_topic(results: list[PartitionResult]) -> list[list[PartitionResult]]:
    if len(results) == 1:
        return [results]
    groups: dict[str | bytes, list[PartitionResult]] = {}
    for result in results:
        groups.setdefault(result.topic, []).append(result)
    return list(groups.values())


def _part(frame: memoryview, position: int, length: int) -> memoryview:
    end = position + length
    if length < 0 or end > len(frame):
        raise Malformed(f"a field of {length} bytes runs past the end")
    return frame[position:end]


def _read_length(frame: memoryview, position: int) -> tuple[int, int]:
    """A compact length, which nearly always is one byte."""
    value = frame[position]
    return (value, position + 1) if value < 0x80 else read_unsigned(frame, position)
