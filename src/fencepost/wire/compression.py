"""The four compressions a record batch may use, each in the framing that Kafka's clients expect.

Snappy has two framings: Java clients use xerial's blocks, others send one raw block. Both are read. Xerial is written,
because every client reads it. Decompression is bounded: a small batch that would expand to gigabytes is refused as
malformed instead of filling the memory.
"""

import enum
import struct

import cramjam

from fencepost.errors import Malformed

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024

#: Upper bound for one decompressed batch. Compressed, it has at most `message.max.bytes` (1 MiB by default).
MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
#: A stricter bound for small batches, because all other clients wait while a batch is checked.
MAX_DECOMPRESSED_BYTES_OF_SMALL = 64 * 1024 * 1024
MAX_RATIO = 64

#: cramjam's message if the output buffer was too small.
OUTPUT_FULL = "failed to write whole buffer"


class Compression(enum.IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: bytes) -> bytes:
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data))
        case Compression.SNAPPY:
            return _xerial_compress(data)
        case Compression.LZ4:
            return _lz4_compress(data)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def decompress(
    codec: Compression, data: bytes | bytearray | memoryview, limit: int | None = None
) -> bytes | memoryview:
    """Undo `compress`; raises Malformed if the bytes are not of that codec or expand past `limit`."""
    if codec is Compression.NONE:
        return memoryview(data)
    if limit is None:
        limit = min(MAX_DECOMPRESSED_BYTES, max(MAX_DECOMPRESSED_BYTES_OF_SMALL, MAX_RATIO * len(data)))
    try:
        if codec is Compression.SNAPPY:
            return _snappy_decompress(bytes(data), limit)
        return _bounded(codec, data, limit)
    except (cramjam.DecompressionError, ValueError, OSError) as error:
        raise Malformed(f"not {codec.name.lower()} data: {error}") from None


def _bounded(codec: Compression, data: bytes | bytearray | memoryview, limit: int) -> memoryview:
    """Decompress into a buffer, and enlarge it until the data fits or the limit is reached."""
    module = {Compression.GZIP: cramjam.gzip, Compression.LZ4: cramjam.lz4, Compression.ZSTD: cramjam.zstd}[codec]
    size = min(limit, max(64 * 1024, 8 * len(data)))
    while True:
        buffer = bytearray(size)
        try:
            return memoryview(buffer)[: module.decompress_into(data, buffer)]
        except cramjam.DecompressionError as error:
            del buffer  # before the next one is made, and before an error keeps it alive
            if OUTPUT_FULL not in str(error):
                raise
            if size == limit:
                raise Malformed(f"batch expands to more than {limit} bytes") from None
        size = min(limit, 4 * size)


def _lz4_compress(data: bytes) -> bytes:
    """With independent blocks: Java's Kafka refuses a frame whose blocks refer to earlier ones."""
    compressor = cramjam.lz4.Compressor(level=1, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def _xerial_compress(data: bytes) -> bytes:
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def _snappy_decompress(data: bytes, limit: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _snappy_block(data, limit)
    if len(data) < len(XERIAL_HEADER):
        raise Malformed("truncated snappy header")
    out = bytearray()
    position = len(XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise Malformed("truncated snappy block length")
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if length < 0 or position + length > len(data):
            raise Malformed("truncated snappy block")
        out += _snappy_block(data[position : position + length], limit - len(out))
        position += length
    return bytes(out)


def _snappy_block(block: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise Malformed("batch expands to more than the limit")
    return bytes(cramjam.snappy.decompress_raw(block))
