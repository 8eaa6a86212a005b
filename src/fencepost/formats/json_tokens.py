"""JSON as Spark's Jackson reads it: names, strings, numbers and words in text, and how Jackson writes them again.

Pure. More than the standard is allowed: single quotes, the escape \\', and NaN, Infinity and INF with or without a
sign. Positions are in characters; `NotJson.told` turns them into bytes.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Never

DEPTH_MAX, DIGITS_MAX, NAME_MAX, STRING_MAX = 1000, 1000, 50_000, 20_000_000

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = r"""\\(?:["'/\\bfnrt]|u[0-9a-fA-F]{4})"""
_DOUBLE = re.compile(rf'"((?:[^"\\\x00-\x1f]++|{_ESCAPE})*+)"')
_SINGLE = re.compile(rf"'((?:[^'\\\x00-\x1f]++|{_ESCAPE})*+)'")
#: Jackson decodes Base64 from the text as it lies there: it may have line breaks.
_DOUBLE_BROKEN = re.compile(rf'"((?:[^"\\]++|{_ESCAPE})*+)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_GAP = r"[ \t\n\r]*+"
_PLAIN = (
    rf'(?:"(?:[^"\\\x00-\x1f]++|{_ESCAPE})*+"|true|false|null'
    r"|-?(?:0|[1-9][0-9]{0,300}+)(?:\.[0-9]{1,300}+)?(?:[eE][+-]?[0-9]{1,9}+)?)"
)


#: A name that is not long, and the separator after a value, each with the white space around it.
_NAME = re.compile(rf'"([^"\\\x00-\x1f]{{0,9999}}+)"{_GAP}:{_GAP}')
_SEPARATOR = re.compile(rf"{_GAP}([,\]}}]){_GAP}")


def _container(item: str) -> str:
    item = f"{_GAP}{item}{_GAP}"
    field = rf'{_GAP}"[^"\\\x00-\x1f]{{0,9999}}+"{_GAP}:{item}'
    return rf"(?:\[(?:{item}(?:,{item})*+)?+\]|\{{(?:{field}(?:,{field})*+)?+\}})"


#: Arrays and objects that hold nothing deep, long or not standard are skipped at once, for speed.
_SHALLOW = re.compile(_container(rf"(?:{_PLAIN}|{_container(f'(?:{_PLAIN}|{_container(_PLAIN)})')})"))
_WORD = re.compile(r"true|false|null|NaN|[+-]?Infinity|[+-]INF")
_SPACE = re.compile(r"[ \t\n\r]*")
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_HALF = re.compile("[\ud800-\udfff]")
_UNESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
#: What Jackson escapes when it writes. It writes characters beyond 16 bits as two.
_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Kind(Enum):
    NULL = "null"
    TRUE = "true"
    FALSE = "false"
    STRING = "text"
    INTEGER = "a whole number"
    FLOAT = "a number"
    OBJECT = "an object"
    ARRAY = "an array"


class Token(NamedTuple):
    kind: Kind
    text: str  #: of a string what it says, of a number or word how it is written; empty for an object or array
    after: int  #: the position behind it; of an object or array where it begins


class BadDocument(Exception):
    """Says why, in words for the user; `path` is the way to the field, from the inside out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def inside(self, step: str) -> "BadDocument":
        self.path.append(step)
        return self

    def __str__(self) -> str:
        if not self.path:
            return self.reason
        return f"field {''.join(reversed(self.path)).removeprefix('.')}: {self.reason}"


class NotJson(Exception):
    """At a position, in characters. Not a matter of a field, so it has no path."""

    def __init__(self, at: int, expected: str) -> None:
        super().__init__(at, expected)
        self.at = at
        self.expected = expected

    def told(self, text: str) -> str:
        found = repr(text[self.at : self.at + 1]) if self.at < len(text) else "the end"
        return f"not JSON at byte {len(text[: self.at].encode())}: expected {self.expected}, found {found}"


def space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it always matches


def token(text: str, at: int) -> Token:
    """The value at `at`, which is not white space. Of an array or object only its beginning."""
    first = text[at : at + 1]
    if first == '"' or first == "'":
        return _string(text, at, first)
    if first == "{":
        return Token(Kind.OBJECT, "", at)
    if first == "[":
        return Token(Kind.ARRAY, "", at)
    match = _NUMBER.match(text, at)
    if match is not None:
        _check_digits(match[0], at)
        return Token(Kind.FLOAT if match[1] else Kind.INTEGER, match[0], match.end())
    match = _WORD.match(text, at)
    if match is None:
        raise NotJson(at, "a value")
    kind = _WORDS.get(match[0], Kind.FLOAT)
    return Token(kind, match[0], match.end())


_WORDS = {"null": Kind.NULL, "true": Kind.TRUE, "false": Kind.FALSE}


def _check_digits(number: str, at: int) -> None:
    if len(number) <= DIGITS_MAX:
        return
    digits = number.removeprefix("-")
    counted = sum(map(str.isdigit, digits)) - (digits[0] == "0")  # the 0 of 0.5 is not counted
    if counted > DIGITS_MAX:
        raise NotJson(at, f"a number of at most {DIGITS_MAX} digits")


def _string(text: str, at: int, quote: str) -> Token:
    match = (_DOUBLE if quote == '"' else _SINGLE).match(text, at)
    if match is None:
        _bad_string(text, at, quote)
    said = match[1]
    if "\\" in said:
        said = unescape(said)
    return Token(Kind.STRING, said, match.end())


def broken_string(text: str, at: int) -> Token:
    """A string for Base64: in double quotes it may have line breaks and other control characters."""
    match = _DOUBLE_BROKEN.match(text, at)
    if match is None:
        return token(text, at)
    return Token(Kind.STRING, unescape(match[1]), match.end())


def _bad_string(text: str, at: int, quote: str) -> Never:
    """Find what is wrong with a string."""
    after = at + 1
    while after < len(text):
        if text[after] < " ":
            raise NotJson(after, "an escape for a control character")
        if text[after] == "\\":
            match = _UNESCAPE_STRICT.match(text, after)
            if match is None:
                raise NotJson(after, 'one of the escapes \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX')
            after = match.end()
        else:
            after += 1
    raise NotJson(after, f"{quote} at the end of a string")


_UNESCAPE_STRICT = re.compile(_ESCAPE)


def unescape(said: str) -> str:
    """Without escapes. Halves of surrogate pairs are put together; what remains alone stays."""
    if "\\" not in said:
        return said
    said = _UNESCAPE.sub(_unescaped, said)
    return _PAIR.sub(_together, said) if _HALF.search(said) else said


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _ESCAPES.get(match[2], match[2])


def _together(match: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(match[1]) - 0xD800) << 10) + (ord(match[2]) - 0xDC00))


def as_java(said: str) -> str:
    """Java has no UTF-8 for half of a surrogate pair, and writes a question mark."""
    return said if said.isascii() else _HALF.sub("?", said)


def name(text: str, at: int) -> tuple[str, int]:
    """The name of a field, and the position of its value."""
    match = _NAME.match(text, at)
    if match is not None:
        return match[1], match.end()
    first = text[at : at + 1]
    if first != '"' and first != "'":
        raise NotJson(at, "a name in quotes")
    found = _string(text, at, first)
    if len(found.text) > NAME_MAX // 2 and _java_length(found.text) > NAME_MAX:
        raise NotJson(at, f"a name of at most {NAME_MAX} characters")
    at = space(text, found.after)
    if text[at : at + 1] != ":":
        raise NotJson(at, "':' after a name")
    return found.text, space(text, at + 1)


def separator(text: str, at: int, closing: str) -> tuple[int, bool]:
    """After an item: where the next one is, or where the value ends."""
    match = _SEPARATOR.match(text, at)
    if match is not None and match[1] == ",":
        return match.end(), True
    if match is None or match[1] != closing:
        raise NotJson(space(text, at), f"',' or '{closing}'")
    return match.end(1), False


def check_length(said: str) -> None:
    """A string that is wanted must not be too long; others may."""
    if len(said) > STRING_MAX // 2 and _java_length(said) > STRING_MAX:
        raise BadDocument(f"the text has more than {STRING_MAX} characters")


def _java_length(said: str) -> int:
    return len(said.encode("utf-16-le", "surrogatepass")) // 2


def copy(text: str, at: int, depth: int, parts: list[str] | None = None) -> int:
    """Read a whole value, and write it as Jackson would (`parts`); returns the position behind it.

    `depth` is how deep the value is, if it is an array or object. A loop: a document can be nested 1,000 deep.
    """
    write: Callable[[str], None] = parts.append if parts is not None else _nothing
    closing: list[str] = []
    while True:
        found = token(text, at)
        if found.kind is Kind.OBJECT or found.kind is Kind.ARRAY:
            check_depth(depth + len(closing), at)
            shallow = _SHALLOW.match(text, at) if parts is None and depth + len(closing) < DEPTH_MAX - 2 else None
            if shallow is not None:
                at = shallow.end()
            else:
                closing.append("}" if found.kind is Kind.OBJECT else "]")
                write(text[at])
                at = space(text, at + 1)
                if text[at : at + 1] != closing[-1]:
                    at = _write_name(text, at, closing, write)
                    continue
        else:
            if parts is not None:
                write(_written(found))
            at = found.after
        while closing:
            at = space(text, at)
            if text[at : at + 1] == closing[-1]:
                write(closing.pop())
                at += 1
                continue
            if text[at : at + 1] != ",":
                raise NotJson(at, f"',' or '{closing[-1]}'")
            write(",")
            at = _write_name(text, space(text, at + 1), closing, write)
            break
        else:
            return at


def _write_name(text: str, at: int, closing: list[str], write: Callable[[str], None]) -> int:
    """In an object: the name that comes first."""
    if closing[-1] == "]":
        return at
    said, at = name(text, at)
    write(quoted(said) + ":")
    return at


def check_depth(depth: int, at: int) -> None:
    if depth > DEPTH_MAX:
        raise NotJson(at, f"at most {DEPTH_MAX} arrays and objects inside each other")


def _nothing(_part: str) -> None:
    return None


def _written(found: Token) -> str:
    if found.kind is Kind.STRING:
        check_length(found.text)
        return quoted(found.text)
    return plain(found)


def plain(found: Token) -> str:
    """A number or word as Jackson writes it: a number with a fraction or exponent as Java writes a double."""
    if found.kind is Kind.INTEGER:
        return "0" if found.text == "-0" else found.text
    if found.kind is not Kind.FLOAT:
        return found.text
    number = to_double(found.text)
    if number != number:
        return '"NaN"'
    if number in (float("inf"), float("-inf")):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    return java_double(number)


def quoted(said: str) -> str:
    return '"' + _ESCAPED.sub(_escaped, said) + '"'


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4))


def to_double(text: str) -> float:
    return float(text.replace("INF", "Infinity"))


def java_double(number: float) -> str:
    """As Double.toString: shortest digits, with an exponent below 10^-3 and from 10^7 on."""
    sign, digits, exponent = _shortest(number)
    point = len(digits) + exponent  # the number is 0.DIGITS * 10^point
    if digits == "0":
        written = "0.0"
    elif 1e-3 <= abs(number) < 1e7:
        if point <= 0:
            written = "0." + "0" * -point + digits
        else:
            written = digits[:point].ljust(point, "0") + "." + (digits[point:] or "0")
    else:
        written = f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    return sign + written


def _shortest(number: float) -> tuple[str, str, int]:
    """Sign, digits without zeros around them, and exponent: DIGITS * 10^exponent."""
    mantissa, _, power = repr(number).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) - len(fraction)
    stripped = digits.rstrip("0")
    return sign, stripped or "0", exponent + len(digits) - len(stripped)
