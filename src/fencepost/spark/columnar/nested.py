"""Structs and lists made and taken apart, a column at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fencepost.spark.columnar.functions import Uncertain, Value, as_array


def field_of(struct: Value, ordinal: int) -> Value:
    """A field; null where the struct is."""
    if not pa.types.is_struct(struct.type):
        raise Uncertain(f"a field of {struct.type}")
    return pc.struct_field(struct, [ordinal])


def make_struct(names: Sequence[str], values: Sequence[Value], rows: int) -> Any:
    if len({*names}) != len(names):
        raise Uncertain("a struct with two fields of one name")
    return pa.StructArray.from_arrays([as_array(value, rows) for value in values], names=list(names))


def where(struct: Any, mask: Any) -> Any:
    """The struct, null where the mask is false."""
    kept = mask if not struct.null_count else pc.and_(mask, struct.is_valid())
    if kept.true_count == len(kept):
        return struct
    return pa.StructArray.from_arrays(struct.flatten(), fields=[*struct.type], mask=pc.invert(kept))


def make_list(values: Sequence[Value], rows: int) -> Any:
    """Lists of as many elements as there are values."""
    size = len(values)
    if not size:
        return pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.nulls(0))
    columns = [as_array(value, rows) for value in values]
    if len({column.type for column in columns}) > 1:
        raise Uncertain("a list of different types")
    if size * rows >= 1 << 31:
        raise Uncertain("too many elements")
    order = (np.arange(rows)[:, None] + np.arange(size)[None, :] * rows).ravel()
    elements = pa.concat_arrays(columns).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(np.arange(0, rows * size + 1, size, dtype=np.int32)), elements)


def join_lists(values: Sequence[Value], rows: int) -> Any:
    """Each row's lists as one; null if one of them is."""
    lists = [as_array(value, rows) for value in values]
    kinds = {each.type for each in lists}
    if len(kinds) > 1 and len({kind.value_type for kind in kinds}) > 1:
        raise Uncertain("lists of different types")
    sizes = np.stack([pc.fill_null(pc.list_value_length(each), 0).to_numpy() for each in lists])
    elements = [each.flatten() for each in lists]  # without those of null lists
    is_null = np.zeros(rows, np.bool_)
    for each in lists:
        is_null |= each.is_null().to_numpy(zero_copy_only=False)
    begins = np.cumsum([0, *(len(each) for each in elements[:-1])])
    # Where each list begins among all elements, list by list of each row.
    starts = np.stack([begin + np.cumsum(size) - size for begin, size in zip(begins, sizes, strict=True)])
    starts, counts = starts.T.ravel(), sizes.T.ravel()
    ends = np.cumsum(counts)
    if len(ends) and ends[-1] >= 1 << 31:
        raise Uncertain("too many elements")
    total = int(ends[-1]) if len(ends) else 0
    order = np.arange(total) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)
    offsets = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))]).astype(np.int32)
    joined = pa.concat_arrays(elements).take(pa.array(order.astype(np.int64)))
    mask = pa.array(is_null) if is_null.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), joined, mask=mask)


def scatter(parts: Sequence[tuple[Any, Any]], rows: int) -> Any:
    """One column of the values of several groups of rows. Each part is the places of its rows, and their values."""
    filled = [(places, values) for places, values in parts if len(values)]
    if not filled:
        kind = parts[0][1].type if parts else pa.null()
        return pa.nulls(rows, kind)
    if len({values.type for _, values in filled}) > 1:
        raise Uncertain("branches of different types")
    order = np.full(rows, -1, np.int64)
    begin = 0
    for places, values in filled:
        order[places] = np.arange(begin, begin + len(values))
        begin += len(values)
    taken = pa.array(order, mask=order < 0)
    return pa.concat_arrays([values for _, values in filled]).take(taken)
