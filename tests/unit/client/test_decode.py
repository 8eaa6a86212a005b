"""Record batches to Arrow: against the encoder of the broker, with markers and aborted transactions, and with lies."""

import contextlib
import struct
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.client.decode import SCHEMA, SCHEMA_WITH_HEADERS, Decoder
from fencepost.errors import Malformed
from fencepost.wire import batch
from fencepost.wire.compression import Compression
from fencepost.wire.fetch import Aborted
from fencepost.wire.records import Record, encode_batch, encode_marker
from fencepost.wire.terms import TopicPartition
from tests.unit.wire import strategies

WHERE = TopicPartition("purchases", 3)
END = 2**62

RECORDS = strategies.records(st.integers(-1, 2**45))
BATCHES = st.lists(
    st.tuples(st.lists(RECORDS, min_size=1, max_size=8), st.sampled_from(list(Compression)), st.integers(0, 3)),
    min_size=1,
    max_size=6,
)


def decoded(
    data: bytes | bytearray, start: int = 0, end: int = END, aborted=(), **options
) -> tuple[list[pa.RecordBatch], int]:
    """The record batches, and the next offset."""
    decoder = Decoder(WHERE, end, **options)
    scanned = decoder.scan(memoryview(data), start, aborted)
    made = list(decoder.columns(scanned))
    for part in made:
        part.validate(full=True)
        assert part.schema == (SCHEMA_WITH_HEADERS if options.get("include_headers") else SCHEMA)
    return made, scanned.next_offset


def rows_of(data: bytes | bytearray, *arguments, **options) -> list[dict]:
    parts, _ = decoded(data, *arguments, **options)
    return [row for part in parts for row in part.to_pylist()]


def log(batches) -> tuple[bytes, list[tuple[int, Record]]]:
    """Batches one after the other, with gaps as compaction leaves them."""
    data, expected, offset = bytearray(), [], 0
    for records, codec, gap in batches:
        offset += gap
        data += encode_batch(records, compression=codec, base_offset=offset)
        expected += [(offset + index, record) for index, record in enumerate(records)]
        offset += len(records)
    return bytes(data), expected


def values(rows: list[dict]) -> list[bytes]:
    return [row["value"] for row in rows]


@given(BATCHES, st.booleans(), st.sampled_from([1, 300, 1 << 20]))
@settings(max_examples=80)
def test_records_become_rows_of_sparks_schema(batches, include_headers, batch_bytes):
    data, expected = log(batches)
    parts, _ = decoded(data, include_headers=include_headers, batch_bytes=batch_bytes)
    rows = [row for part in parts for row in part.to_pylist()]
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [(o, r.key, r.value) for o, r in expected]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {("purchases", 3, 0)}
    times_us = [time_us for part in parts for time_us in part.column("timestamp").cast(pa.int64()).to_pylist()]
    assert times_us == [1000 * record.timestamp for _, record in expected]
    if include_headers:
        got = [row["headers"] and tuple((header["key"], header["value"]) for header in row["headers"]) for row in rows]
        assert got == [record.headers or None for _, record in expected]


@given(BATCHES, st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=60)
def test_only_the_range_is_read(batches, start, end):
    data, expected = log(batches)
    assert [row["offset"] for row in rows_of(data, start, end)] == [o for o, _ in expected if start <= o < end]


@given(BATCHES, st.data())
@settings(max_examples=60)
def test_a_last_batch_that_is_cut_short_is_left_for_the_next_fetch(batches, data):
    encoded, expected = log(batches)
    cut = data.draw(st.integers(0, len(encoded)))
    parts, next_offset = decoded(encoded[:cut])
    offsets = [offset for part in parts for offset in part.column("offset").to_pylist()]
    assert offsets == [o for o, _ in expected][: len(offsets)]
    assert next_offset == (offsets[-1] + 1 if offsets else -1)


def test_the_batches_of_a_long_answer_are_all_found():
    data = b"".join(bytes(encode_batch([Record(None, b"%d" % i)], base_offset=i)) for i in range(9_000))
    assert [row["offset"] for row in rows_of(data)] == list(range(9_000))


def test_batches_are_given_in_pieces_of_the_size_that_was_asked_for():
    data = b"".join(bytes(encode_batch([Record(None, bytes(1000))] * 10, base_offset=10 * i)) for i in range(20))
    parts, _ = decoded(data, batch_bytes=50_000)
    assert [len(part) for part in parts] == [50, 50, 50, 50]


def test_compressed_batches_are_not_unfolded_all_at_once():
    zeros = encode_batch([Record(None, bytes(1 << 20))], compression=Compression.ZSTD)
    parts, _ = decoded(zeros * 20, batch_bytes=4 << 20)
    assert [len(part) for part in parts] == [4] * 5


def test_append_time_is_the_batchs_and_has_its_own_type():
    encoded = encode_batch([Record(None, b"a", timestamp=1), Record(None, b"b", timestamp=2)])
    batch.stamp_append_time(encoded, 1_700_000_000_123)
    rows = rows_of(encoded)
    when = datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert [(row["timestamp"], row["timestampType"]) for row in rows] == [(when, 1)] * 2


def test_what_is_decoded_does_not_refer_to_the_fetched_bytes():
    buffer = bytearray(encode_batch([Record(b"key", b"value")]))
    (part,), _ = decoded(buffer)
    buffer[:] = b"x" * len(buffer)
    assert part.to_pylist()[0]["value"] == b"value"


