"""Text and numbers as Kafka's serializers write them: the bytes, and what is not such bytes."""

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import ConfigError
from fencepost.formats import named

KINDS = {
    "string": pa.string(), "binary": pa.binary(), "boolean": pa.bool_(), "short": pa.int16(), "integer": pa.int32(),
    "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "uuid": pa.string(),
}  # fmt: skip
ID = "123e4567-e89b-12d3-a456-426614174000"
#: What Java's serializers give.
KNOWN: list[tuple[str, Any, bytes]] = [
    ("string", "é", b"\xc3\xa9"),
    ("binary", b"\xff", b"\xff"),
    ("boolean", True, b"\x01"),
    ("boolean", False, b"\x00"),
    ("short", -2, b"\xff\xfe"),
    ("integer", 258, b"\x00\x00\x01\x02"),
    ("long", -(2**63), b"\x80" + bytes(7)),
    ("float", 1.5, b"\x3f\xc0\x00\x00"),
    ("double", 1.5, b"\x3f\xf8" + bytes(6)),
    ("uuid", ID, ID.encode()),
]
WIDTHS = {"boolean": 1, "short": 2, "integer": 4, "long": 8, "float": 4, "double": 8}


@pytest.mark.parametrize(("name", "value", "data"), KNOWN)
def test_values_are_the_bytes_of_javas_serializers_and_null_is_null(name: str, value: Any, data: bytes):
    kind, found = KINDS[name], named.find(name)
    column = pa.array(["hidden" if pa.types.is_string(kind) else value, value, None, value][1:], kind)
    encoded = found.encoder(kind).encode(column)
    encoded.values.validate(full=True)
    assert (encoded.values.to_pylist(), encoded.faults) == ([data, None, data], {})
    decoded = found.decoder(kind).decode(pa.array([b"x", data, None, data]).slice(1))
    decoded.values.validate(full=True)
    assert (decoded.values.type, decoded.values.to_pylist(), decoded.faults) == (kind, [value, None, value], {})


@pytest.mark.parametrize("name", KINDS)
def test_no_rows_are_no_rows(name: str):
    kind, found = KINDS[name], named.find(name)
    assert found.encoder(kind).encode(pa.array([], kind)).values.to_pylist() == []
    assert found.decoder(kind).decode(pa.array([], pa.binary())).values.to_pylist() == []


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.integers(0, 5))
def test_longs_survive_both_ways_wherever_a_slice_begins(values: list[int | None], begin: int):
    long = named.find("long")
    encoded = long.encoder(pa.int64()).encode(pa.array(values, pa.int64()).slice(begin)).values
    assert encoded.to_pylist() == [None if each is None else struct.pack(">q", each) for each in values[begin:]]
    assert long.decoder(pa.int64()).decode(encoded).values.to_pylist() == values[begin:]


@pytest.mark.parametrize(("name", "width"), WIDTHS.items())
def test_another_length_is_a_fault_of_its_row_alone(name: str, width: int):
    good = bytes(width)
    column = pa.array([good, bytes(width + 1), None, b"", good])
    done = named.find(name).decoder(KINDS[name]).decode(column)
    assert done.values.null_count == 3
    assert [each for each in done.values.to_pylist() if each is not None] == [0, 0]
    article = "an" if name == "integer" else "a"
    assert done.faults == {
        1: f"{width + 1} bytes are not {article} {name}, which has {width}",
        3: f"0 bytes are not {article} {name}, which has {width}",
    }


def test_what_is_neither_0_nor_1_is_no_boolean():
    done = named.find("boolean").decoder(pa.bool_()).decode(pa.array([b"\x01", b"\x02", None]))
    assert (done.values.to_pylist(), done.faults) == (
        [True, None, None],
        {1: "byte 0x02 is not a boolean, which is 0 or 1"},
    )


def test_bytes_that_are_not_utf_8_are_a_fault_of_their_row():
    done = named.find("string").decoder(pa.string()).decode(pa.array([b"good", b"a\xff", None, b"\xc3\xa9"]))
    assert done.values.to_pylist() == ["good", None, None, "é"]
    assert done.faults == {1: "it is not UTF-8: byte 1 is 0xff"}


def test_what_is_not_a_uuid_is_a_fault_both_ways():
    uuid = named.find("uuid")
    encoded = uuid.encoder(pa.string()).encode(pa.array([ID.upper(), "x", None]))
    assert encoded.values.to_pylist() == [ID.encode(), None, None]
    assert encoded.faults.keys() == {1}
    assert encoded.faults[1].startswith("1 bytes are not a UUID, which has 36 characters")
    decoded = uuid.decoder(pa.string()).decode(pa.array([ID.encode(), b"\xff" * 36]))
    assert decoded.values.to_pylist() == [ID, None]
    assert decoded.faults.keys() == {1}


def test_narrower_numbers_are_written_and_wider_ones_refused():
    assert (
        named.find("long").encoder(pa.int32()).encode(pa.array([1], pa.int32())).values[0].as_py() == b"\0" * 7 + b"\1"
    )
    wide = named.find("double").encoder(pa.float32()).encode(pa.array([math.inf], pa.float32()))
    assert wide.values[0].as_py() == struct.pack(">d", math.inf)
    with pytest.raises(ConfigError, match="format 'integer' is for INT, not for int64: CAST it"):
        named.find("integer").encoder(pa.int64())
    with pytest.raises(ConfigError, match="format 'long' is for BIGINT, not for int32"):
        named.find("long").decoder(pa.int32())


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("string", "uuid")])
def test_a_format_refuses_another_type(name: str):
    with pytest.raises(ConfigError, match=f"format '{name}' is for"):
        named.find(name).encoder(pa.string())
