"""The decoders of the wire format, each as a function of bytes, with valid inputs to start from.

A target returns or raises Malformed; anything else is a bug. Some also check that what was read can be used: a message
that was understood can be written again, and a batch that was decoded has as many records as its lengths tell.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fencepost.errors import Malformed
from fencepost.wire import batch, compression, frame, messages, produce, records, varint
from fencepost.wire.codec import Field, Schema
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record

#: Small enough to run thousands of inputs, large enough that a bomb of a few bytes has to be noticed.
UNFOLD_LIMIT = 8 * 1024 * 1024

COORDINATOR_RECORDS = (
    "transaction_log_key",
    "transaction_log_value",
    "offset_commit_key",
    "offset_commit_value",
    "group_metadata_key",
    "group_metadata_value",
)


#: A value of each primitive kind.
RANDOM: dict[str, Callable[[random.Random], Any]] = {
    "bool": lambda rng: rng.random() < 0.5,
    "int8": lambda rng: rng.randrange(-(2**7), 2**7),
    "int16": lambda rng: rng.randrange(2**15),
    "uint16": lambda rng: rng.randrange(2**15),
    "int32": lambda rng: rng.randrange(-(2**31), 2**31),
    "int64": lambda rng: rng.randrange(-(2**63), 2**63),
    "float64": lambda rng: rng.random(),
    "uuid": lambda rng: rng.randbytes(16),
    "string": lambda rng: rng.choice(["", "topic", "gröup", "x" * 40]),
    "bytes": lambda rng: rng.randbytes(rng.randrange(20)),
    "records": lambda rng: rng.randbytes(rng.randrange(20)),
}


class Wrong(AssertionError):
    """A decoder accepted bytes and contradicts itself about them."""


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    decode: Callable[[bytes], None]
    seeds: Callable[[random.Random], Iterator[bytes]]


def targets() -> Iterator[Target]:
    for key in messages.api_names():
        yield _message_target(messages.api(key).request)
        yield _message_target(messages.api(key).response)
    for name in COORDINATOR_RECORDS:
        yield _message_target(messages.data(name))
    yield Target("frame", _decode_frame, _frame_seeds)
    yield Target("produce", _decode_produce, _message_target(messages.api(produce.API_KEY).request).seeds)
    yield Target("batch", _decode_batch, batch_seeds)
    yield Target("marker", lambda data: void(records.decode_marker(data)), batch_seeds)
    yield Target("records", lambda data: void(records.count_records(data)), body_seeds)
    for codec in list(Compression)[1:]:
        yield _compression_target(codec)
    yield Target("tags", _skip_tags, lambda rng: iter([b"\x00", b"\x02\x00\x01a\x01\x00"]))
    yield Target(
        "varint", lambda data: void(varint.read_signed(data, 0)), lambda rng: iter([b"\x00", b"\xff" * 9 + b"\x01"])
    )


# ---------------------------------------------------------------------------------------------------------------------
# Messages


def _message_target(schema: Schema) -> Target:
    """The first byte chooses the version, so that one corpus serves all of them."""
    versions = range(schema.versions.first, schema.versions.last + 1)

    def decode(data: bytes) -> None:
        version = versions[data[0] % len(versions)] if data else versions[0]
        message = schema.decode(version, memoryview(data)[1:])
        again = schema.encode(version, message)
        cut = len(data) % (len(again) or 1)
        if again and _read_or_none(lambda: schema.decode(version, again[:cut])) is not None:
            raise Wrong(f"{schema.name} v{version} was understood without its last {len(again) - cut} bytes")
        if schema.encode(version, schema.decode(version, again)) != again:
            raise Wrong(f"{schema.name} v{version} is not the same after being written and read")

    def seeds(rng: random.Random) -> Iterator[bytes]:
        for index, version in enumerate(versions):
            yield bytes([index]) + schema.encode(version, {})
            yield bytes([index]) + schema.encode(version, random_values(rng, schema.fields, version))

    return Target(schema.name, decode, seeds)


def random_values(rng: random.Random, fields: list[Field], version: int) -> dict[str, Any]:
    return {each.name: _random_field(rng, each, version) for each in fields if version in each.versions}


def _random_field(rng: random.Random, spec: Field, version: int) -> Any:
    if version in spec.nullable and rng.random() < 0.2:
        return None
    if spec.is_array:
        return [_random_item(rng, spec, version) for _ in range(rng.randrange(3))]
    return _random_item(rng, spec, version)


def _random_item(rng: random.Random, spec: Field, version: int) -> Any:
    if spec.kind == "struct":
        return random_values(rng, spec.children, version)
    return RANDOM[spec.kind](rng)


def _decode_frame(data: bytes) -> None:
    """As the dispatcher does it: header, tags, then the table or the hand-written decoder of that API and version."""
    view = memoryview(data)
    header = frame.read_request_header(view)
    if not 10 <= header.body <= len(data):
        raise Wrong("the body begins outside of the request")
    if header.api_key not in messages.api_names():
        return
    schema = messages.api(header.api_key).request
    if header.version not in schema.versions:
        return
    flexible = header.version in schema.flexible
    schema.decode(header.version, view, frame.skip_tags(view, header.body) if flexible else header.body)


def _frame_seeds(rng: random.Random) -> Iterator[bytes]:
    for key in messages.api_names():
        schema = messages.api(key).request
        version = rng.randrange(schema.versions.first, schema.versions.last + 1)
        head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\x00\x02me"
        tags = b"\x00" if version in schema.flexible else b""
        yield head + tags + schema.encode(version, random_values(rng, schema.fields, version))


def _decode_produce(data: bytes) -> None:
    """The hand-written decoder agrees with the table on what is a Produce request and what it says."""
    first, last = produce.VERSIONS
    version = first + (data[0] if data else 0) % (last - first + 1)
    body = memoryview(data)[1:]
    by_table = _read_or_none(lambda: messages.api(produce.API_KEY).request.decode(version, body))
    by_hand = _read_or_none(lambda: produce.decode_request(version, body, 0))
    if by_table is None or by_hand is None:
        return
    said = [
        (topic.name or topic.topic_id, data.index, data.records)
        for topic in by_table.topic_data
        for data in topic.partition_data
    ]
    if [
        (topic or by_table.topic_data[0].topic_id, index, records) for topic, index, records in by_hand.partitions
    ] != said:
        raise Wrong(f"Produce v{version} is read differently by hand and by table")


def _read_or_none(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Malformed:
        return None


# ---------------------------------------------------------------------------------------------------------------------
# Record batches


def _decode_batch(data: bytes) -> None:
    decoded = list(records.decode_batch(data))
    header = batch.read_header(data)
    body = compression.decompress(header.compression, memoryview(data)[batch.HEADER_BYTES : header.size])
    if records.count_records(body) != len(decoded):
        raise Wrong("the lengths tell another number of records than decoding gives")


def _random_records(rng: random.Random) -> list[Record]:
    return [
        Record(
            rng.choice([None, b"", b"key"]),
            rng.choice([None, b"", b"value", bytes(300)]),
            rng.randrange(2**40),
            headers=(("h", rng.choice([None, b"v"])),) * rng.randrange(3),
        )
        for _ in range(rng.randrange(1, 5))
    ]


def batch_seeds(rng: random.Random) -> Iterator[bytes]:
    for codec in Compression:
        yield bytes(records.encode_batch(_random_records(rng), compression=codec))
    yield bytes(records.encode_marker(commit=True, coordinator_epoch=3, producer_id=1, producer_epoch=2, timestamp=4))


def body_seeds(rng: random.Random) -> Iterator[bytes]:
    for _ in range(4):
        yield bytes(records.encode_batch(_random_records(rng))[batch.HEADER_BYTES :])


# ---------------------------------------------------------------------------------------------------------------------
# Compressions and small things


def _compression_target(codec: Compression) -> Target:
    def decode(data: bytes) -> None:
        if len(compression.decompress(codec, data, UNFOLD_LIMIT)) > UNFOLD_LIMIT:
            raise Wrong("more than the limit came out")

    def seeds(rng: random.Random) -> Iterator[bytes]:
        for data in (b"", b"hello " * 50, rng.randbytes(200), bytes(100_000)):
            yield compression.compress(codec, data)

    return Target(codec.name.lower(), decode, seeds)


def _skip_tags(data: bytes) -> None:
    if not 0 < frame.skip_tags(data, 0) <= len(data):
        raise Wrong("tags end outside of the bytes")


def void(_: object) -> None:
    """Only whether it raises matters."""
