r"""A record as a format string wants it. The letters are kcat's.

=====  ==========================================  =====  ==============================================
%t     topic                                       %T     timestamp, milliseconds since 1970
%p     partition                                   %h     headers: name=value,name=value
%o     offset                                      %K %S  length of key and value in bytes, -1 for null
%k     key, nothing for null                       %R     length of the value as 4 bytes, big-endian
%s     value, nothing for null                     %x     what became of its transaction (raw)
=====  ==========================================  =====  ==============================================

`%%` is a per cent sign. `\n`, `\r`, `\t`, `\0`, `\xff` and `\\` are what they are in most languages.
"""

import os
import re
import struct
from collections.abc import Callable

from fencepost.errors import ConfigError
from fencepost.lines.reading import MarkerKind, Outcome, Seen

_TOKEN = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_INT32 = struct.Struct(">i")

Piece = Callable[[Seen], bytes]


def compile_format(text: str, *, has_outcomes: bool = True) -> Piece:
    """`has_outcomes`: what is read says what became of its transaction. Raises ConfigError."""
    pieces: list[bytes | Piece] = []
    for token in _TOKEN.finditer(text):
        whole, letter, escape = token[0], token[1], token[2]
        if whole.startswith("%"):
            if letter != "%" and letter not in _LETTERS:
                raise ConfigError(f"{text!r}: %{letter} means nothing. There are %{', %'.join(_LETTERS)} and %%")
            if letter == "x" and not has_outcomes:
                raise ConfigError(f"{text!r}: only --isolation raw knows the outcome of a transaction, %x")
            pieces.append(b"%" if letter == "%" else _LETTERS[letter])
        elif whole.startswith("\\"):
            if escape not in _ESCAPES and not escape.startswith("x"):
                raise ConfigError(rf"{text!r}: \{escape} means nothing. There are \n, \r, \t, \0, \xff and \\")
            pieces.append(bytes.fromhex(escape[1:]) if escape.startswith("x") else _ESCAPES[escape])
        else:
            pieces.append(os.fsencode(whole))

    def render(seen: Seen) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(seen) for piece in pieces)

    return render


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _value(seen: Seen) -> bytes | None:
    return None if seen.marker is not None else seen.record.value


def _key(seen: Seen) -> bytes | None:
    return None if seen.marker is not None else seen.record.key


def _headers(seen: Seen) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in seen.record.headers)


def _outcome(seen: Seen) -> bytes:
    if seen.marker is not None:
        return b"control" if seen.marker is MarkerKind.OTHER else f"{seen.marker}-marker".encode()
    return b"-" if seen.outcome in (None, Outcome.NONE) else seen.outcome.encode()


_LETTERS: dict[str, Piece] = {
    "t": lambda seen: seen.where.topic.encode(),
    "p": lambda seen: b"%d" % seen.where.partition,
    "o": lambda seen: b"%d" % seen.record.offset,
    "T": lambda seen: b"%d" % seen.record.timestamp,
    "k": lambda seen: _key(seen) or b"",
    "s": lambda seen: _value(seen) or b"",
    "K": lambda seen: b"%d" % _length(_key(seen)),
    "S": lambda seen: b"%d" % _length(_value(seen)),
    "R": lambda seen: _INT32.pack(_length(_value(seen))),
    "h": _headers,
    "x": _outcome,
}
