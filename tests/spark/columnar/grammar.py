"""Random expressions of Spark's SQL, of those that are evaluated on columns, and rows with values at every limit."""

import datetime
import random
from collections.abc import Callable

SCHEMA = (
    "a BIGINT, b INT, c SMALLINT, f DOUBLE, g FLOAT, t STRING, u STRING, flag BOOLEAN, bin BINARY, day DATE, "
    "at TIMESTAMP, st STRUCT<x: BIGINT, y: STRING>, list ARRAY<STRUCT<key: STRING, n: INT>>"
)

LONGS = [None, 0, 1, -1, 2, 7, 97, -98, 10**9, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
INTS = [None, 0, 1, -1, 3, 18, 1000, 2**31 - 1, -(2**31)]
SHORTS = [None, 0, 1, -7, 32767, -32768]
DOUBLES = [None, 0.0, -0.0, 1.5, -2.25, 1e9, 1e300, 5e-324, 0.1, float("inf"), float("-inf"), float("nan")]
FLOATS = [None, 0.0, -0.0, 0.5, 3.25, float("inf"), float("nan")]
TEXTS = [
    None,
    "",
    " ",
    "a",
    "A",
    "abc",
    " padded  ",
    "0",
    "12",
    "é",
    "straße",
    "日本語",
    "ÀÉ",
    "\tx",
    "😀!",
    "x" * 40,
    "a\0b",
    "%_",
]
DAYS = [
    None,
    datetime.date(1970, 1, 1),
    datetime.date(2024, 2, 29),
    datetime.date(1, 1, 1),
    datetime.date(9999, 12, 31),
]
TIMES = [
    None,
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 2, 29, 12, 0, 0, 1),
    datetime.datetime(1969, 12, 31, 23),
]
LISTS = [None, [], [("k", 1)], [("k", None), (None, 2), ("", 3)]]

Make = Callable[[int], str]


def rows(chance: random.Random, count: int) -> list[tuple[object, ...]]:
    of = chance.choice
    made: list[tuple[object, ...]] = []
    for _ in range(count):
        struct = of([None, (of(LONGS), of(TEXTS))])
        binary = of([None, b"", b"abc", b"\xff\xfe", "é".encode()])
        lists = (LONGS, INTS, SHORTS, DOUBLES, FLOATS, TEXTS, TEXTS, [None, True, False])
        made.append((*map(of, lists), binary, of(DAYS), of(TIMES), struct, of(LISTS)))
    return made


