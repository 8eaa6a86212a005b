"""Which records are shown: by their key, their value and their headers.

A pattern is text that must occur, or a regular expression between slashes: `/^user-[0-9]+$/`. Both are about bytes, so
a record need not be text. Null contains nothing.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fencepost.errors import ConfigError
from fencepost.wire.records import Record

Test = Callable[[bytes | None], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    keys: tuple[Test, ...] = ()
    values: tuple[Test, ...] = ()
    headers: tuple[tuple[str, Test], ...] = ()

    @classmethod
    def parse(cls, keys: Iterable[str], values: Iterable[str], headers: Iterable[str]) -> "Filter":
        """`headers` are `name`, or `name=pattern`. Raises ConfigError."""
        return cls(
            tuple(_test(pattern) for pattern in keys),
            tuple(_test(pattern) for pattern in values),
            tuple(_header(text) for text in headers),
        )

    @property
    def is_empty(self) -> bool:
        return not (self.keys or self.values or self.headers)

    def takes(self, record: Record) -> bool:
        """Whether all of it holds."""
        return (
            all(test(record.key) for test in self.keys)
            and all(test(record.value) for test in self.values)
            and all(any(name == n and test(v) for n, v in record.headers) for name, test in self.headers)
        )


def _header(text: str) -> tuple[str, Test]:
    name, equals, pattern = text.partition("=")
    return name, _test(pattern) if equals else lambda value: True


def _test(pattern: str) -> Test:
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            search = re.compile(os.fsencode(pattern[1:-1])).search
        except re.error as error:
            raise ConfigError(f"{pattern} is no regular expression: {error}") from None
        return lambda found: found is not None and search(found) is not None
    wanted = os.fsencode(pattern)
    return lambda found: found is not None and wanted in found
