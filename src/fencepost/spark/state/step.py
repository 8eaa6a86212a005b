"""What a user writes of a stateful step: its key, its state, its outputs, and the function from old to new.

The function is called once for each changelog partition and micro-batch, not once for each key. It gets the distinct
keys, their old state, and the new rows with the number of their key; it gives the new state of those keys, and rows::

    def update(given: Keyed) -> Updated:
        bought = np.bincount(given.index, minlength=len(given.keys))
        before = given.old.column("purchases").fill_null(0).to_numpy()
        state = pa.table({"purchases": before + bought})
        return Updated(state, given.keys.append_column("purchases", state.column(0)))

It must be a function of what it is given and of nothing else: Spark may call it twice for one batch.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


class Keyed(NamedTuple):
    """What the function gets. Tables are Arrow's."""

    keys: Any  #: the distinct keys, a column for each of the step's key columns
    old: Any  #: the state of each of them, in the same order; all columns null where there is none
    rows: Any  #: the new rows, in the order of their partitions
    index: Any  #: for each row the number of its key: a NumPy array of int32


class Updated(NamedTuple):
    """What the function gives."""

    state: Any  #: a table with a row for each of `keys`; a row of nulls only takes the key out of the state
    output: Any = None  #: a table of any number of rows, or None


Update = Callable[[Keyed], Updated]


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """`state` and `output` are schemas as Spark writes them, "purchases long, amount double".

    Output rows become records for `topic`. Their `key` and `value` are SQL expressions over the output's columns;
    without them the key is the step's key, as far as the output has it, and the value all columns as JSON.
    """

    name: str
    keys: tuple[str, ...]  #: columns of the rows
    state: str
    update: Update
    output: str = ""
    topic: str = ""  #: a topic's name, or an SQL expression where it begins with "="
    key: str = ""
    value: str = ""
    partitions: int = 0  #: of the changelog when it is made; the parallelism of Spark unless given
    configs: dict[str, str] = field(default_factory=dict)  #: of the changelog when it is made

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"a step's name is a part of its topic's name, and {self.name!r} cannot be")
        if not self.keys or not self.state.strip():
            raise ConfigError(f"step {self.name!r} needs key columns and a state")
        if bool(self.output.strip()) != bool(self.topic):
            raise ConfigError(f"step {self.name!r} needs both: what its output is, and the topic that it goes to")
