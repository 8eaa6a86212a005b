"""The four compressions: round trips, both framings of snappy, what other clients send, and bombs."""

import gzip
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.wire.compression import Compression, compress, decompress

CODECS = list(Compression)
REAL_CODECS = [codec for codec in CODECS if codec is not Compression.NONE]
MEGABYTE = 1024 * 1024

every_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
every_real_codec = pytest.mark.parametrize("codec", REAL_CODECS, ids=lambda codec: codec.name.lower())


@every_codec
@settings(max_examples=40)
@given(data=st.binary(max_size=3000), repeat=st.integers(1, 100))
def test_what_is_compressed_unfolds_to_the_same_bytes(codec, data, repeat):
    assert bytes(decompress(codec, compress(codec, data * repeat))) == data * repeat


@every_codec
@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_can_be_unfolded(codec, view):
    assert bytes(decompress(codec, view(compress(codec, b"abc" * 100)))) == b"abc" * 100


@every_real_codec
def test_data_larger_than_the_first_guess_unfolds(codec):
    data = bytes(5 * MEGABYTE)
    assert bytes(decompress(codec, compress(codec, data))) == data


def test_snappy_is_written_in_xerial_framing_and_read_raw_too():
    data = bytes(range(256)) * 1000
    framed = compress(Compression.SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    assert bytes(decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data)))) == data


def test_xerial_framing_with_blocks_of_any_size_is_read():
    blocks = [b"first", b"", b"x" * 100_000]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for block in blocks:
        packed = bytes(cramjam.snappy.compress_raw(block))
        framed += struct.pack(">i", len(packed)) + packed
    assert bytes(decompress(Compression.SNAPPY, framed)) == b"".join(blocks)


def test_gzip_of_the_standard_library_is_read():
    assert bytes(decompress(Compression.GZIP, gzip.compress(b"hello" * 1000))) == b"hello" * 1000


def test_lz4_frames_of_another_implementation_are_read():
    lz4 = pytest.importorskip("lz4.frame")
    for independent in (True, False):
        for size in (False, True):
            frame = lz4.compress(b"hello" * 50_000, block_linked=not independent, store_size=size)
            assert bytes(decompress(Compression.LZ4, frame)) == b"hello" * 50_000


def test_zstd_frames_of_another_implementation_are_read():
    zstandard = pytest.importorskip("zstandard")
    stream = zstandard.ZstdCompressor().compressobj()
    without_size = stream.compress(b"hello" * 50_000) + stream.flush()
    assert bytes(decompress(Compression.ZSTD, without_size)) == b"hello" * 50_000


@every_real_codec
def test_a_bomb_is_refused_at_the_limit_with_bounded_memory(codec):
    limit = 2 * MEGABYTE
    bomb = compress(codec, bytes(64 * MEGABYTE))
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="expands to more than"):
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Snappy's bomb is a few megabytes itself, and is copied once.
    assert peak < 2 * limit + 2 * len(bomb) + MEGABYTE


def test_a_snappy_block_that_only_claims_to_be_huge_allocates_nothing():
    claim = b"\xff\xff\xff\xff\x0f" + b"\x00"
    tracemalloc.start()
    try:
        for data in (claim, b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(claim)) + claim):
            with pytest.raises(Malformed):
                decompress(Compression.SNAPPY, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE


def test_a_cut_xerial_header_or_block_is_malformed():
    framed = compress(Compression.SNAPPY, b"hello" * 100)
    for length in (*range(8, 16), 17, 19, 25, len(framed) - 1):
        with pytest.raises(Malformed):
            decompress(Compression.SNAPPY, framed[:length])
