"""Kafka's variable-length integers: unsigned (lengths in flexible messages) and zigzag (inside records)."""

from fencepost.errors import Malformed

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def write_unsigned(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_signed(out: bytearray, value: int) -> None:
    """Zigzag, so that small negative numbers stay short. Works for 32 and 64 bits."""
    write_unsigned(out, (value << 1) ^ (value >> 63))


def read_unsigned(
    buffer: bytes | bytearray | memoryview, position: int, max_bytes: int = MAX_VARINT_BYTES
) -> tuple[int, int]:
    """Return the value and the position after it."""
    result = shift = 0
    for taken in range(max_bytes):
        try:
            byte = buffer[position + taken]
        except IndexError:
            raise Malformed("varint runs past the end") from None
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position + taken + 1
        shift += 7
    raise Malformed(f"varint is longer than {max_bytes} bytes")


def read_signed(
    buffer: bytes | bytearray | memoryview, position: int, max_bytes: int = MAX_VARLONG_BYTES
) -> tuple[int, int]:
    value, position = read_unsigned(buffer, position, max_bytes)
    return (value >> 1) ^ -(value & 1), position