def test_header_keys_that_are_not_text_get_replacement_characters():
    encoded = encode_batch([Record(None, b"v", headers=(("ab", b"x"),))])
    at = bytes(encoded).index(b"ab")
    encoded[at : at + 2] = b"\xff\xfe"
    (row,) = rows_of(sealed(encoded), include_headers=True)
    assert row["headers"] == [{"key": "\ufffd\ufffd", "value": b"x"}]


def test_nothing_decodes_to_nothing():
    assert decoded(b"") == ([], -1)


# -- transactions ------------------------------------------------------------------------------------------------------


class Log:
    """A partition's log written by hand."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.offset = 0

    def write(self, value: bytes, producer_id: int = -1) -> int:
        transactional = producer_id >= 0
        self.data += encode_batch(
            [Record(None, value)], base_offset=self.offset, producer_id=producer_id, producer_epoch=0,
            base_sequence=0 if transactional else -1, transactional=transactional,
        )  # fmt: skip
        self.offset += 1
        return self.offset - 1

    def end(self, producer_id: int, *, commit: bool) -> None:
        marker = encode_marker(
            commit=commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=0
        )
        struct.pack_into(">q", marker, 0, self.offset)
        self.data += marker
        self.offset += 1


def test_markers_are_passed_over_and_move_the_position():
    log = Log()
    log.write(b"a", 1)
    log.end(1, commit=True)
    (part,), next_offset = decoded(log.data)
    assert (part.column("offset").to_pylist(), next_offset) == ([0], 2)


def test_aborted_transactions_are_left_out_and_everything_around_them_is_read():
    log = Log()
    log.write(b"committed 1", 1)
    first = log.write(b"aborted", 2)
    log.write(b"plain")
    log.write(b"committed 2", 1)
    log.write(b"aborted too", 2)
    log.end(2, commit=False)
    log.end(1, commit=True)
    log.write(b"committed 3", 2)
    log.end(2, commit=True)
    rows = rows_of(log.data, aborted=[Aborted(2, first)])
    assert values(rows) == [b"committed 1", b"plain", b"committed 2", b"committed 3"]


def test_one_producer_may_abort_twice():
    log = Log()
    first = log.write(b"x", 2)
    log.end(2, commit=False)
    log.write(b"a", 2)
    log.end(2, commit=True)
    second = log.write(b"y", 2)
    log.write(b"z", 2)
    log.end(2, commit=False)
    assert values(rows_of(log.data, aborted=[Aborted(2, second), Aborted(2, first)])) == [b"a"]


def test_a_transaction_that_was_aborted_before_the_range_began_ends_with_its_marker():
    log = Log()
    log.offset = 10
    log.write(b"aborted", 2)
    log.end(2, commit=False)
    log.write(b"a", 2)
    assert values(rows_of(log.data, 10, aborted=[Aborted(2, 3)])) == [b"a"]


def test_records_without_a_transaction_survive_an_abort_of_the_same_producer():
    log = Log()
    first = log.write(b"aborted", 2)
    idempotent = encode_batch([Record(None, b"a")], base_offset=1, producer_id=2, producer_epoch=0, base_sequence=0)
    assert values(rows_of(bytes(log.data + idempotent), aborted=[Aborted(2, first)])) == [b"a"]


# -- bytes that lie ----------------------------------------------------------------------------------------------------


def valid() -> bytearray:
    return encode_batch([Record(b"k", b"v" * 20, headers=(("h", b"x"),)), Record(None, b"w")])


def test_a_flipped_bit_is_told_by_the_checksum():
    data = valid()
    data[-3] ^= 1
    with pytest.raises(Malformed, match="purchases-3: the batch at offset 0 is corrupt: its checksum is wrong"):
        rows_of(data)


@pytest.mark.parametrize(("length", "magic", "what"), [(48, 2, "length"), (-1, 2, "length"), (49, 1, "format")])
def test_a_batch_header_that_cannot_be_is_refused(length, magic, what):
    data = valid()
    struct.pack_into(">i", data, 8, length)
    data[16] = magic
    with pytest.raises(Malformed, match=what):
        rows_of(data)


def sealed(data: bytearray) -> bytearray:
    """With the checksum of what it contains now."""
    struct.pack_into(">I", data, batch.CRC_OFFSET, batch.checksum(data))
    return data


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_refused(count):
    data = valid()
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(Malformed):
        decoded(sealed(data))


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 5, 7])
def test_a_body_that_is_not_of_its_compression_is_refused(codec):
    data = valid()
    struct.pack_into(">h", data, batch.ATTRIBUTES_OFFSET, codec)
    with pytest.raises(Malformed):
        decoded(sealed(data))


@given(st.binary(max_size=120), st.integers(0, 5), st.booleans())
@settings(max_examples=300)
def test_any_body_decodes_or_is_malformed(body, count, include_headers):
    data = batch.pack_batch(body, record_count=count, last_offset_delta=4, base_timestamp=0, max_timestamp=0)
    with contextlib.suppress(Malformed):
        decoded(data, include_headers=include_headers)


@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
@settings(max_examples=300)
def test_a_damaged_body_decodes_or_is_malformed(records, data):
    encoded = bytearray(encode_batch(records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(batch.HEADER_BYTES, len(encoded) - 1))
        encoded[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Malformed):
        decoded(sealed(encoded), include_headers=True)


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_scan_or_are_malformed(data):
    with contextlib.suppress(Malformed):
        decoded(data, aborted=[Aborted(1, 0)])


def test_the_schema_is_that_of_sparks_kafka_source():
    assert SCHEMA_WITH_HEADERS.names == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert SCHEMA.field("timestamp").type == pa.timestamp("us", tz="UTC")