class Grammar:
    """Makes expressions by their type. `depth` is how many more levels there may be."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def any(self, depth: int) -> str:
        kinds = [self.boolean, self.long, self.integer, self.double, self.text, self.struct, self.array, self.binary]
        return self._of(*kinds)(depth)

    def _of(self, *makers: Make) -> Make:
        return self._chance.choice(makers)

    def _pick(self, *texts: str) -> str:
        return self._chance.choice(texts)

    def _choice(self, make: Make, depth: int) -> str:
        """What every type has: CASE, IF, coalesce and their like."""
        kind = self._chance.randrange(6)
        one, other, test = make(depth - 1), make(depth - 1), self.boolean(depth - 1)
        if kind == 0:
            return f"CASE WHEN {test} THEN {one} WHEN {self.boolean(depth - 1)} THEN {other} END"
        if kind == 1:
            return f"CASE WHEN {test} THEN {one} ELSE {other} END"
        if kind == 2:
            return f"IF({test}, {one}, {other})"
        if kind == 3:
            return f"coalesce({one}, {other})"
        if kind == 4:
            return f"ifnull({one}, {other})"
        return f"CASE WHEN {test} THEN {one} END"

    def boolean(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("flag", "true", "(flag IS NULL)", "(a IS NOT NULL)", "(st IS NULL)", "(list IS NOT NULL)")
        kind = self._chance.randrange(9)
        if kind == 0:
            return self._choice(self.boolean, depth)
        if kind == 1:
            return f"({self.boolean(depth - 1)} {self._pick('AND', 'OR')} {self.boolean(depth - 1)})"
        if kind == 2:
            return f"(NOT {self.boolean(depth - 1)})"
        if kind == 3:
            return f"({self.long(depth - 1)} IN (1, 2, 7, 97))"
        if kind == 4:
            return f"({self.text(depth - 1)} IN ('a', '', 'é'))"
        if kind == 5:
            word = self._pick("startswith", "endswith", "contains")
            return f"{word}({self.text(depth - 1)}, {self._pick(repr('a'), repr('é'), repr(''), repr('x'))})"
        if kind == 6:
            return f"({self.long(depth - 1)} BETWEEN -1 AND 97)"
        make = self._of(self.long, self.integer, self.double, self.text, self.boolean, self.day, self.time, self.binary)
        comparison = self._pick("=", "!=", "<", "<=", ">", ">=", "<=>")
        return f"({make(depth - 1)} {comparison} {make(depth - 1)})"

    def long(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("a", "st.x", "7L", "-1L", "0L", "CAST(b AS BIGINT)", "CAST(c AS BIGINT)")
        kind = self._chance.randrange(6)
        if kind == 0:
            return self._choice(self.long, depth)
        if kind == 1:
            return self._pick("abs", "-", "+") + f"({self.long(depth - 1)})"
        operator = self._pick("+", "-", "*", "%", "div", "%", "+")
        return f"({self.long(depth - 1)} {operator} {self.long(depth - 1)})"

    def integer(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("b", "97", "CAST(c AS INT)", "length(t)", "octet_length(u)", "length(bin)")
        kind = self._chance.randrange(5)
        if kind == 0:
            return self._choice(self.integer, depth)
        if kind == 1:
            return f"CAST({self.long(depth - 1)} AS INT)"
        if kind == 2:
            return f"length({self.text(depth - 1)})"
        return f"({self.integer(depth - 1)} {self._pick('+', '-', '*', '%')} {self.integer(depth - 1)})"

    def double(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("f", "CAST(g AS DOUBLE)", "1.5D", "-0.0D", "CAST(a AS DOUBLE)", "CAST(b AS DOUBLE)")
        kind = self._chance.randrange(5)
        if kind == 0:
            return self._choice(self.double, depth)
        if kind == 1:
            return self._pick("abs", "-") + f"({self.double(depth - 1)})"
        return f"({self.double(depth - 1)} {self._pick('+', '-', '*', '/')} {self.double(depth - 1)})"

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("t", "u", "'é'", "''", "'abc'", "st.y", "CAST(a AS STRING)", "CAST(flag AS STRING)")
        kind = self._chance.randrange(9)
        inner = self.text(depth - 1)
        if kind == 0:
            return self._choice(self.text, depth)
        if kind == 1:
            return f"{self._pick('upper', 'lower', 'trim')}({inner})"
        if kind == 2:
            return f"substring({inner}, {self._pick('1', '2', '5')}, {self._pick('0', '1', '3', '100')})"
        if kind == 3:
            padding = self._pick("'0'", "'é'")
            return f"{self._pick('lpad', 'rpad')}({inner}, {self._pick('1', '3', '20')}, {padding})"
        if kind == 4:
            return f"CAST({self._of(self.long, self.integer, self.boolean, self.binary)(depth - 1)} AS STRING)"
        if kind == 5:
            return f"concat({inner}, {self.long(depth - 1)}, '/')"
        if kind == 6:
            return f"left({inner}, 3)"
        return f"concat({inner}, {self.text(depth - 1)})"

    def binary(self, depth: int) -> str:
        return f"CAST({self.text(depth - 1)} AS BINARY)" if depth > 0 else "bin"

    def day(self, _depth: int) -> str:
        return "day"

    def time(self, _depth: int) -> str:
        return "at"

    def struct(self, depth: int) -> str:
        if depth <= 0:
            return "st"
        if self._chance.random() < 0.4:
            return self._choice(self.plain_struct, depth)
        return self.plain_struct(depth)

    def plain_struct(self, depth: int) -> str:
        """All of one type."""
        return f"named_struct('x', {self.long(depth - 1)}, 'y', {self.text(depth - 1)}, 'z', {self.boolean(depth - 1)})"

    def array(self, depth: int) -> str:
        if depth <= 0:
            return "list"
        kind = self._chance.randrange(4)
        if kind == 0:
            return f"concat({self.array(depth - 1)}, {self.array(depth - 1)})"
        if kind == 1:
            return f"coalesce({self.array(depth - 1)}, CAST(array() AS ARRAY<STRUCT<key: STRING, n: INT>>))"
        if kind == 2:
            return f"CASE WHEN {self.boolean(depth - 1)} THEN {self.array(depth - 1)} END"
        elements = [
            f"named_struct('key', {self.text(depth - 1)}, 'n', {self.integer(depth - 1)})"
            for _ in range(self._chance.randint(1, 3))
        ]
        return f"array({', '.join(elements)})"
