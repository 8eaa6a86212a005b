"""A Kafka client with nothing between the test and the wire.

Requests are encoded from our own tables; answers are decoded with kio, whose tables are generated from Kafka's own
schemas, and a byte too many or too few is an error. So an answer counts only if a stranger can read it.
"""

import dataclasses
import enum
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, Self

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from fencepost.wire import messages

#: The API keys by name: `Key.END_TXN`.
Key = enum.IntEnum("Key", {name.upper(): key for key, name in messages.api_names().items()})

TIMEOUT_S = 20.0
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Closed(Exception):
    """The broker has closed the connection."""


class Wire:
    """One connection. `ask` is a round trip; `send` and `receive` are its halves, for pipelining."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        return self.receive(key, version, self.send(key, version, **fields))

    def send(self, key: int, version: int, /, **fields: Any) -> int:
        self._correlation_id += 1
        self.send_bytes(frame(key, version, self._correlation_id, fields))
        return self._correlation_id

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, key: int, version: int, correlation_id: int) -> Any:
        """The answer, which must be the one to that request, decoded to the last byte."""
        body = self.receive_bytes()
        schema = load_response_schema(key, version)
        header, position = entity_reader(schema.__header_schema__)(body, 0)
        assert header.correlation_id == correlation_id
        answer, size = entity_reader(schema)(body, position)
        assert position + size == len(body), f"{len(body) - position - size} bytes behind the answer to {schema}"
        return answer

    def receive_bytes(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_open(self) -> bool:
        """Whether another request is answered."""
        try:
            return self.ask(Key.API_VERSIONS, 0).error_code == ErrorCode.none
        except (Closed, OSError):
            return False

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            try:
                piece = self._socket.recv(count - len(found))
            except ConnectionError:
                piece = b""
            if not piece:
                raise Closed
            found += piece
        return bytes(found)


def frame(key: int, version: int, correlation_id: int, fields: dict[str, Any]) -> bytes:
    """A whole request: size, header with the client id "raw", body."""
    request = messages.api(key).request
    body = bytearray(struct.pack(">hhih", key, version, correlation_id, 3) + b"raw")
    if version in request.flexible:
        body.append(0)
    request.encode(version, fields, body)
    return struct.pack(">i", len(body)) + bytes(body)


def codes(answer: Any) -> Iterator[str]:
    """Every error code in an answer, however deep, by Kafka's name."""
    if isinstance(answer, ErrorCode):
        yield answer.name.upper()
    elif dataclasses.is_dataclass(answer):
        for each in dataclasses.fields(answer):
            yield from codes(getattr(answer, each.name))
    elif isinstance(answer, tuple):
        for each in answer:
            yield from codes(each)


def errors(answer: Any) -> set[str]:
    return set(codes(answer)) - {"NONE"}


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    compression: str = "none",
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    timestamp: int | None = None,
) -> bytes:
    """A record batch as kafka-python makes it."""
    builder = DefaultRecordBatchBuilder(2, CODECS[compression], transactional, *producer, sequence, 1 << 24)
    at = int(time.time() * 1000) if timestamp is None else timestamp
    for number, value in enumerate(values):
        builder.append(number, at, key, value, [])
    return bytes(builder.build())


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A batch as it was fetched."""

    base_offset: int
    producer: tuple[int, int]
    is_control: bool
    values: tuple[bytes | None, ...]
    offsets: tuple[int, ...]


def stored(records: bytes | None) -> list[Stored]:
    """What is in the records of a Fetch answer, read by kafka-python, checksums included."""
    found: list[Stored] = []
    for each in MemoryRecords(bytes(records or b"")):
        assert each.validate_crc()
        read = list(each)
        found.append(
            Stored(
                each.base_offset,
                (each.producer_id, each.producer_epoch),
                each.is_control_batch,
                () if each.is_control_batch else tuple(record.value for record in read),
                tuple(record.offset for record in read),
            )
        )
    return found
