"""`sasl.jaas.config`: the login module and its options, read as Kafka's own parser reads them.

The grammar is `MODULE FLAG NAME=VALUE ... ;`. A value is a bare word, or a string in single or double quotes with
Java's escapes. Comments are Java's. Errors name options, never values: those are passwords.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fencepost.errors import ConfigError

NAME = "sasl.jaas.config"
FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z_$\u00a0-\uffff][\w$.\-\u00a0-\uffff]*)
    |(?P<number>-?[\d.][\w$.\-]*)
    |"(?P<double>(?:[^"\\\n\r]|\\[^\n\r])*)"
    |'(?P<single>(?:[^'\\\n\r]|\\[^\n\r])*)'
    |(?P<mark>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Login:
    module: str  #: the Java class, as written
    options: dict[str, str] = field(repr=False)


def parse(text: str) -> Login:
    """The one entry of a client's `sasl.jaas.config`. Raises ConfigError."""
    tokens = [*_tokens(text)]
    if not tokens:
        raise ConfigError(f"{NAME} is empty: it names a login module, such as {EXAMPLE}")
    if tokens[-1] != ("mark", ";"):
        raise ConfigError(f"{NAME} must end with a semicolon")
    if tokens.count(("mark", ";")) > 1:
        raise ConfigError(f"{NAME} has more than one login module; a client has one")
    words = iter(tokens[:-1])
    module, flag = next(words, None), next(words, None)
    if module is None or module[0] != "word":
        raise ConfigError(f"{NAME} must begin with a login module, such as {EXAMPLE}")
    if flag is None or flag[1].lower() not in FLAGS:
        raise ConfigError(f"{NAME}: {module[1]} must be followed by `required`")
    return Login(module[1], dict(_options(words)))


EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'


def quote(value: str) -> str:
    """A value as a string of this grammar."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _options(words: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for kind, name in words:
        if kind == "mark":
            raise ConfigError(f"{NAME}: an option's name is missing before {name!r}")
        if next(words, None) != ("mark", "="):
            raise ConfigError(f"{NAME}: option {name!r} must be followed by = and a value")
        kind, value = next(words, ("mark", ""))
        if kind == "mark":
            raise ConfigError(f"{NAME}: option {name!r} has no value")
        if kind == "number":
            raise ConfigError(f"{NAME}: put the value of {name!r} in quotes, since it begins like a number")
        yield name, value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError(
                f"{NAME} cannot be read from character {position + 1} on: are quotes missing or unclosed?"
            )
        position = found.end()
        kind = str(found.lastgroup)
        if kind in ("double", "single"):
            yield "string", _ESCAPE.sub(_unescape, found[kind])
        elif kind != "blank":
            yield kind, found[kind]


def _unescape(found: "re.Match[str]") -> str:
    character = found[1]
    return chr(int(character, 8)) if character[0] in "01234567" else _ESCAPED.get(character, character)
