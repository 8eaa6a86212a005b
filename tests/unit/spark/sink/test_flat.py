"""Rows without STRUCTs become what they were: names, order and nulls."""

import pyarrow as pa
import pytest

from fencepost.spark.sink.flat import SEPARATOR, nest


def flat(**columns: pa.Array) -> pa.RecordBatch:
    """A column `a_b` is the field b of a; `a_` says where a is null."""
    return pa.RecordBatch.from_arrays([*columns.values()], names=[name.replace("_", SEPARATOR) for name in columns])


def test_rows_without_structs_are_passed_on() -> None:
    rows = flat(key=pa.array([b"1"]), value=pa.array([b"2"]))
    assert nest(rows) is rows


def test_fields_are_where_and_in_the_order_they_were() -> None:
    rows = flat(
        key=pa.array(["k", "l"]),
        value_id=pa.array([1, None]),
        value_user_name=pa.array(["a", "b"]),
        value_user_age=pa.array([30, 40]),
        value_price=pa.array([1.5, 2.5]),
        topic=pa.array(["t", "u"]),
    )
    assert nest(rows).to_pylist() == [
        {"key": "k", "value": {"id": 1, "user": {"name": "a", "age": 30}, "price": 1.5}, "topic": "t"},
        {"key": "l", "value": {"id": None, "user": {"name": "b", "age": 40}, "price": 2.5}, "topic": "u"},
    ]
    assert nest(rows).schema.names == ["key", "value", "topic"]
    assert [field.name for field in nest(rows).schema.field("value").type] == ["id", "user", "price"]


def test_a_null_and_a_struct_of_nulls_are_two_things() -> None:
    is_null = pa.array([True, False, False])
    rows = flat(value_id=pa.array([None, None, 3]), value_=is_null)
    assert nest(rows).to_pylist() == [{"value": None}, {"value": {"id": None}}, {"value": {"id": 3}}]


def test_a_struct_inside_may_be_null_alone() -> None:
    rows = flat(
        a_b_c=pa.array([1, None, None]),
        a_b_=pa.array([False, True, True]),
        a_d=pa.array([5, 6, None]),
        a_=pa.array([False, False, True]),
    )
    assert nest(rows).to_pylist() == [{"a": {"b": {"c": 1}, "d": 5}}, {"a": {"b": None, "d": 6}}, {"a": None}]


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_tables_as_well(parts: int) -> None:
    batch = flat(value_id=pa.array([1, None]), value_=pa.array([False, True]))
    found = nest(pa.Table.from_batches([batch] * parts, batch.schema))
    assert found.schema.names == ["value"]
    assert found.to_pylist() == [{"value": {"id": 1}}, {"value": None}] * parts


def test_a_part_of_a_batch_is_nested_like_the_whole() -> None:
    rows = flat(value_id=pa.array([1, 2, None]), value_=pa.array([False, False, True])).slice(1)
    assert nest(rows).to_pylist() == [{"value": {"id": 2}}, {"value": None}]
