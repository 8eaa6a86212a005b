"""Records inside a batch: round trips, markers, what other clients' encoders write, and bytes that lie."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.wire import batch, records
from fencepost.wire.compression import Compression, decompress
from fencepost.wire.records import Marker, Record
from tests.unit.wire import strategies

TIMES = st.integers(-1, 2**50)
BATCHES = st.lists(strategies.records(TIMES), min_size=1, max_size=8)
CODECS = st.sampled_from(list(Compression))


def body_of(encoded: bytearray) -> bytes:
    header = batch.read_header(encoded)
    return bytes(decompress(header.compression, memoryview(encoded)[batch.HEADER_BYTES :]))


@given(BATCHES, CODECS, st.integers(0, 2**40))
def test_records_are_read_back_at_consecutive_offsets(given_records, codec, base_offset):
    encoded = records.encode_batch(given_records, compression=codec, base_offset=base_offset)
    decoded = list(records.decode_batch(encoded))
    assert [(r.key, r.value, r.timestamp, r.headers) for r in decoded] == [
        (r.key, r.value, r.timestamp, r.headers) for r in given_records
    ]
    assert [r.offset for r in decoded] == [base_offset + i for i in range(len(given_records))]
    header = batch.read_header(encoded)
    assert header.record_count == len(given_records)
    assert header.max_timestamp == max(r.timestamp for r in given_records)
    assert header.crc == batch.checksum(encoded)
    assert header.compression is codec
    assert records.count_records(body_of(encoded)) == len(given_records)


def test_counting_passes_over_lengths_of_every_size():
    sizes = [0, 1, 55, 56, 57, 63, 64, 8000, 8183, 8190, 8191, 8192, 8200, 100_000, 1_100_000]
    encoded = records.encode_batch([Record(None, bytes(size)) for size in sizes])
    assert records.count_records(body_of(encoded)) == len(sizes)


@given(BATCHES, st.data())
def test_a_body_cut_inside_a_record_is_malformed(given_records, data):
    body = body_of(records.encode_batch(given_records))
    boundaries = {0}
    for count in range(1, len(given_records) + 1):
        boundaries.add(len(body_of(records.encode_batch(given_records[:count]))))
    cut = data.draw(st.integers(0, len(body) - 1))
    if cut in boundaries:
        assert records.count_records(body[:cut]) < len(given_records)
    else:
        with pytest.raises(Malformed):
            records.count_records(body[:cut])


@given(st.booleans(), st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.integers(0, 2**15 - 1), TIMES)
def test_a_marker_says_how_the_transaction_ended(commit, coordinator_epoch, producer_id, producer_epoch, timestamp):
    encoded = records.encode_marker(
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=timestamp,
    )
    header = batch.read_header(encoded)
    assert header.is_control and header.is_transactional
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert (header.base_sequence, header.record_count) == (batch.NO_SEQUENCE, 1)
    assert header.max_timestamp == timestamp
    assert records.decode_marker(encoded) == Marker(commit=commit, coordinator_epoch=coordinator_epoch)


def test_a_commit_marker_has_the_bytes_that_kafka_writes():
    (record,) = records.decode_batch(
        records.encode_marker(commit=True, coordinator_epoch=7, producer_id=1, producer_epoch=0, timestamp=0)
    )
    assert record.key == bytes.fromhex("00000001")
    assert record.value == bytes.fromhex("000000000007")


def test_control_records_of_other_kinds_and_empty_ones_are_no_markers():
    leader_change = records.encode_batch([Record(struct.pack(">hh", 0, 2), bytes(8))], control=True)
    assert records.decode_marker(leader_change) is None
    assert records.decode_marker(records.encode_batch([Record(None, None)], control=True)) is None
    empty = batch.pack_batch(b"", record_count=0, last_offset_delta=0, base_timestamp=0, max_timestamp=0)
    assert records.decode_marker(empty) is None


@pytest.mark.parametrize(
    ("count", "what"), [(1, "more bytes than its record count"), (3, "past the end|length"), (2**31 - 1, "past|length")]
)
def test_a_record_count_that_lies_is_malformed(count, what):
    encoded = records.encode_batch([Record(b"k", b"v"), Record(b"k", b"v")])
    header = batch.read_header(encoded)._replace(record_count=count)
    with pytest.raises(Malformed, match=what):
        list(records.decode_batch(encoded, header))


@pytest.mark.parametrize(
    "body",
    [
        "02",  # a length and nothing more
        "01",  # a negative length
        "0c 00 00 00 01 01 00 ff",  # trailing bytes inside the record
        "0c 00 00 00 7e 01 00",  # a key that runs past the record
        "0c 00 00 00 01 01 02",  # one header, no bytes for it
        "10 00 00 00 01 01 02 01 01",  # a header without a key
        "12 00 00 00 01 01 02 02 ff 01",  # a header whose key is not UTF-8
        "0e 00 00 00 01 01 feffffff0f",  # two thousand million headers
        "0c 00 00 00 01 01 01",  # a negative number of headers
    ],
)
def test_a_record_that_lies_about_a_length_is_malformed(body):
    encoded = batch.pack_batch(
        bytes.fromhex(body), record_count=1, last_offset_delta=0, base_timestamp=0, max_timestamp=0
    )
    with pytest.raises(Malformed):
        list(records.decode_batch(encoded))


@given(BATCHES, st.integers(0, 2**40))
def test_kio_reads_our_batches(given_records, base_offset):
    from kio.records.readers import read_batch

    # kio holds times as dates, so it has none before 1970.
    dated = [replace(record, timestamp=record.timestamp % 2**41) for record in given_records]
    encoded = bytes(records.encode_batch(dated, base_offset=base_offset, producer_id=5, producer_epoch=1))
    theirs, _ = read_batch(encoded, 0)
    assert theirs.base_offset == base_offset
    assert [(r.key, r.value) for r in theirs.records] == [(r.key, r.value) for r in given_records]


def test_our_batches_are_read_by_kafka_python():
    memory_records = pytest.importorskip("kafka.record.memory_records")
    given_records = [Record(b"k", b"v", 5, headers=(("h", b"1"), ("n", None))), Record(None, None, 7)]
    for codec in Compression:
        encoded = bytes(records.encode_batch(given_records, compression=codec, base_offset=40))
        read = memory_records.MemoryRecords(encoded)
        theirs = [record for each in iter(read.next_batch, None) for record in each]
        assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [(40, 5, b"k", b"v"), (41, 7, None, None)]
        assert list(theirs[0].headers) == [("h", b"1"), ("n", None)]
