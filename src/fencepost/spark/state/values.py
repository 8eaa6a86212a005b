"""State, from the JSON values of the changelog to Arrow columns.

Spark writes the values (`to_json`), one object per key, without null fields. So a field that is added to a state later
is null in older values, and a removed field is ignored.
"""

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.json  # type: ignore[import-untyped]

from fencepost.errors import ConfigError, Malformed

#: What `to_json` writes for numbers that JSON does not have.
NOT_IN_JSON = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
BLOCK_BYTES_MAX = 1 << 30


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
    there = [value for value in values if value is not None]
    if not there:
        return pa.Table.from_pylist([{}] * len(values), schema)
    text = b"\n".join(there)
    try:
        table = pa.json.read_json(
            io.BytesIO(text),
            read_options=pa.json.ReadOptions(block_size=min(BLOCK_BYTES_MAX, len(text) + 1)),
            parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        table = _decode_slowly(there, schema)
    if len(there) == len(values):
        return table
    place = np.cumsum([value is not None for value in values]) - 1
    missing = np.array([value is None for value in values])
    return table.take(pa.array(place, pa.int64(), mask=missing))


def _decode_slowly(values: Sequence[bytes], schema: Any) -> Any:
    floating = {field.name for field in schema if pa.types.is_floating(field.type)}
    rows = []
    for value in values:
        try:
            row = json.loads(value)
        except ValueError as error:
            raise Malformed(f"a changelog value is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise Malformed(f"a changelog value is not a JSON object: {value[:100]!r}")
        for name in floating & row.keys():
            row[name] = NOT_IN_JSON.get(row[name], row[name]) if isinstance(row[name], str) else row[name]
        rows.append(row)
    try:
        return pa.Table.from_pylist(rows, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise Malformed(f"the changelog's values do not fit the state's schema: {error}") from None
