"""Which Arrow types JSON can give, and arrays of them from Python values."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.errors import ConfigError
from fencepost.formats import json_times


def check(wanted: Any, where: str = "the value") -> None:
    """Raises ConfigError for a type that `from_json` does not have."""
    types = pa.types
    if types.is_struct(wanted):
        names = [field.name for field in wanted]
        twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
        if twice:
            raise ConfigError(f"JSON: {where} has two fields with the name {min(twice)!r}")
        for field in wanted:
            check(field.type, f"field {field.name}" if where == "the value" else f"{where}.{field.name}")
    elif types.is_list(wanted):
        check(wanted.value_type, f"{where}[]")
    elif types.is_map(wanted):
        if not types.is_string(wanted.key_type):
            raise ConfigError(f"JSON: {where} cannot be {wanted}: names are text, so the keys of a map must be strings")
        check(wanted.item_type, f"{where}[]")
    elif types.is_timestamp(wanted):
        if wanted.unit != "us":
            raise ConfigError(f"JSON: {where} cannot be {wanted}: timestamps have microseconds, as in Spark")
        if wanted.tz is not None and json_times.zone(wanted.tz) is None:
            raise ConfigError(f"JSON: {where} has the time zone {wanted.tz!r}, which is not known here")
    elif not _is_leaf(wanted):
        raise ConfigError(f"JSON: {where} cannot be of the type {wanted}")


def _is_leaf(wanted: Any) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(wanted)
        or types.is_signed_integer(wanted)
        or types.is_float32(wanted)
        or types.is_float64(wanted)
        or (types.is_decimal128(wanted) and wanted.scale >= 0)
        or types.is_string(wanted)
        or types.is_binary(wanted)
        or types.is_date32(wanted)
    )


def width(wanted: Any) -> int:
    """Fields of the widest struct."""
    if pa.types.is_struct(wanted):
        return max(len(wanted), *(width(field.type) for field in wanted), 0)
    if pa.types.is_list(wanted):
        return width(wanted.value_type)
    if pa.types.is_map(wanted):
        return width(wanted.item_type)
    return 1


def build(wanted: Any, values: list[Any]) -> Any:
    """An array of what `json_documents` reads."""
    if pa.types.is_struct(wanted):
        nulls = np.fromiter((value is None for value in values), bool, len(values))
        empty = (None,) * wanted.num_fields
        lines = list(zip(*(empty if value is None else value for value in values), strict=True)) or [()] * len(empty)
        children = [build(field.type, list(line)) for field, line in zip(wanted, lines, strict=True)]
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        return pa.Array.from_buffers(wanted, len(values), [bitmap], int(nulls.sum()), children=children)
    if not pa.types.is_list(wanted) and not pa.types.is_map(wanted):
        return pa.array(values, wanted)
    nulls = np.fromiter((value is None for value in values), bool, len(values))
    sizes = [0 if value is None else len(value) for value in values]
    offsets = np.cumsum([0, *sizes], dtype=np.int32)
    items = [item for value in values if value is not None for item in value]
    entries = wanted.value_type if pa.types.is_list(wanted) else pa.struct([wanted.key_field, wanted.item_field])
    bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(
        wanted, len(values), [bitmap, pa.py_buffer(offsets)], int(nulls.sum()), children=[build(entries, items)]
    )
