"""One setting: its name, type, range and default; text to value and back.

A table of settings is a class whose attributes are `Setting`s. The attribute is Kafka's name with underscores for
dots, so `num_partitions` is `num.partitions`. An instance of such a class holds the values in its `__dict__`; because
`Setting` has no `__set__`, reading one costs a plain attribute lookup, and the type checker still knows its type.

The wording of the errors is Kafka's: they reach users of `--set` and clients that alter configs alike.
"""

import enum
import math
from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar, overload

from fencepost.errors import ConfigError

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Kind(enum.IntEnum):
    """The type of a setting, numbered as DescribeConfigs does."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Change(enum.Enum):
    """Whether a running broker can be told another value."""

    AT_START = "read-only"
    LIVE = "cluster-wide"


_NUMBER_LIMITS = {
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), INT_MAX),
    Kind.LONG: (-(2**63), LONG_MAX),
    Kind.DOUBLE: (-math.inf, math.inf),
}


class Setting(Generic[T]):
    """What is known of one setting before anybody gave it a value."""

    name: str

    def __init__(
        self,
        kind: Kind,
        default: T,
        doc: str,
        *,
        low: float | None = None,
        high: float | None = None,
        choices: tuple[str, ...] = (),
        optional: bool = False,
        change: Change = Change.AT_START,
        inherits: Mapping[str, int] | None = None,
    ) -> None:
        self.kind = kind
        self.default = default
        self.doc = doc
        self.low = low
        self.high = high
        self.choices = choices
        self.optional = optional  #: may be null: another setting then decides
        self.change = change
        #: of a topic's setting: the broker settings that decide where the topic does not, best first, each with the
        #: factor from its unit to ours
        self.inherits: Mapping[str, int] = inherits or {}

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        return self if instance is None else self.default

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def parse(self, text: str | None) -> T:
        """The value that `text` means; ConfigError says what would have been right."""
        if text is None:
            if self.optional:
                return None  # type: ignore[return-value]
            raise self._refused(text, "must not be null")
        value = self._read(text.strip())
        self._check(value, text)
        return value  # type: ignore[no-any-return]

    def format(self, value: T) -> str | None:
        """The text that `parse` reads back."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    def _read(self, text: str) -> Any:
        if self.kind is Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self._refused(text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.kind is Kind.LIST:
            return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if self.kind is Kind.STRING:
            return text
        try:
            return float(text) if self.kind is Kind.DOUBLE else int(text)
        except ValueError:
            raise self._refused(text, f"Not a number of type {self.kind.name}") from None

    def _check(self, value: Any, text: str) -> None:
        if self.choices:
            given = value if isinstance(value, tuple) else (self.format(value),)
            if not given or not set(given) <= set(self.choices):
                raise self._refused(text, f"String must be one of: {', '.join(self.choices)}")
        limits = _NUMBER_LIMITS.get(self.kind)
        if limits is None:
            return
        if not limits[0] <= value <= limits[1]:  # also refuses a DOUBLE that is not a number
            raise self._refused(text, f"Not a number of type {self.kind.name}")
        low, high = self.low, self.high
        if (low is not None and value < low) or (high is not None and value > high):
            if high is None:
                raise self._refused(text, f"Value must be at least {low}")
            between = f"{low}" if low == high else f"between {low} and {high}"
            raise self._refused(text, f"Value must be {between}")

    def _refused(self, text: str | None, why: str) -> ConfigError:
        shown = "null" if text is None else text
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {why}")


# Short names for the tables. What a table reads best with is one line per setting.


def boolean(default: bool, doc: str, **more: Any) -> Setting[bool]:
    return Setting(Kind.BOOLEAN, default, doc, **more)


def short(default: int, doc: str, **more: Any) -> Setting[int]:
    return Setting(Kind.SHORT, default, doc, **more)


def integer(default: int, doc: str, **more: Any) -> Setting[int]:
    return Setting(Kind.INT, default, doc, **more)


def long(default: int, doc: str, **more: Any) -> Setting[int]:
    return Setting(Kind.LONG, default, doc, **more)


def double(default: float, doc: str, **more: Any) -> Setting[float]:
    return Setting(Kind.DOUBLE, default, doc, **more)


def string(default: str, doc: str, **more: Any) -> Setting[str]:
    return Setting(Kind.STRING, default, doc, **more)


def strings(default: tuple[str, ...], doc: str, **more: Any) -> Setting[tuple[str, ...]]:
    return Setting(Kind.LIST, default, doc, **more)


def optional_integer(doc: str, **more: Any) -> Setting[int | None]:
    return Setting(Kind.INT, None, doc, optional=True, **more)


def optional_long(doc: str, **more: Any) -> Setting[int | None]:
    return Setting(Kind.LONG, None, doc, optional=True, **more)


def optional_string(doc: str, **more: Any) -> Setting[str | None]:
    return Setting(Kind.STRING, None, doc, optional=True, **more)


def settings_of(table: type) -> dict[str, Setting[Any]]:
    """Kafka's name to setting, of a table and those it builds on, in the order written."""
    found: dict[str, Setting[Any]] = {}
    for base in reversed(table.__mro__):
        for value in vars(base).values():
            if isinstance(value, Setting):
                found[value.name] = value
    return found
