"""Random values for any message, drawn from its table; random records."""

import dataclasses
from typing import Any

from hypothesis import strategies as st

from fencepost.wire.codec import Field, Schema
from fencepost.wire.records import Record

INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}

#: The tags of our own fields begin here.
FIRST_TAG_OF_OURS = 10_000

PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
    "records": st.binary(max_size=40),
}


def records(times_ms: st.SearchStrategy[int]) -> st.SearchStrategy[Record]:
    """Keys, values and headers of all kinds."""
    header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))
    return st.builds(
        Record,
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        timestamp=times_ms,
        headers=st.lists(header, max_size=3).map(tuple),
    )


def kafkas(fields: list[Field]) -> list[Field]:
    """Without the tagged fields that are our own."""
    known = [each for each in fields if (each.tag or 0) < FIRST_TAG_OF_OURS]
    return [dataclasses.replace(each, children=kafkas(each.children)) for each in known]


def values(schema: Schema, version: int) -> Any:
    """What one version of a message can say: every field that it has, as `Schema.encode` takes them."""
    return _struct(schema.fields, version, PRIMITIVES)


def values_of_kafkas(schema: Schema, version: int, leaves: dict[str, st.SearchStrategy[Any]]) -> Any:
    """The same without our own fields.

    `leaves` may hold a strategy for a field's name (or, as `*_ms`, for the end of it) and has one for every primitive.
    """
    return _struct(kafkas(schema.fields), version, leaves)


def _struct(fields: list[Field], version: int, leaves: dict[str, st.SearchStrategy[Any]]) -> Any:
    present = [each for each in fields if version in each.versions]
    return st.fixed_dictionaries({each.name: _field(each, version, leaves) for each in present})


def _field(spec: Field, version: int, leaves: dict[str, st.SearchStrategy[Any]]) -> Any:
    item = _struct(spec.children, version, leaves) if spec.kind == "struct" else _leaf(spec, leaves)
    if spec.is_array:
        item = st.lists(item, max_size=3)
    return st.none() | item if version in spec.nullable else item


def _leaf(spec: Field, leaves: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    if spec.name in leaves:
        return leaves[spec.name]
    if spec.name.endswith("_ms") and f"*_ms {spec.kind}" in leaves:
        return leaves[f"*_ms {spec.kind}"]
    return leaves[spec.kind]
