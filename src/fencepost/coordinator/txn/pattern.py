"""Regular expressions from clients, matched in linear time.

Python's own engine may need exponential time for a short pattern and holds up the whole broker meanwhile; Kafka uses
RE2, which does not. So does this: the pattern becomes a small program, all of whose threads walk over the text
together (Thompson), at most `PROGRAM_LIMIT` steps per character. Known are literals, `.`, classes, groups, `|`, `* +
? {m,n}`, `^`, `$` and the escapes for digits, words and spaces; anything else is refused rather than taken for
something else.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from fencepost.errors import ErrorCode, KafkaError

LENGTH_LIMIT = 2000
PROGRAM_LIMIT = 2000
NESTING_LIMIT = 40
REPEAT_LIMIT = 1000

Test = Callable[[str], object]


class Char(NamedTuple):
    test: Test


class Split(NamedTuple):
    """Goes on at both places, given relative to this instruction."""

    first: int
    second: int


class Anchor(NamedTuple):
    at_end: bool


Program = list[Char | Split | Anchor]


class Pattern:
    def __init__(self, text: str) -> None:
        """Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
        parser = _Parser(text)
        if len(text) > LENGTH_LIMIT:
            raise parser.refusal("too long")
        self._program = parser.alternatives(0)
        if parser.rest:
            raise parser.refusal("an unbalanced )")

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        threads = self._spread({0}, 0, len(text))
        for position, char in enumerate(text, 1):
            moved = set()
            for counter in threads:
                instruction = self._program[counter] if counter < len(self._program) else None
                if isinstance(instruction, Char) and instruction.test(char):
                    moved.add(counter + 1)
            threads = self._spread(moved, position, len(text))
            if not threads:
                return False
        return len(self._program) in threads

    def _spread(self, counters: set[int], position: int, end: int) -> set[int]:
        """Follow everything that takes no character."""
        reached: set[int] = set()
        pending = list(counters)
        while pending:
            counter = pending.pop()
            if counter in reached:
                continue
            reached.add(counter)
            instruction = self._program[counter] if counter < len(self._program) else None
            if isinstance(instruction, Split):
                pending += (counter + instruction.first, counter + instruction.second)
            elif isinstance(instruction, Anchor) and position == (end if instruction.at_end else 0):
                pending.append(counter + 1)
        return reached


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    @property
    def rest(self) -> str:
        return self._text[self._position :]

    def refusal(self, why: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{self._text[:80]!r} at {self._position}: {why}")

    def alternatives(self, depth: int) -> Program:
        if depth > NESTING_LIMIT:
            raise self.refusal("nested too deeply")
        program = self._sequence(depth)
        while self._skip("|"):
            other = self._sequence(depth)
            # A split to itself plus one behind the other branch serves as a jump.
            jump = Split(len(other) + 1, len(other) + 1)
            program = self._limited([Split(1, len(program) + 2), *program, jump, *other])
        return program

    def _sequence(self, depth: int) -> Program:
        program: Program = []
        while self.rest and self.rest[0] not in "|)":
            program = self._limited(program + self._repeated(self._atom(depth)))
        return program

    def _repeated(self, item: Program) -> Program:
        found = re.match(r"(?:([*+?])|\{(\d{1,4})(?:(,)(\d{0,4}))?\})\??", self.rest)
        if found is None:
            return item
        self._position += found.end()
        symbol, low, comma, high = found.groups()
        least = {"*": 0, "+": 1, "?": 0}[symbol] if symbol else int(low)
        most: int | None = {"*": None, "+": None, "?": 1}[symbol] if symbol else least
        if comma:
            most = int(high) if high else None
        if least > REPEAT_LIMIT or (most is not None and not least <= most <= REPEAT_LIMIT):
            raise self.refusal("a repetition out of range")
        if len(item) * max(least, most or 1) > PROGRAM_LIMIT:
            raise self.refusal("too long")
        if re.match(r"[*+{]", self.rest):
            raise self.refusal("a repetition of a repetition")
        if most is None:
            return item * least + [Split(1, len(item) + 2), *item, Split(-len(item) - 1, -len(item) - 1)]
        return item * least + [Split(1, len(item) + 1), *item] * (most - least)

    def _atom(self, depth: int) -> Program:
        char = self.rest[0]
        if char == "(":
            return self._group(depth)
        if char == "[":
            return [Char(self._class())]
        if char == "\\":
            return [Char(self._escape())]
        if char in "*+?{":
            raise self.refusal("nothing to repeat")
        self._position += 1
        if char in "^$":
            return [Anchor(at_end=char == "$")]
        return [Char(bool if char == "." else char.__eq__)]

    def _group(self, depth: int) -> Program:
        if self.rest.startswith("(?") and not self.rest.startswith("(?:"):
            raise self.refusal("a group of a kind that is not known here")
        self._position += 3 if self.rest.startswith("(?:") else 1
        program = self.alternatives(depth + 1)
        if not self._skip(")"):
            raise self.refusal("an unbalanced (")
        return program

    def _class(self) -> Test:
        found = re.match(r"\[\^?\]?(?:\\.|[^\]\\\[])*\]", self.rest)
        if found is None:
            raise self.refusal("a class that does not end, or has a [ in it")
        self._position += found.end()
        return self._by_python(found[0])

    def _escape(self) -> Test:
        found = re.match(r"\\([dDwWsS]|[tnrf]|[^A-Za-z0-9])", self.rest, re.DOTALL)
        if found is None:
            raise self.refusal("an escape that is not known here")
        self._position += found.end()
        return self._by_python(found[0])

    def _by_python(self, one_char: str) -> Test:
        """One character against a class is nothing that Python could be slow at."""
        try:
            return re.compile(one_char, re.ASCII | re.DOTALL).fullmatch
        except re.error as error:
            raise self.refusal(str(error)) from None

    def _skip(self, expected: str) -> bool:
        if not self.rest.startswith(expected):
            return False
        self._position += 1
        return True

    def _limited(self, program: Program) -> Program:
        if len(program) > PROGRAM_LIMIT:
            raise self.refusal("too long")
        return program
