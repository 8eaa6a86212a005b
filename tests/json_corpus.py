"""Generated JSON documents for a schema: mostly good, with everything that is rare, at a limit, or wrong among them.

A seed gives the same documents in every run. They are made as text, from the schema down: a value that fits its type
most of the time, now and then one of another type; then some have bytes changed.
"""

import base64
import itertools
import random
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

#: Every type that JSON can give, flat.
FLAT = pa.struct(
    [
        ("b", pa.bool_()), ("i8", pa.int8()), ("i16", pa.int16()), ("i32", pa.int32()), ("i64", pa.int64()),
        ("f32", pa.float32()), ("f64", pa.float64()), ("d5", pa.decimal128(5, 2)), ("d18", pa.decimal128(18, 0)),
        ("d38", pa.decimal128(38, 18)), ("s", pa.string()), ("x", pa.binary()), ("dt", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("us")),
    ]
)  # fmt: skip
_LINE = pa.struct([("sku", pa.string()), ("price", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string()))])
#: Structs, lists and maps inside each other.
NESTED = pa.struct(
    [
        ("id", pa.int64()), ("lines", pa.list_(_LINE)), ("by", pa.map_(pa.string(), _LINE)),
        ("grid", pa.list_(pa.list_(pa.float64()))), ("deep", pa.struct([("er", pa.struct([("est", pa.int32())]))])),
        ("counts", pa.map_(pa.string(), pa.int64())), ("raw", pa.string()), ("größe", pa.float64()), ("", pa.bool_()),
    ]
)  # fmt: skip
TEXTS = pa.struct([("a", pa.string()), ("b", pa.string()), ("c", pa.map_(pa.string(), pa.string()))])
TIMES = pa.struct(
    [
        ("berlin", pa.timestamp("us", "Europe/Berlin")), ("lord", pa.timestamp("us", "Australia/Lord_Howe")),
        ("ntz", pa.timestamp("us")), ("dt", pa.date32()),
    ]
)  # fmt: skip
ARRAY = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
MAP = pa.map_(pa.string(), pa.list_(pa.int32()))

#: Documents that no generator should have to find by luck.
FIXED = (
    b"", b" \n\t ", b"null", b"true", b"1", b'"text"', b"[]", b"{}", b" {} ", b"{}{}", b"{} x", b"{},", b"[{}]",
    b"\xef\xbb\xbf{}", b"\xfe\xff\x00{\x00}", b"{\x00}", b'{"s":"\xff"}', b'{"s":"\xed\xa0\x80"}', b'{"s":"\xc0\xaf"}',
    b'{"s":"\xf4\x90\x80\x80"}', b'{"s":"a\nb"}', b'{"s":"a\\nb"}', b'{"s":"\\x"}', b'{"s":"\\u12"}', b'{"s":"\\\'"}',
    b'{"s":"\\ud83d\\ude00"}', b'{"s":"\\ude00\\ud83d"}', b'{"s":"\\ud83d\\ud83d\\ude00"}', b"{'s':'a\"b'}",
    b"{s:1}", b'{"s":1,}', b'{,"s":1}', b'{"s":[1,]}', b'{"s":[,1]}', b'{"s":01}', b'{"s":1.}', b'{"s":.5}',
    b'{"s":+1}', b'{"s":-}', b'{"s":1e}', b'{"s":0x1}', b'{"s":NaN}', b'{"s":-INF}', b'{"s":+INF}', b'{"s":INF}',
    b'{"s":Infinity}', b'{"s":-Infinity}', b'{"s":+Infinity}', b'{"s":-NaN}', b'{"s":nan}', b'{"s":nullx}',
    b'{"s":tru}', b'{"s":True}', b'{"s" 1}', b'{"s":}', b'{"s"}', b'{"s":1 "t":2}', b'/**/{"s":1}', b'{"s":1}//',
    b'{"s":1', b'{"s":"', b'{"s":[', b"{", b"[", b'{"\\u0073":5}', b'{"s":1,"s":2}', b'{"s":1,"s":null}',
    b'{"i32":1,"i32":"x"}', b'{"i32":"x","i32":1}', b'{"S":1}', b'{"s":{"a":1,"a":2}}', b'{"s":{"a" : 1.0 , "b":[ ]}}',
    b'{"s":1.10}', b'{"s":1e400}', b'{"s":-0}', b'{"s":-0.0}', b'{"f64":-0}', b'{"f64":-0.0}', b'{"d5":-0.001}',
    b'{"s":{"a":"\\u0001\\u007f\xe2\x80\xa8\xf0\x9f\x98\x80\\ud800/\\/"}}', b'{"x":"YQ==YQ=="}', b'{"x":"Y\nQ=="}',
    b'{"x":"YQ=="\n}', b'{"x":"YWJj\nYWJj"}', b"{'x':'YWJj\nYWJj'}", b'{"x":"YQ"}', b'{"x":"=="}', b'{"x":""}',
    b'{"counts":{"a":1,"a":2}}', b'{"counts":{"\\ud800":1}}', b'{"s":"' + b"a" * 70_000 + b'"}',
    b'{"' + b"n" * 50_000 + b'":1}', b'{"' + b"n" * 50_001 + b'":1}', b'{"s":' + b"1" * 1000 + b"}",
    b'{"s":-' + b"1" * 1000 + b"}", b'{"s":' + b"1" * 1001 + b"}", b'{"f64":' + b"1" * 999 + b".5}",
    b'{"f64":0.' + b"0" * 999 + b"1}", b'{"s":' + b"[" * 999 + b"]" * 999 + b"}",
    b'{"s":' + b"[" * 1000 + b"]" * 1000 + b"}", b'{"zz":' + b"[" * 999 + b"]" * 999 + b"}",
    b'{"zz":' + b"[" * 1000 + b"]" * 1000 + b"}", b'{"zz":' + b'{"a":' * 100_000,
)  # fmt: skip


