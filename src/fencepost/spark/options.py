"""Options of Spark readers and writers: case-insensitive, checked, with `kafka.*` handed to the client.

Owns the decision which of Kafka's settings are accepted. A setting that Spark's own connector refuses is refused with
the same reason. A setting that we do not implement but users rely on (another partitioner) is refused. A setting
that exists in Kafka and has no effect here is accepted. Any other name is a typo, and the error suggests the
nearest name.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from fencepost.client.settings import ClientSettings
from fencepost.errors import ConfigError
from fencepost.security import names
from fencepost.security.names import TOKEN_PROVIDER
from fencepost.security.variables import has_reference
from fencepost.spark.kafka_settings import KNOWN, REFUSED

PREFIX = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"
KEY, KEY_PASSWORD, KEY_FILE = "kafka.ssl.keystore.key", "kafka.ssl.key.password", "kafka.ssl.keystore.location"

_UNITS_MS = {
    "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
    "millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000,
}  # fmt: skip
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")


class Options:
    """The options that a user gave with `.option(...)`. Names are case-insensitive."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items() if value is not None}
        self._typed = {name.lower(): name for name in given}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        """Without surrounding blanks; None if not given."""
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def integer(self, name: str, *, lowest: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[+-]?\d+", value, re.ASCII) or int(value) < lowest:
            raise ConfigError(f"option {name!r} must be a whole number of at least {lowest}, not {value!r}")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name) or str(default)
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"option {name!r} must be true or false, not {value!r}")
        return value.lower() == "true"

    def one_of(self, name: str, default: str, words: Sequence[str]) -> str:
        """One of `words`, which are in lower case."""
        word = self.text(name) or default
        if word.lower() not in words:
            raise ConfigError(f"option {name!r} must be one of {', '.join(words)}, not {word!r}")
        return word.lower()

    def duration_ms(self, name: str, default_ms: int) -> int:
        """As Spark writes them: 15m, 30s, 500ms, `15 minutes`; a bare number is milliseconds."""
        value = self.text(name)
        if value is None:
            return default_ms
        found = _DURATION.fullmatch(value.lower())
        unit = found[2] or "ms" if found else ""
        factor = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("s"))
        if found is None or factor is None:
            raise ConfigError(f"option {name!r} must be a duration such as 30s or 15m, not {value!r}")
        return int(found[1]) * factor

    def kafka(self) -> dict[str, str]:
        """The `kafka.*` options without that prefix. Raises ConfigError for those that are refused."""
        found = {name.removeprefix(PREFIX): value for name, value in self._given.items() if name.startswith(PREFIX)}
        for name in found:
            _check_kafka(name, self._typed[PREFIX + name])
        if TOKEN_PROVIDER in self._given:
            found[TOKEN_PROVIDER] = self._given[TOKEN_PROVIDER]
        return found

    def refuse_unknown(self, known: Iterable[str], what: str) -> None:
        """Every option that is not `kafka.*` must be in `known`. `what` is the reader or writer, for the error."""
        spelled = {name.lower(): name for name in known}
        for name in self._given:
            if name not in spelled and not name.startswith(PREFIX) and name != TOKEN_PROVIDER:
                typed = self._typed[name]
                raise ConfigError(f"{what} has no option {capitalized(typed, spelled)!r}{hint(name, spelled)}")


def client_settings(options: Options) -> ClientSettings:
    """The client's settings from `kafka.bootstrap.servers` and other `kafka.*` options."""
    if not options.text(BOOTSTRAP):
        raise ConfigError(f"option {BOOTSTRAP!r} must be specified: one or more HOST:PORT, separated by commas")
    return ClientSettings.parse(options.kafka())


def refuse_visible_key(options: Options) -> None:
    """For options that become part of a plan. Spark shows them, and hides those that look like a password by a pattern.

    It would show a private key. An encrypted one may be seen.
    """
    value = options.text(KEY)
    if value and "ENCRYPTED" not in value and not has_reference(value):
        raise ConfigError(
            f"option {KEY!r} would be shown in plans and in Spark's UI. Encrypt the key and give {KEY_PASSWORD!r}, "
            "which Spark hides; or give a reference such as ${file:PATH:KEY}; or name a file with "
            f"{KEY_FILE!r}"
        )


def is_security(option: str) -> bool:
    """Whether an option, in lower case, is for TLS or SASL."""
    return option == TOKEN_PROVIDER or (option.startswith(PREFIX) and names.is_security(option.removeprefix(PREFIX)))


def hint(name: str, known: Mapping[str, str]) -> str:
    """`; did you mean ...?` for the nearest of `known` (lower case to how it is spelled), or nothing."""
    near = _nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def capitalized(typed: str, known: Mapping[str, str]) -> str:
    """An unknown name as the user probably typed it.

    Spark passes a source's option names in lower case (`CaseInsensitiveMap.iterator`). So a name without capitals gets
    those of the known name that it resembles, letter by letter: nobody types `startingoffset`.
    """
    near = _nearest(typed, known)
    if near is None or typed != typed.lower():
        return typed
    letters = list(typed)
    for match in difflib.SequenceMatcher(None, typed, near.lower(), autojunk=False).get_matching_blocks():
        letters[match.a : match.a + match.size] = near[match.b : match.b + match.size]
    return "".join(letters)


def _nearest(name: str, known: Mapping[str, str]) -> str | None:
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return known[near[0]] if near else None


def _check_kafka(name: str, typed: str) -> None:
    """`name` is without the prefix and in lower case. Security is checked by its own settings."""
    if name in REFUSED:
        raise ConfigError(f"option {typed!r} is not supported: {REFUSED[name]}")
    known = {setting: f"{PREFIX}{setting}" for setting in KNOWN}
    if name not in known and not names.is_security(name):
        raise ConfigError(f"option {typed!r}: Kafka has no such setting{hint(name, known)}")
