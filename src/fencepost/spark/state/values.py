"""State, from the JSON values of the changelog to Arrow columns.

Values are as `to_json` writes them, one object per key, without null fields. So a field that is added to a state later
is null in older values, and a removed field is ignored.
"""

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.errors import ConfigError, Malformed
from fencepost.formats import named
from fencepost.formats.format import Decoder


def check_schema(schema: Any, what: str) -> None:
    """Raises ConfigError for types that JSON does not preserve."""
    for field in schema:
        kind = field.type
        plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if not (plain or pa.types.is_string(kind)):
            raise ConfigError(
                f"{what}: column {field.name!r} is {kind}, but a state holds only numbers, booleans and strings. Keep "
                "a time as a number, and a structure as JSON in a string"
            )


def decode(values: Sequence[bytes | None], schema: Any) -> Any:
    """A table with a row for each value; all columns are null where the value is None."""
    found = _decoder(pa.struct(list(schema))).decode(pa.array(values, pa.binary()))
    for row, reason in found.faults.items():
        raise Malformed(f"a changelog value does not fit the state's schema: {reason}: {(values[row] or b'')[:100]!r}")
    return pa.Table.from_arrays(found.values.flatten(), schema=schema)


@functools.cache
def _decoder(kind: Any) -> Decoder:
    return named.find(named.JSON).decoder(kind)
