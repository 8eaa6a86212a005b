"""A stateful step as the user writes it: its key, its state, its outputs, and the function from old to new state.

The function is called once for each changelog partition and micro-batch, not once for each key. It gets the distinct
keys, their old state, the new rows and the key of each row. It returns the new state of those keys, and output rows::

    def update(given: Keyed) -> Updated:
        bought = np.bincount(given.index, minlength=len(given.keys))
        before = given.old.column("purchases").fill_null(0).to_numpy()
        state = pa.table({"purchases": before + bought})
        return Updated(state, given.keys.append_column("purchases", state.column(0)))

The result must only depend on the arguments: Spark may call the function twice for one batch.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.errors import ConfigError
from fencepost.spark.state.cache import DELETE_RETENTION_MS_MIN

DELETE_RETENTION = "delete.retention.ms"
NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


class Keyed(NamedTuple):
    """What the function gets. Tables are Arrow's."""

    keys: Any  #: the distinct keys, a column for each of the step's key columns
    old: Any  #: the state of each key, in the same order; all columns are null for a new key
    rows: Any  #: the new rows, in the order of their partitions
    index: Any  #: `index[i]` is the position in `keys` of row i's key; a NumPy array of int32


class Updated(NamedTuple):
    """What the function returns."""

    state: Any  #: a table with a row for each of `keys`; if all columns are null, the key is removed
    output: Any = None  #: a table of any number of rows, or None


Update = Callable[[Keyed], Updated]


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """`state` and `output` are Spark schemas such as "purchases long, amount double".

    Output rows become records for `topic`. `key` and `value` are SQL expressions over the output's columns. The default
    key is the step's key columns, if the output has them, and the default value is all columns as JSON.
    """

    name: str
    keys: tuple[str, ...]  #: columns of the rows
    state: str
    update: Update
    output: str = ""
    topic: str = ""  #: a topic's name, or an SQL expression if it begins with "="
    key: str = ""
    value: str = ""
    partitions: int = 0  #: of the changelog when it is created; default: Spark's parallelism
    configs: dict[str, str] = field(default_factory=dict)  #: of the changelog when it is created

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"step name {self.name!r} is part of a topic name: use letters, digits, . _ and -")
        if not self.keys or not self.state.strip():
            raise ConfigError(f"step {self.name!r} needs key columns and a state")
        if bool(self.output.strip()) != bool(self.topic):
            raise ConfigError(f"step {self.name!r} needs both an output schema and a topic for it, or neither")
        retention = self.configs.get(DELETE_RETENTION)
        if retention is not None and not (retention.isdigit() and int(retention) >= DELETE_RETENTION_MS_MIN):
            raise ConfigError(
                f"step {self.name!r}: {DELETE_RETENTION} must be at least {DELETE_RETENTION_MS_MIN} (two hours), not "
                f"{retention}: a machine that caches the state must see which keys were removed while it was away"
            )
