"""JSON as Spark writes it, value by value. That Spark agrees is tested with Spark itself (`tests/spark/formats`)."""

import json
import math
import random
import struct
import zoneinfo
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import ConfigError, WriteFailed
from fencepost.formats import json_encode, named
from fencepost.formats.format import Encoder
from fencepost.formats.zones import Zone, in_zone

JSON = named.find("json")


def written(array: pa.Array) -> list[bytes | None]:
    encoder: Encoder = JSON.encoder(array.type)
    done = encoder.encode(array)
    assert not done.faults
    assert done.values.type == pa.binary()
    done.values.validate(full=True)
    found: list[bytes | None] = done.values.to_pylist()
    return found


def text(value: Any, kind: pa.DataType) -> str:
    """The JSON of one value, as a field."""
    (found,) = written(pa.array([{"x": value}], pa.struct([("x", kind)])))
    assert found is not None
    assert found.startswith(b'{"x":')
    return found[5:-1].decode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-19.99, "-19.99"), (0.001, "0.001"), (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7"), (1e-5, "1.0E-5"), (1e22, "1.0E22"),
        (1e23, "1.0E23"), (2.0**63, "9.223372036854776E18"), (4.9e-324, "4.9E-324"), (1e-323, "9.9E-324"),
        (2e-322, "2.0E-322"), (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1.7976931348623157e308, "1.7976931348623157E308"), (1 / 3, "0.3333333333333333"), (100.5, "100.5"),
        (math.nan, '"NaN"'), (math.inf, '"Infinity"'), (-math.inf, '"-Infinity"'),
    ],
)  # fmt: skip
def test_a_double_looks_as_java_writes_it(value: float, expected: str):
    assert text(value, pa.float64()) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, "0.1"), (1e10, "1.0E10"), (16777216.0, "1.6777216E7"), (3.4028234663852886e38, "3.4028235E38"),
        (1.4e-45, "1.4E-45"), (1.1754943508222875e-38, "1.1754944E-38"), (0.001, "0.001"), (math.nan, '"NaN"'),
    ],
)  # fmt: skip
def test_a_float_looks_as_java_writes_it(value: float, expected: str):
    assert text(value, pa.float32()) == expected