def documents(seed: int, wanted: Any, count: int) -> list[bytes]:
    chance = random.Random(seed)
    maker = Maker(chance)
    made = list(FIXED[:count])
    while len(made) < count:
        document = (maker.space() + maker.value(wanted, top=True) + maker.space()).encode("utf-8", "surrogatepass")
        if chance.random() < 0.15:
            document = mutated(chance, document)
        made.append(document)
    return made


def mutated(chance: random.Random, document: bytes) -> bytes:
    """With some bytes changed, lost or added."""
    made = bytearray(document)
    for _ in range(chance.randint(1, 3)):
        at, kind = chance.randrange(len(made) + 1), chance.random()
        if kind < 0.3 and at < len(made):
            made[at] = chance.randrange(256)
        elif kind < 0.6 and at < len(made):
            del made[at]
        elif kind < 0.95:
            made[at:at] = chance.choice(_BYTES)
        else:
            del made[at:]
    return bytes(made)


_BYTES = [
    b'"', b",", b"{", b"}", b"[", b"]", b":", b"\\", b"0", b"-", b"+", b".", b"e", b"'", b" ", b"\n", b"\xc3\xa9",
    b"\xff", b"\x00", b"\x7f", b"\xed\xa0\x80", b"null", b"1",
]  # fmt: skip
_ANY = [
    "null", "true", "false", "1", "-1.5", "1e3", '"x"', '""', "[]", "{}", "[1]", '{"a":1}', "NaN", "'q'", "-INF",
    "1.10", '"NaN"', '"-INF"', '"Infinity"', '"1"', '"2020-01-01"',
]  # fmt: skip
_ZONES = [
    "", "", "", "Z", "+01:00", "-08:00", "+1:00", "+01:5", "+18:00", "+18:01", "+0530", "+05", "+5", "+053015",
    "+05:30:15", "UTC", "GMT", "UT", "GMT+1", "UTC-01:30", "UT+2", "GMT0", " Europe/Paris", "Europe/Paris", "PST",
    " EST", "IST",
    "Asia/Kathmandu", "America/New_York", "Nowhere/City", "z", " ", "+", "-", "Zulu",
]  # fmt: skip
_CHARACTERS = [
    "a", "b", "Z", " ", "0", "é", "ß", "Ł", "中", "😀", "\u2028", "\u007f", "\u0080", "\ufffd", "\uffff", "𝒳", "'", "/",
]  # fmt: skip
_ESCAPES = [
    "\\n", "\\t", "\\b", "\\f", "\\r", "\\\\", '\\"', "\\/", "\\'", "\\u0041", "\\u00e9", "\\u4e2D", "\\ud83d\\ude00",
    "\\u0000", "\\uD800", "\\udc00", "\\u001f",
]  # fmt: skip


