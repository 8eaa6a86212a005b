"""The door for formats: what turns a column of bytes into a column of values, and back.

Invariant: one bad record never spoils its neighbours. Its row is null, and its reason is among the faults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Converted:
    """A column after its conversion, row by row as it came."""

    values: Any  #: an Arrow array; null where the given one was null, and where there is a fault
    faults: Mapping[int, str] = field(default_factory=dict)  #: the reason by row; empty where every record is good


class Decoder(Protocol):
    def decode(self, column: Any) -> Converted:
        """From an array of `pa.binary()` to an array of the type that was wanted."""


class Encoder(Protocol):
    def encode(self, column: Any) -> Converted:
        """From an array of the type that was given to an array of `pa.binary()`."""


class Format(Protocol):
    def decoder(self, wanted: Any) -> Decoder:
        """For values of an Arrow type. Raises ConfigError for one that the format cannot read."""

    def encoder(self, given: Any) -> Encoder:
        """For values of an Arrow type. Raises ConfigError for one that the format cannot write."""