def test_a_double_has_the_fewest_digits_that_mean_it():
    """Python prints the shortest, too, but lays it out in another way."""
    rng = random.Random(1)
    numbers = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(20_000)]
    numbers += [rng.randrange(10**7) / 100 for _ in range(20_000)] + [rng.random() * 1000 for _ in range(20_000)]
    numbers = [number for number in numbers if math.isfinite(number)]
    for number, found in zip(numbers, written(pa.array([[number] for number in numbers])), strict=True):
        assert found is not None
        shortest = Decimal(repr(number)).normalize().as_tuple()
        assert Decimal(found[1:-1].decode()).normalize().as_tuple() == shortest


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_whole_numbers_reach_their_limits(width: int):
    kind, half = getattr(pa, f"int{width}")(), 1 << (width - 1)
    for value in (-half, -1, 0, 1, 9, 10, 99, 100, half - 1):
        assert text(value, kind) == str(value)
    assert text(2 * half - 1, getattr(pa, f"uint{width}")()) == str(2 * half - 1)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, pa.bool_(), "true"),
        (False, pa.bool_(), "false"),
        (Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (Decimal("0E-18"), pa.decimal128(20, 18), "0E-18"),
        (Decimal("0.0000001"), pa.decimal128(10, 7), "1E-7"),
        (Decimal("-0.000001"), pa.decimal128(10, 6), "-0.000001"),
        (b"", pa.binary(), '""'),
        (b"a", pa.binary(), '"YQ=="'),
        (b"ab", pa.binary(), '"YWI="'),
        (b"\xff\xfe\xfd", pa.large_binary(), '"//79"'),
        (0, pa.date32(), '"1970-01-01"'),
        (-719_529, pa.date32(), '"-0001-12-31"'),
        (2_932_897, pa.date32(), '"+10000-01-01"'),
        (-1, pa.timestamp("us"), '"1969-12-31T23:59:59.999"'),
        (1_234_567, pa.timestamp("us", "UTC"), '"1970-01-01T00:00:01.234Z"'),
        (1_593_561_600, pa.timestamp("s", "Europe/Paris"), '"2020-07-01T02:00:00.000+02:00"'),
        (0, pa.timestamp("ns", "-03:30"), '"1969-12-31T20:30:00.000-03:30"'),
        (0, pa.timestamp("ms", "+01:00:30"), '"1970-01-01T01:00:30.000+01:00:30"'),
        (45_296_100_000, pa.time64("us"), '"12:34:56.1"'),
        (45_296, pa.time32("s"), '"12:34:56"'),
    ],
)
def test_other_values(value: Any, kind: pa.DataType, expected: str):
    if pa.types.is_temporal(kind):
        bare = pa.array([value], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
        (found,) = written(pa.StructArray.from_arrays([bare], ["x"]))
        assert found == f'{{"x":{expected}}}'.encode()
    else:
        assert text(value, kind) == expected


@settings(max_examples=200)
@given(st.text())
def test_every_text_is_escaped_as_jackson_does(value: str):
    found = text(value, pa.string())
    assert json.loads(found) == value
    assert all(char >= " " for char in found), "controls are escaped"


def test_escapes_are_the_short_ones_and_capitals():
    assert (
        text('"\\/\b\t\n\f\r\x00\x1f\x7f\u2028é😀', pa.string())
        == '"\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001F\x7f\u2028é😀"'
    )


def test_bytes_that_are_not_text_become_replacement_characters_and_spoil_no_neighbour():
    raw = pa.array([b"good", b"\xff", b"\xed\xa0\x80", None, b"\xc3"], pa.binary())
    strings = pa.Array.from_buffers(pa.string(), 5, raw.buffers(), raw.null_count)
    found = written(pa.StructArray.from_arrays([strings], ["x"]))
    assert found == [b'{"x":"good"}', *[b'{"x":"\xef\xbf\xbd"}'] * 2, b"{}", b'{"x":"\xef\xbf\xbd"}']


def test_nulls_are_left_out_of_objects_and_kept_in_arrays_and_maps():
    kind = pa.struct([("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.string())), ("n", pa.null())])
    rows = [
        {"a": [None, 1], "m": [("k", None)], "n": None},
        None,
        {"a": None, "m": [], "n": None},
        {"a": [], "m": None},
    ]
    assert written(pa.array(rows, kind)) == [b'{"a":[null,1],"m":{"k":null}}', None, b'{"m":{}}', b'{"a":[]}']
    assert written(pa.array([[None], None, []], pa.list_(pa.null()))) == [b"[null]", None, b"[]"]
    assert written(pa.array([{}, None], pa.struct([]))) == [b"{}", None]


def test_the_keys_of_maps_become_names():
    assert written(pa.array([[(1, 2), (-3, None)]], pa.map_(pa.int32(), pa.int64()))) == [b'{"1":2,"-3":null}']
    assert written(pa.array([[('"', 1)]], pa.map_(pa.string(), pa.int64()))) == [b'{"\\"":1}']
    assert written(pa.array([[(math.nan, 1), (1e7, 2)]], pa.map_(pa.float64(), pa.int64()))) == [b'{"NaN":1,"1.0E7":2}']
    assert written(pa.array([[(True, 1)]], pa.map_(pa.bool_(), pa.int64()))) == [b'{"true":1}']


LEAVES = st.sampled_from([pa.int64(), pa.string(), pa.float64(), pa.bool_()])
KINDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)])
        ),
    ),
    max_leaves=5,
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        fields = {kind.field(index).name: values_of(kind.field(index).type) for index in range(kind.num_fields)}
        return st.none() | st.fixed_dictionaries(fields)
    if pa.types.is_map(kind):
        return st.none() | st.dictionaries(st.text(max_size=3), values_of(kind.item_type), max_size=3).map(
            lambda found: [*found.items()]
        )
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=3)
    plain = {
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.string(): st.text(max_size=8),
        pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
        pa.bool_(): st.booleans(),
    }
    return st.none() | plain[kind]


