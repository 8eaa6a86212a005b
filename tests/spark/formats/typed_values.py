"""Arrow columns of generated types and values, with a preference for limits and oddities. A seed gives the same."""

import random
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa

#: Null, empty, escapes, controls, several planes of Unicode, separators of JavaScript; the last ones are not UTF-8.
TEXTS = [
    b"", b"a", b'"', b"\\", b"/", b"</script>", b"\b\t\n\f\r", b"\x00\x01\x1f\x7f", b"null", b" ", b"x" * 300,
    "é".encode(), "\u2028\u2029".encode(), "😀".encode(), "\ufeff".encode(), "\uffff".encode(), "日本語".encode(),
    b"\xff", b"a\xc3", b"\xc3\x28", b"\xed\xa0\x80", b"\xed\xa0", b"\xed\xa0z", b"\xf0\x9f\x98", b"\xf0\x9f\x98z",
    b"\xf4\x90\x80\x80", b"\xe0\x80\xaf", b"\xc0\xaf", b"\xf8\x88\x80\x80\x80", b"\x80\x80", b"\xe2\x82",
]  # fmt: skip
DOUBLES = [
    0.0, -0.0, 1.0, 0.1, 0.001, 0.00099999, 1e-3, 1e7, 9999999.0, 9999999.999999998, 12345678.9, 1e21, 1e22, 1e23,
    4.9e-324, 1e-323, 1.5e-323, 2e-322, 2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308,
    float("nan"), float("inf"), float("-inf"), 2.0**53, 2.0**53 - 1, 2.0**63, 3.4028234663852886e38, 1.4e-45, 1.0e-44,
    1.17549435e-38, 1.17549421e-38, 16777216.0, 33554432.0, 8388607.5, 2.0**-10, 1 / 3, 100.0, 19.99, 5e-5,
]  # fmt: skip
#: Microseconds at which zones change, calendars are odd, or years have another number of digits.
MICROS = [
    0, -1, 1, 999, 1000, -999, -1000, 999_999, 1_000_000, 253_402_300_799_999_999, 253_402_300_800_000_000,
    -62_135_596_800_000_000, -62_135_596_800_000_001, -62_167_219_200_000_000, -62_198_755_200_000_000,
    1_585_443_600_000_000, 1_585_443_599_999_999, 1_603_587_600_000_000, 1_603_587_599_000_000, -2_840_140_800_000_000,
    -1_025_741_972_000_000, 951_782_400_000_000, 4_107_542_399_999_999, 9_007_199_254_740_991_000,
    -9_007_199_254_740_991_000, 300_000_000_000_000_000, 301_234_567_890_123_456,
]  # fmt: skip
DAY_US = 86_400_000_000

SIMPLE = ["bool", "int8", "int16", "int32", "int64", "floating", "string", "binary", "decimal", "date", "ts", "ntz"]
KEYS = ["string", "string", "string", "int32", "int64", "floating", "bool", "date", "decimal", "ts", "ntz"]
NAMES = ["a", "b", "purchaseId", "with space", 'quo"te', "back\\slash", "é", "日本", "tab\t", "dot.ted", "x" * 40]


def random_type(rng: random.Random, floating: pa.DataType, depth: int = 0, *, is_top: bool = True) -> pa.DataType:
    """A struct, map or array. Its floating numbers are all of one type."""
    word = rng.choice(
        ["struct", "struct", "struct", "list", "map"] if is_top or (depth < 2 and rng.random() < 0.4) else [""]
    )
    if word == "struct":
        names = rng.sample(NAMES, rng.randint(1, 6))
        return pa.struct([(name, random_type(rng, floating, depth + 1, is_top=False)) for name in names])
    if word == "list":
        return pa.list_(random_type(rng, floating, depth + 1, is_top=False))
    if word == "map":
        return pa.map_(_simple(rng, rng.choice(KEYS), floating), random_type(rng, floating, depth + 1, is_top=False))
    return _simple(rng, rng.choice(SIMPLE), floating)


