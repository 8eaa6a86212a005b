"""Stamping: only the header changes, and the checksum covers all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.client.stamp import following, stamp
from fencepost.errors import Malformed
from fencepost.wire import batch
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, decode_batch, encode_batch, encode_marker

IDENTITY = ProducerIdentity("shop", 4711, 12, TransactionProtocol.V2)
RECORDS = st.lists(st.builds(Record, st.none() | st.binary(max_size=5), st.binary(max_size=50)), min_size=1, max_size=5)


@given(RECORDS, st.integers(0, 2**31 - 1), st.sampled_from(list(Compression)))
def test_a_stamped_batch_is_what_its_producer_would_have_written(records, sequence, compression):
    blob = encode_batch(records, compression=compression)
    stamped = stamp(blob, IDENTITY, sequence)
    assert blob == encode_batch(records, compression=compression), "the blob stays as it was"
    whole = bytes(stamped.header) + bytes(stamped.records)
    assert whole == encode_batch(
        records,
        compression=compression,
        producer_id=IDENTITY.producer_id,
        producer_epoch=IDENTITY.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    assert batch.read_header(whole).crc == batch.checksum(whole)
    assert [(r.key, r.value) for r in decode_batch(whole)] == [(r.key, r.value) for r in records]
    assert (stamped.record_count, stamped.size) == (len(records), len(blob))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"x" * 60,
        b"x" * 100,
        bytes(encode_batch([Record(None, b"v")])) + b"x",
        bytes(encode_batch([Record(None, b"v")]))[:-1],
        bytes(encode_batch([Record(None, b"v")])) * 2,
        bytes(encode_marker(commit=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp=0)),
    ],
    ids=["nothing", "short", "garbage", "longer", "cut", "two", "marker"],
)
def test_what_is_not_one_whole_batch_is_refused(blob):
    with pytest.raises(Malformed):
        stamp(blob, IDENTITY, 0)


def test_sequences_wrap_as_kafkas_do():
    assert following(5, 3) == 8
    assert following(2**31 - 2, 2) == 0
    assert following(2**31 - 1, 5) == 4
