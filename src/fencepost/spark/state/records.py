"""Changes and outputs of a step as finished records, made where the step runs, a column at a time.

For steps whose records need no SQL: a topic by its name, the default key, the default value. Others get theirs from
Spark (`plan`). Invariant: the bytes are the same either way, those of `to_json` and CAST.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.formats import named
from fencepost.spark.state.step import StatefulStep

SCHEMA = pa.schema([("topic", pa.string()), ("key", pa.string()), ("value", pa.string()), ("partition", pa.int32())])


@dataclass(frozen=True, slots=True)
class Records:
    changelog: str
    topic: str
    key: tuple[str, ...]  #: columns of an output

    def changes(self, keys: Any, states: Any, partition: int) -> Any:
        """`keys` are the texts of the keys, `states` an array of structs; null for a key that is removed."""
        count = len(keys)
        places = pa.array(np.full(count, partition, np.int32))
        return _table([pa.repeat(self.changelog, count), keys, _json(states), places])

    def outputs(self, output: Any) -> Any:
        """`output` is a table with the step's output schema."""
        columns = {name: output.column(name).combine_chunks() for name in output.schema.names}
        structs = pa.StructArray.from_arrays(list(columns.values()), fields=list(output.schema))
        count = len(structs)
        return _table([pa.repeat(self.topic, count), self._keys(columns, count), _json(structs), _nulls(count)])

    def _keys(self, columns: dict[str, Any], count: int) -> Any:
        if not self.key:
            return pa.nulls(count, pa.string())
        if len(self.key) == 1:
            return columns[self.key[0]].cast(pa.string())
        return _json(pa.StructArray.from_arrays([columns[name] for name in self.key], names=list(self.key)))


def records_of(step: StatefulStep, output: Any, changelog: str) -> Records | None:
    """None if Spark has to make the records. `output` is the Arrow schema of the step's output."""
    key = tuple(name for name in step.keys if name in output.names)
    if step.key or step.value or step.topic.startswith("=") or not all(_is_plain(field.type) for field in output):
        return None
    if len(key) == 1 and not (
        pa.types.is_string(output.field(key[0]).type) or pa.types.is_integer(output.field(key[0]).type)
    ):
        return None
    return Records(changelog, step.topic, key)


def _is_plain(kind: Any) -> bool:
    """Whether its JSON does not depend on the session, as that of times does."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _json(structs: Any) -> Any:
    made = named.find(named.JSON).encoder(structs.type).encode(structs).values
    validity, offsets, data = made.buffers()
    return pa.Array.from_buffers(pa.string(), len(made), [validity, offsets, data], made.null_count, made.offset)


def _nulls(count: int) -> Any:
    return pa.nulls(count, pa.int32())


def _table(columns: list[Any]) -> Any:
    return pa.Table.from_arrays(columns, schema=SCHEMA)