def every_type(floating: pa.DataType) -> pa.DataType:
    rng = random.Random(0)
    return pa.struct([(name, _simple(rng, name, floating)) for name in SIMPLE])


def _simple(rng: random.Random, name: str, floating: pa.DataType) -> pa.DataType:
    if name == "decimal":
        precision = rng.choice([1, 5, 9, 10, 18, 19, 38])
        return pa.decimal128(precision, rng.randint(0, precision))
    known = {
        "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
        "floating": floating, "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
        "ts": pa.timestamp("us", "UTC"), "ntz": pa.timestamp("us"),
    }  # fmt: skip
    return known[name]


def random_array(rng: random.Random, kind: pa.DataType, rows: int, nulls: float = 0.15) -> pa.Array:
    there = [rng.random() >= nulls for _ in range(rows)]
    mask = pa.array([not each for each in there])
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        children = [random_array(rng, field.type, rows) for field in fields]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        sizes = [rng.choice([0, 1, 1, 2, 3, 5]) if each else 0 for each in there]
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + size)
        offsets = pa.array(
            [start if each else None for start, each in zip(starts, [*there, True], strict=True)], pa.int32()
        )
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(offsets, random_array(rng, kind.value_type, starts[-1]), type=kind)
        keys = random_array(rng, kind.key_type, starts[-1], nulls=0)
        return pa.MapArray.from_arrays(offsets, keys, random_array(rng, kind.item_type, starts[-1]), type=kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = pa.array([_text(rng) if each else None for each in there], pa.binary())
        return pa.Array.from_buffers(kind, rows, found.buffers())
    return _simple_array(rng, kind, there)


def _simple_array(rng: random.Random, kind: pa.DataType, there: list[bool]) -> pa.Array:
    values = [_value(rng, kind) if each else None for each in there]
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).view(kind)
    return pa.array(values, kind)


def _text(rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.randbytes(rng.randint(1, 12))
    return b"".join(rng.choice(TEXTS) for _ in range(rng.choice([0, 1, 1, 1, 2, 3])))


def _value(rng: random.Random, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return _floating(rng, kind)
    if pa.types.is_decimal(kind):
        digits = rng.randint(1, kind.precision)
        unscaled = rng.choice([0, 1, 10 ** (digits - 1), 10**digits - 1, rng.randrange(10**digits)])
        return Decimal((rng.randint(0, 1), Decimal(unscaled).as_tuple().digits, -kind.scale))
    if pa.types.is_date(kind):
        return rng.choice(
            [rng.choice(MICROS) // DAY_US, rng.randint(-200_000, 200_000), rng.randint(-2_000_000, 5_000_000)]
        )
    if pa.types.is_timestamp(kind):
        near = rng.choice([0, rng.randint(-DAY_US, DAY_US)])
        return rng.choice([rng.choice(MICROS) + near, rng.randint(-(10**16), 10**16), rng.randint(0, 2 * 10**15)])
    half = 1 << (kind.bit_width - 1)
    return rng.choice([0, 1, -1, 9, 10, 99, 100, half - 1, -half, rng.randrange(-half, half), rng.randrange(-128, 128)])


def _floating(rng: random.Random, kind: pa.DataType) -> float:
    is_double = pa.types.is_float64(kind)
    chance = rng.random()
    if chance < 0.3:
        return rng.choice(DOUBLES) * rng.choice([1, -1])
    if chance < 0.6:
        return rng.randrange(10**7) / rng.choice([1, 10, 100, 1000])
    if chance < 0.8:
        return rng.random() * 10.0 ** rng.randint(-12, 12)
    size, code = (64, "d") if is_double else (32, "f")
    found: float = struct.unpack(f"<{code}", rng.getrandbits(size).to_bytes(size // 8, "little"))[0]
    return found