class Maker:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def space(self) -> str:
        return self._chance.choice(("", "", "", "", "", "", " ", "\n", "\t", "\r\n  "))

    def value(self, wanted: Any, *, top: bool = False) -> str:
        luck = self._chance.random()
        if not top and luck < 0.04:
            return "null"
        if luck > 0.994:
            return self._chance.choice(_ANY)
        if pa.types.is_struct(wanted):
            return self._object(
                [(self._name(field.name), field.type) for field in wanted], missing=self._chance.choice((0.0, 0.3, 0.8))
            )
        if pa.types.is_map(wanted):
            return self._object([(self.text(0.05), wanted.item_type) for _ in range(self._chance.randint(0, 3))])
        if pa.types.is_list(wanted):
            items = [self.value(wanted.value_type) for _ in range(self._chance.randint(0, 4))]
            return self._around("[", [self.space() + item + self.space() for item in items], "]")
        return self._leaf(wanted)()

    def _object(self, fields: list[tuple[str, Any]], missing: float = 0.0) -> str:
        chosen = [field for field in fields if self._chance.random() >= missing]
        if chosen and self._chance.random() < 0.02:
            chosen.append(self._chance.choice(chosen))
        if self._chance.random() < 0.2:
            self._chance.shuffle(chosen)
        parts = [f"{self.space()}{name}{self.space()}:{self.space()}{self.value(kind)}" for name, kind in chosen]
        if self._chance.random() < 0.2:
            extra = f'"{self._chance.choice(("zz", "extra", "s2"))}":{self._chance.choice(_ANY)}'
            parts.insert(self._chance.randint(0, len(parts)), extra)
        return self._around("{", parts, "}")

    def _around(self, opening: str, parts: list[str], closing: str) -> str:
        return opening + self.space() + ",".join(parts) + self.space() + closing

    def _name(self, name: str) -> str:
        luck = self._chance.random()
        if luck < 0.005 and name:
            return '"' + "".join(f"\\u{ord(character):04x}" for character in name) + '"'
        return f"'{name}'" if luck < 0.01 else f'"{name}"'

    def _leaf(self, wanted: Any) -> Callable[[], str]:
        types = pa.types
        if types.is_boolean(wanted):
            return lambda: self._chance.choice(("true", "false"))
        if types.is_integer(wanted):
            return lambda: str(self._integer(wanted.bit_width))
        if types.is_floating(wanted):
            return self._double
        if types.is_decimal(wanted):
            return lambda: self._decimal(wanted.precision, wanted.scale)
        if types.is_binary(wanted):
            return self._base64
        if types.is_date(wanted):
            return lambda: f'"{self._pad(self._date())}"'
        if types.is_timestamp(wanted):
            return self._timestamp
        return lambda: self.text(0.2) if self._chance.random() < 0.8 else self._anything(2)

    def text(self, escaping: float) -> str:
        plain = self._chance.random() >= escaping
        length = self._chance.choice((0, 1, 3, 8, 20))
        pool = _CHARACTERS if plain else _CHARACTERS + _ESCAPES
        return '"' + "".join(self._chance.choice(pool) for _ in range(length)) + '"'

    def _anything(self, depth: int) -> str:
        """For a STRING field: Jackson writes it again."""
        luck = self._chance.random()
        if depth == 0 or luck < 0.5:
            made = (self._double(), str(self._integer(64)), self.text(0.5), self._chance.choice(_ANY))
            return self._chance.choice(made)
        parts = [self._anything(depth - 1) for _ in range(self._chance.randint(0, 3))]
        if luck < 0.75:
            return self._around("[", parts, "]")
        return self._around("{", [f"{self.text(0.3)}{self.space()}:{part}" for part in parts], "}")

    def _integer(self, bits: int) -> int:
        if self._chance.random() < 0.3:
            edge = self._chance.choice((-1, 1)) << self._chance.choice((0, 7, 8, 15, 16, 31, 32, 53, 63, 64))
            near = edge + self._chance.randint(-2, 2)
            return near if self._chance.random() < 0.1 else max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, near))
        size = self._chance.randint(0, bits - 1)
        return self._chance.randint(-(1 << size), (1 << size) - 1)

    def _double(self) -> str:
        luck = self._chance.random()
        if luck < 0.35:
            return f"{self._chance.randint(-99999, 99999) / 100}"
        if luck < 0.6:
            number = struct.unpack("<d", self._chance.randbytes(8))[0]
            return repr(number) if abs(number) < 1e309 else "1e309"
        if luck < 0.7:
            number = struct.unpack("<f", self._chance.randbytes(4))[0]
            between = number * (1 + 2**-24)  # halfway to the next float
            return f"{between:.{self._chance.randint(8, 30)}e}" if abs(between) < 1e39 else "3.4028235677973366e38"
        if luck < 0.8:
            return str(self._integer(64))
        digits = self._chance.choice((1, 5, 15, 16, 17, 18, 19, 20, 30))
        whole = str(self._chance.randrange(10**digits))
        fraction = "." + str(self._chance.randrange(10**digits)).zfill(digits) if self._chance.random() < 0.7 else ""
        power = self._chance.choice((0, 1, 5, 22, 23, 37, 38, 45, 300, 308, 324, 400)) * self._chance.choice((-1, 1))
        sign, e, plus = (self._chance.choice(pair) for pair in (("", "-"), "eE", ("", "+")))
        return sign + whole + fraction + (f"{e}{plus if power >= 0 else ''}{power}" if luck < 0.9 else "")

    def _decimal(self, precision: int, scale: int) -> str:
        whole = str(self._chance.randrange(10 ** self._chance.randint(0, precision - scale)))
        places = self._chance.choice((0, 1, 2, scale, scale + 1, scale + 5))
        fraction = "." + "".join(self._chance.choice("04599") for _ in range(places)) if places else ""
        number = self._chance.choice(("", "-")) + whole + fraction
        luck = self._chance.random()
        if luck < 0.05:
            number += self._chance.choice(("e0", "E1", "e-3", "e+2", "e-40", "e30"))
        if luck > 0.85:
            odd = ("+" + number, "0" + number, number + ".", "1," + number, " " + number, "." + whole, "٣", "x", "1e5")
            return f'"{self._chance.choice(odd) if luck > 0.95 else number}"'
        return number

    def _base64(self) -> str:
        made = base64.b64encode(self._chance.randbytes(self._chance.randint(0, 12))).decode()
        if self._chance.random() < 0.15:
            at = self._chance.randint(0, len(made))
            made = made[:at] + self._chance.choice((" ", "\n", "\\n", "=", "-", "\\u0041", "é", "YQ==")) + made[at:]
        return f'"{made}"'

    def _date(self) -> str:
        luck = self._chance.random()
        if luck < 0.04:
            odd = (
                "0",
                "123",
                "-719165",
                "12345678",
                "-12345678",
                "2147483648",
                "2020",
                "+2020-1",
                "5881580-07-11",
                "٣",
            )
            return self._chance.choice(
                (*odd, "5881580-07-12", "10000-1-1", "-0001-2-3", "2020-1-2Tx", "2020 1", "0000-01-01")
            )
        year = self._chance.choice((1, 1582, 1600, 1900, 1969, 1970, 2000, 2020, 2021, 2024, 9999, 10000, 290000))
        month, day = self._chance.randint(1, 12), self._chance.randint(1, 31 if luck < 0.1 else 28)
        if luck > 0.93:
            return f"{year:04}-{month}-{day}"
        return f"{year:04}-{month:02}-{day:02}"

    def _clock(self) -> str:
        luck = self._chance.random()
        hour = self._chance.randint(0, 23)
        minute, second = self._chance.randint(0, 59), self._chance.randint(0, 60 if luck < 0.02 else 59)
        if luck < 0.04:
            return self._chance.choice(
                (f"{hour}", f"{hour:02}:{minute}", f"{hour}:{minute}:{second}", "24:00:00", "1:", "")
            )
        digits = self._chance.choice((None, None, 0, 1, 3, 6, 7, 9))
        fraction = "" if digits is None else "." + "".join(self._chance.choice("0123456789") for _ in range(digits))
        return f"{hour:02}:{minute:02}:{second:02}{fraction}"

    def _timestamp(self) -> str:
        luck = self._chance.random()
        if luck < 0.05:
            return str(self._integer(64))
        if luck < 0.1:
            return f'"{self._date()}"'
        zone = self._chance.choice(_ZONES) if luck < 0.4 else self._chance.choice(("", "Z", "+02:00"))
        if luck < 0.5:  # where clocks change
            day = self._chance.choice(
                ("2024-03-31", "2024-10-27", "2024-10-06", "2024-04-07", "1893-04-01", "2037-10-25")
            )
            return f'"{day} {self._chance.randint(0, 3):02}:{self._chance.randint(0, 59):02}:00{zone}"'
        return f'"{self._pad(self._date() + self._chance.choice("TTTT ") + self._clock() + zone)}"'

    def _pad(self, text: str) -> str:
        luck = self._chance.random()
        return f" {text}\\t" if luck < 0.01 else text + "GMT" if luck < 0.015 else text


def rows(array: Any) -> list[Any]:
    """Python values to compare: times as numbers, floats as bytes, so that NaN equals NaN and -0.0 is not 0.0."""
    kind, nulls = array.type, array.is_null().to_pylist()
    if pa.types.is_struct(kind):
        fields = [rows(array.field(index)) for index in range(kind.num_fields)]
        made: list[Any] = list(zip(*fields, strict=True)) if fields else [()] * len(array)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        items = (
            rows(array.values) if pa.types.is_list(kind) else [*zip(rows(array.keys), rows(array.items), strict=True)]
        )
        offsets = array.offsets.to_pylist()
        made = [items[first:last] for first, last in itertools.pairwise(offsets)]
    elif pa.types.is_temporal(kind):
        made = array.cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist()
    else:
        made = [repr(value).encode() if isinstance(value, float) else value for value in array.to_pylist()]
    return [None if null else value for null, value in zip(nulls, made, strict=True)]
