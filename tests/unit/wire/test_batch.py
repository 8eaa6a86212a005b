"""The 61 bytes before the records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.wire import batch
from fencepost.wire.batch import BatchHeader
from fencepost.wire.compression import Compression
from tests.unit.wire.strategies import INTEGERS

INT16, INT32, INT64 = (INTEGERS[kind] for kind in ("int16", "int32", "int64"))


def header(**changes: int) -> BatchHeader:
    values = dict.fromkeys(BatchHeader._fields, 0)
    return BatchHeader(**{**values, **changes})


@given(
    records=st.binary(max_size=100),
    record_count=INT32,
    last_offset_delta=INT32,
    base_timestamp=INT64,
    max_timestamp=INT64,
    base_offset=INT64,
    attributes=INT16,
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=INT32,
)
def test_a_packed_header_is_read_back_and_its_checksum_is_right(records, **fields):
    packed = batch.pack_batch(records, **fields)
    read = batch.read_header(packed)
    assert {name: getattr(read, name) for name in fields} == fields
    assert read.magic == batch.MAGIC
    assert read.size == len(packed) == batch.HEADER_BYTES + len(records)
    assert read.crc == batch.checksum(packed)
    assert bytes(packed[batch.HEADER_BYTES :]) == records


def test_a_header_is_read_in_the_middle_of_a_buffer():
    packed = batch.pack_batch(b"", record_count=3, last_offset_delta=2, base_timestamp=0, max_timestamp=0)
    assert batch.read_header(b"xx" + packed, 2) == batch.read_header(packed)


def test_the_last_sequence_wraps_around():
    assert header(base_sequence=5, last_offset_delta=2).last_sequence == 7
    assert header(base_sequence=2**31 - 1, last_offset_delta=0).last_sequence == 2**31 - 1
    assert header(base_sequence=2**31 - 1, last_offset_delta=1).last_sequence == 0
    assert header(base_sequence=2**31 - 2, last_offset_delta=4).last_sequence == 2
    assert header(base_sequence=batch.NO_SEQUENCE, last_offset_delta=4).last_sequence == batch.NO_SEQUENCE


def test_attributes_are_told_apart():
    assert header(attributes=0x10).is_transactional and not header(attributes=0x10).is_control
    assert header(attributes=0x30).is_transactional and header(attributes=0x30).is_control
    assert header(attributes=0x08).uses_append_time
    assert header(attributes=0x7C).compression is Compression.ZSTD
    assert header(base_offset=10, last_offset_delta=3).last_offset == 13


@pytest.mark.parametrize("code", [5, 6, 7])
def test_a_compression_that_does_not_exist_is_malformed(code):
    with pytest.raises(Malformed, match=f"unknown compression {code}"):
        _ = header(attributes=code).compression