def expected(value: Any, kind: pa.DataType) -> Any:
    """What a reader of JSON gets."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        kinds = {kind.field(index).name: kind.field(index).type for index in range(kind.num_fields)}
        return {name: expected(item, kinds[name]) for name, item in value.items() if item is not None}
    if pa.types.is_map(kind):
        return {name: expected(item, kind.item_type) for name, item in value}
    if pa.types.is_list(kind):
        return [expected(item, kind.value_type) for item in value]
    return value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_slice_of_any_structure_says_what_it_holds(data: st.DataObject):
    kind = data.draw(KINDS.map(lambda found: pa.struct([("x", found)])))
    rows = data.draw(st.lists(values_of(kind), max_size=6))
    begin = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows)))
    found = written(pa.array(rows, kind).slice(begin, count))
    meant = [expected(row, kind) for row in rows[begin : begin + count]]
    assert [None if each is None else json.loads(each) for each in found] == meant


def test_a_string_of_ten_megabytes_is_written_whole():
    long = "x\n" * (5 << 20)
    (found,) = written(pa.array([{"x": long}]))
    assert found is not None
    assert json.loads(found) == {"x": long}


def test_more_than_arrow_can_count_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_encode, "BYTES_MAX", 100)
    with pytest.raises(WriteFailed, match=r"2 GiB \(101 bytes\): lower spark.sql.execution.arrow.maxRecordsPerBatch"):
        written(pa.array([["x" * 97]]))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.int64(), "STRUCT, MAP or ARRAY, not of int64"),
        (pa.struct([("a", pa.struct([("b", pa.duration("us"))]))]), r"a\.b is duration\[us\]"),
        (pa.list_(pa.month_day_nano_interval()), r"\[\] is month_day_nano_interval"),
        (pa.struct([("m", pa.map_(pa.binary(), pa.int32()))]), "m has binary. Use STRING keys"),
        (
            pa.struct([("v", pa.struct([pa.field("value", pa.binary(), metadata={"variant": "true"})]))]),
            "v is a VARIANT",
        ),
        (pa.struct([("t", pa.timestamp("us", "Mars/Olympus"))]), "no time zone 'Mars/Olympus'"),
    ],
    ids=str,
)
def test_a_type_that_cannot_be_written_is_named(kind: pa.DataType, message: str):
    with pytest.raises(ConfigError, match=message):
        JSON.encoder(kind)


def test_only_the_zone_of_a_type_changes():
    kind = pa.struct(
        [
            ("t", pa.timestamp("us", "UTC")),
            ("n", pa.timestamp("us")),
            ("l", pa.list_(pa.map_(pa.string(), pa.timestamp("ms", "UTC")))),
        ]
    )
    changed = in_zone(kind, "Asia/Tokyo")
    assert str(changed) == str(kind).replace("UTC", "Asia/Tokyo")


@pytest.mark.parametrize("name", ["America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "PST"])
def test_offsets_of_a_zone_are_those_of_each_moment_also_on_the_days_they_change(name: str):
    rng = random.Random(3)
    near = [1_583_650_800, 1_604_210_400, 1_586_012_400, 1_601_740_800]
    moments = [rng.randrange(-(10**9), 4 * 10**9) for _ in range(300)] + [each + s for each in near for s in (-1, 0, 1)]
    region = zoneinfo.ZoneInfo({"PST": "America/Los_Angeles"}.get(name, name))
    meant = [datetime.fromtimestamp(each, UTC).astimezone(region).utcoffset() for each in moments]
    found = Zone(name).offsets_s(np.array(moments, np.int64))
    assert found.tolist() == [int(each.total_seconds()) for each in meant if each is not None]
