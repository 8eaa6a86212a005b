"""A Kafka client with nothing between the test and the wire.

Requests are encoded from our own tables; answers are decoded with kio, whose tables are generated from Kafka's own
schemas, and a byte too many or too few is an error. So an answer counts only if a stranger can read it.
"""

import dataclasses
import enum
import time
from collections.abc import Iterator
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from fencepost.client.raw import RawConnection
from fencepost.client.settings import parse_address
from fencepost.errors import ConnectionLost
from fencepost.wire import messages

_make_enum: Any = enum.IntEnum  # the type checker cannot know its members
#: The API keys by name: `Key.END_TXN`.
Key = _make_enum("Key", {name.upper(): key for key, name in messages.api_names().items()})

TIMEOUT_S = 20.0
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Wire(RawConnection):
    """Our raw connection, whose answers a stranger decodes."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(parse_address(bootstrap), timeout_s=TIMEOUT_S)

    def decode(self, api_key: int, version: int, frame: Any) -> Any:
        """To the last byte."""
        schema = load_response_schema(api_key, version)
        data = bytes(frame)
        _, position = entity_reader(schema.__header_schema__)(data, 0)
        answer, size = entity_reader(schema)(data, position)
        assert position + size == len(data), f"{len(data) - position - size} bytes behind the answer to {schema}"
        return answer

    def is_open(self) -> bool:
        """Whether another request is answered."""
        try:
            return self.call(Key.API_VERSIONS, 0).error_code == ErrorCode.none
        except ConnectionLost:
            return False


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
