"""One setting: its name, type, range and default; text to value and back.

A row of a table declares a setting, and each layer declares the rows that it acts on::

    class GroupSettings(Table):
        group_max_size = integer(INT_MAX, "Members that a group may have.", low=1)

The attribute is Kafka's name with underscores for dots. An instance of the table holds the values in its `__dict__`.
`Setting` has no `__set__`, so reading a value costs a plain attribute lookup, and the type checker knows its type.

The wording of the errors is Kafka's: users of `--set` see them, and so do clients that alter configs.
"""

import enum
import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar, overload

from fencepost.errors import ConfigError

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

#: Milliseconds in the unit that the last word of a broker setting names.
UNITS = {"minutes": 60_000, "hours": 3_600_000}


class Kind(enum.IntEnum):
    """The type of a setting, numbered as DescribeConfigs does."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


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


@dataclass(eq=False)
class Setting(Generic[T]):
    """What is known of a setting before it has a value."""

    kind: Kind
    default: T
    doc: str
    _: KW_ONLY
    name: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    change: Change = Change.AT_START
    #: Of a topic's setting: the broker settings that decide where the topic does not, the finest unit first.
    broker: tuple[str, ...] = ()
    #: Kafka's default, where ours differs on purpose.
    kafka: str | None = None
    #: Not described unless it is set, as Kafka's settings for its own tests.
    internal: bool = False

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

    @property
    def unit(self) -> int:
        """How many of the topic setting's unit make one of this broker setting."""
        return UNITS.get(self.name.rpartition(".")[2], 1)

    def broker_settings(self) -> "list[Setting[Any]]":
        """The broker settings that decide where a topic does not. Only the last has a default: the topic's.

        Only the first can be altered on a running broker, as in Kafka.
        """
        row: Setting[Any] = self
        found: list[Setting[Any]] = []
        for name in self.broker:
            change = Change.AT_START if found else Change.LIVE
            setting = replace(row, default=None, name=name, change=change, broker=())
            if setting.unit > 1:
                setting.kind = Kind.INT
            found.append(setting)
        if found and self.default is not None:
            last = found[-1]
            last.default = self.default // last.unit if last.unit > 1 else self.default  # type: ignore[operator]
        return found

    def parse(self, text: str | None) -> T:
        """The value that `text` means. ConfigError, which names the type or range, if there is none."""
        value = self.read(text)
        if value is not None:
            self._check(value, str(text))
        return value

    def read(self, text: str | None) -> T:
        """The value that `text` means, whatever the range. ConfigError for a wrong type."""
        if text is not None:
            return self._read(text.strip())  # type: ignore[no-any-return]
        if self.default is None:
            return self.default
        raise self._refused(text, "must not be null")

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
        if self.kind in (Kind.STRING, Kind.PASSWORD):
            return text
        try:
            value = float(text) if self.kind is Kind.DOUBLE else int(text)
        except ValueError:
            raise self._refused(text, f"Not a number of type {self.kind.name}") from None
        low, high = _NUMBER_LIMITS[self.kind]
        if not low <= value <= high:  # also refuses a DOUBLE that is not a number
            raise self._refused(text, f"Not a number of type {self.kind.name}")
        return value

    def _check(self, value: Any, text: str) -> None:
        if self.choices:
            given = value if isinstance(value, tuple) else (self.format(value),)
            if not given or not set(given) <= set(self.choices):
                raise self._refused(text, f"String must be one of: {', '.join(self.choices)}")
        low, high = self.low, self.high
        if (low is not None and value < low) or (high is not None and value > high):
            if high is None:
                raise self._refused(text, f"Value must be at least {low}")
            between = f"{low}" if low == high else f"between {low} and {high}"
            raise self._refused(text, f"Value must be {between}")

    def _refused(self, text: str | None, why: str) -> ConfigError:
        shown = "null" if text is None else "[hidden]" if self.kind is Kind.PASSWORD else text
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {why}")


class Table:
    """The values of the settings that a subclass declares. Those not given have their default."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update({setting.attribute: setting.default for setting in settings_of(type(self)).values()})
        unknown = values.keys() - self.__dict__.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(values)


def settings_of(table: type) -> dict[str, Setting[Any]]:
    """Kafka's name to setting, of a table and those it builds on, in the order written."""
    found: dict[str, Setting[Any]] = {}
    for base in reversed(table.__mro__):
        for value in vars(base).values():
            if isinstance(value, Setting):
                found[value.name] = value
    return found


# Short names for the tables, which read best with one line per setting.

boolean = partial(Setting[bool], Kind.BOOLEAN)
short = partial(Setting[int], Kind.SHORT)
integer = partial(Setting[int], Kind.INT)
long = partial(Setting[int], Kind.LONG)
double = partial(Setting[float], Kind.DOUBLE)
string = partial(Setting[str], Kind.STRING)
strings = partial(Setting[tuple[str, ...]], Kind.LIST)
optional_integer = partial(Setting[int | None], Kind.INT, None)
optional_string = partial(Setting[str | None], Kind.STRING, None)
password = partial(Setting[str | None], Kind.PASSWORD, None)
