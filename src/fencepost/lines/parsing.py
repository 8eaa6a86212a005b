"""Lines as records to be written: of text, with or without a key, or of JSON (`json_lines`).

A line ends with the delimiter, and the last one with the input. Nothing else is cut off: the value is what stands
between two delimiters.
"""

import io
import os
import re
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from fencepost.errors import ConfigError
from fencepost.lines.json_lines import Draft, from_line
from fencepost.wire.records import Headers

CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class TextLines:
    """How a line of text is a record."""

    key_delimiter: bytes | None = None
    key: bytes | None = None  #: of all records
    headers: Headers = ()
    empty_is_null: bool = False

    def draft(self, line: bytes) -> Draft:
        key, value = self.key, line
        if self.key_delimiter is not None:
            first, found, rest = line.partition(self.key_delimiter)
            if not found:
                raise ConfigError(f"it has no key: {self.key_delimiter.decode(errors='replace')!r} does not occur")
            key, value = first, rest
        if self.empty_is_null:
            return Draft(key or None, value or None, self.headers)
        return Draft(key, value, self.headers)


@dataclass(frozen=True, slots=True)
class JsonLines:
    """Every line has all of a record; `headers` are added."""

    headers: Headers = ()

    def draft(self, line: bytes) -> Draft:
        found = from_line(line)
        if not self.headers:
            return found
        return Draft(
            found.key, found.value, found.headers + self.headers, found.topic, found.partition, found.timestamp
        )


@dataclass(frozen=True, slots=True)
class Numbered:
    number: int  #: from 1
    line: bytes


class Pause:
    """The input has nothing more at the moment: what was read should be written."""


def split(file: IO[bytes], delimiter: bytes) -> Iterator[Numbered | Pause]:
    """The lines of the input, as they come, and a Pause before waiting for more."""
    rest, number = b"", 0
    while chunk := _read(file):
        *lines, rest = (rest + chunk).split(delimiter)
        for line in lines:
            number += 1
            yield Numbered(number, line)
        if not _has_more(file):
            yield Pause()
    if rest:
        yield Numbered(number + 1, rest)


def _read(file: IO[bytes]) -> bytes:
    try:
        return os.read(file.fileno(), CHUNK_BYTES)
    except io.UnsupportedOperation:  # not a real file
        return file.read(CHUNK_BYTES)


def _has_more(file: IO[bytes]) -> bool:
    """True also at the end."""
    try:
        return bool(select.select([file.fileno()], [], [], 0)[0])
    except (io.UnsupportedOperation, OSError):
        return True


_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|([ntr0\\]))")
_MEANT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def _meant(escape: re.Match[bytes]) -> bytes:
    return bytes.fromhex(escape[1].decode()) if escape[1] else _MEANT[escape[2]]


def parse_headers(given: tuple[str, ...]) -> Headers:
    """`name=value`; `name` alone has the value null. Raises ConfigError."""
    headers = []
    for text in given:
        name, equals, value = text.partition("=")
        if not name:
            raise ConfigError(f"-H takes name=value, not {text!r}")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"-H: the name of a header is UTF-8, and {os.fsencode(name)!r} is not") from None
        headers.append((name, os.fsencode(value) if equals else None))
    return tuple(headers)


def parse_delimiter(text: str, option: str) -> bytes:
    r"""With `\n`, `\r`, `\t`, `\0`, `\xff` and `\\` as they are in format strings. Raises ConfigError."""
    found = _ESCAPE.sub(_meant, os.fsencode(text))
    if not found:
        raise ConfigError(f"{option} cannot be empty")
    return found
