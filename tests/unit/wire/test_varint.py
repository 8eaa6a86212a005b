"""Variable-length integers: the bytes that Kafka writes, and bytes that nobody should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.wire import varint


def unsigned(value: int) -> bytes:
    out = bytearray()
    varint.write_unsigned(out, value)
    return bytes(out)


def signed(value: int) -> bytes:
    out = bytearray()
    varint.write_signed(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (2**31 - 1, "ffffffff07")],
)
def test_known_unsigned_values(value, encoded):
    assert unsigned(value).hex() == encoded


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-2, "03"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_zigzag_values(value, encoded):
    assert signed(value).hex() == encoded


@given(st.integers(0, 2**35 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_unsigned_values_are_read_back_wherever_they_lie(value, before, after):
    encoded = unsigned(value)
    assert varint.read_unsigned(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_values_are_read_back(value):
    encoded = signed(value)
    assert varint.read_signed(memoryview(encoded), 0) == (value, len(encoded))


@given(st.binary(max_size=12), st.sampled_from([5, 10]))
def test_any_bytes_are_read_or_malformed_and_no_more_than_allowed_are_looked_at(data, limit):
    try:
        value, position = varint.read_unsigned(data, 0, limit)
    except Malformed:
        return
    assert 0 < position <= limit
    assert 0 <= value < 1 << 7 * limit


def test_a_varint_that_never_ends_is_malformed():
    with pytest.raises(Malformed, match="longer than 5"):
        varint.read_unsigned(b"\x80" * 6, 0)
    with pytest.raises(Malformed, match="longer than 10"):
        varint.read_signed(b"\x80" * 11, 0)
    with pytest.raises(Malformed, match="past the end"):
        varint.read_unsigned(b"\x80", 0)
