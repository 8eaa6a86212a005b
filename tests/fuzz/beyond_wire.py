"""Targets above the wire: what a client's batch has to pass, what members tell each other, and files after a crash."""

import random
import struct
from collections.abc import Callable, Iterator

from crc32c import crc32c

from fencepost.coordinator.group import records as group_records
from fencepost.coordinator.group.members import topics_of
from fencepost.coordinator.txn import model
from fencepost.errors import KafkaError, Malformed
from fencepost.log import snapshot, validation
from fencepost.log.config import LogConfig
from fencepost.log.epochs import LeaderEpochs
from fencepost.log.producers import Producer, Producers
from fencepost.wire import batch, messages, records
from fencepost.wire.compression import decompress
from fencepost.wire.records import Record
from tests.fuzz.targets import Target, Wrong, batch_seeds, body_seeds, random_values, void

NOW_MS = 1_700_000_000_000
TOPICS = {
    "plain": LogConfig(),
    "compacted": LogConfig(cleanup_policy=("compact",)),
    "recompressed": LogConfig(compression_type="zstd"),
    "past": LogConfig(message_timestamp_before_max_ms=NOW_MS // 2),
}


def targets() -> Iterator[Target]:
    for name, config in TOPICS.items():
        yield Target(f"admission-{name}", _admission(config), batch_seeds)
    yield Target("lengths", _count_lengths, _run_seeds)
    yield Target("subscription", lambda data: void(topics_of(data)), _subscription_seeds)
    yield Target("snapshot", _decode_snapshot, _snapshot_seeds)
    yield Target(
        "leader-epochs", lambda data: void(LeaderEpochs.decode(data)), lambda rng: iter([b"0\n2\n0 0\n3 17\n"])
    )
    yield Target("transaction-record", _decode_transaction, _transaction_seeds)
    yield Target("offsets-record", _decode_offsets, _offsets_seeds)


def _admission(config: LogConfig) -> Callable[[bytes], None]:
    """A batch that may enter the log has as many records as it says, whatever the topic asks for."""
    admission = validation.Admission(config)

    def admit(data: bytes) -> None:
        view = memoryview(bytearray(data))
        try:
            validation.check_frame(view)
            struct.pack_into(">I", view, batch.CRC_OFFSET, batch.checksum(view))  # the log has checked it by then
            header = batch.unpack_header(view, 0)
            admitted = admission.admit(view, len(view), header, NOW_MS)
        except KafkaError as refusal:
            raise Malformed(str(refusal)) from None
        _check_admitted(admitted)

    return admit


def _check_admitted(admitted: memoryview) -> None:
    header = batch.read_header(admitted)
    if header.crc != batch.checksum(admitted):
        raise Wrong("an admitted batch has a wrong checksum")
    body = decompress(header.compression, admitted[batch.HEADER_BYTES :])
    if not 0 < records.count_records(body) == header.record_count == header.last_offset_delta + 1:
        raise Wrong("an admitted batch lies about its number of records")


def _count_lengths(data: bytes) -> None:
    """The quick ways to count agree with the plain one."""
    slow = _count(records.count_records, data)
    quick = _count(validation.count_lengths, data)
    if slow != quick:
        raise Wrong(f"{slow} records one by one, {quick} in runs")
    if slow and len(data) >= 2 and validation.has_equal_lengths(memoryview(data), slow + 1):
        raise Wrong("one record too many was taken for equal lengths")
    if slow is None:
        raise Malformed("no records")
    if slow > len(data):
        raise Wrong("more records than bytes")


def _count(how: Callable[[bytes], int], data: bytes) -> int | None:
    try:
        return how(data)
    except Malformed:
        return None


def _run_seeds(rng: random.Random) -> Iterator[bytes]:
    yield from body_seeds(rng)
    for size in (0, 3, 50, 70, 200):
        many = [Record(None, bytes(size))] * rng.randrange(15, 600)
        yield bytes(records.encode_batch(many)[batch.HEADER_BYTES :])


def _subscription_seeds(rng: random.Random) -> Iterator[bytes]:
    yield struct.pack(">hih", 3, 1, 5) + b"topic" + b"\xff\xff\xff\xff" + bytes(8)
    yield struct.pack(">hi", 0, 0)


def _decode_snapshot(data: bytes) -> None:
    """With a right checksum, so that mutations get past it."""
    snapshot.decode(data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:], Producers(), NOW_MS)


def _snapshot_seeds(rng: random.Random) -> Iterator[bytes]:
    producers = Producers()
    yield snapshot.encode(producers)
    for producer_id in range(3):
        producer = Producer(producer_id)
        for index in range(producer_id * 3):
            producer.add_batch(index, index, index, index, NOW_MS)
        producers.restore(producer_id, producer)
    yield snapshot.encode(producers)


def _decode_transaction(data: bytes) -> None:
    model.decode_key(data)
    model.decode("t", data, 0)


def _transaction_seeds(rng: random.Random) -> Iterator[bytes]:
    yield from _stored_seeds(rng, "transaction_log_value")
    yield model.encode_key("some-id")


def _decode_offsets(data: bytes) -> None:
    """A key or a value, whichever it may be."""
    for read in (group_records.read_key, group_records.read_commit, group_records.read_group):
        try:
            read(Record(data, data))
        except Malformed:
            continue
        return
    raise Malformed("neither")


def _offsets_seeds(rng: random.Random) -> Iterator[bytes]:
    for name in ("offset_commit_key", "offset_commit_value", "group_metadata_key", "group_metadata_value"):
        yield from _stored_seeds(rng, name)


def _stored_seeds(rng: random.Random, name: str) -> Iterator[bytes]:
    schema = messages.data(name)
    for version in range(schema.versions.first, schema.versions.last + 1):
        values = random_values(rng, schema.fields, version)
        if "transaction_status" in values:
            values |= {"transaction_status": rng.randrange(6), "client_transaction_version": 1}
        yield struct.pack(">h", version) + schema.encode(version, values)
