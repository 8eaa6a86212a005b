"""Rows of typed columns to rows of bytes, and several records of one row."""

from typing import Any

import pyarrow as pa
import pytest

from fencepost.spark.sink.formats import Formats
from fencepost.spark.sink.typed import Converter

UNREAD = pa.struct([("key", pa.binary()), ("value", pa.binary()), ("reason", pa.string())])
INVOICE = pa.struct([("topic", pa.string()), ("key", pa.string()), ("value", pa.struct([("n", pa.int64())]))])


def batch(columns: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def invoices(*rows: tuple[str, str, int] | None) -> pa.Array:
    return pa.array(
        [None if row is None else {"topic": row[0], "key": row[1], "value": {"n": row[2]}} for row in rows], INVOICE
    )


def test_rows_of_bytes_are_passed_on_as_they_are() -> None:
    rows = batch({"key": pa.array(["a"]), "value": pa.array([b"b"]), "topic": pa.array(["t"])})
    (part,) = Converter().parts(rows)
    assert part is rows


def test_keys_and_values_become_bytes() -> None:
    rows = batch({"key": pa.array([7, None]), "value": pa.array([{"n": 1}, None]), "topic": pa.array(["t", "t"])})
    (part,) = Converter(Formats(key="long")).parts(rows)
    assert part.to_pylist() == [
        {"key": bytes(7) + b"\x07", "value": b'{"n":1}', "topic": "t"},
        {"key": None, "value": None, "topic": "t"},
    ]


def test_a_value_that_its_format_cannot_write_is_a_fault_of_its_row_and_is_kept() -> None:
    rows = batch({"value": pa.array(["x", None, "123e4567-e89b-12d3-a456-426614174000"])})
    (part,) = Converter(Formats(value="uuid")).parts(rows)
    assert part.column("value").to_pylist() == [b"x", None, b"123e4567-e89b-12d3-a456-426614174000"]
    first, *others = part.column("__unwritable").to_pylist()
    assert first.startswith("its value cannot be written as uuid: 1 bytes are not a UUID")
    assert others == [None, None]


def test_times_are_in_the_zone_of_the_session() -> None:
    times = pa.array([0], pa.timestamp("us", "UTC"))
    rows = batch({"value": pa.StructArray.from_arrays([times], ["t"])})
    (part,) = Converter(zone="+02:00").parts(rows)
    assert part.column("value").to_pylist() == [b'{"t":"1970-01-01T02:00:00.000+02:00"}']


def test_a_corrupt_record_has_the_bytes_that_could_not_be_read() -> None:
    corrupt = pa.array(
        [None, {"key": b"k", "value": b"\xff", "reason": "no JSON"}, {"key": None, "value": b"v"}], UNREAD
    )
    rows = batch(
        {"key": pa.array(["a", "b", "c"]), "value": pa.array([{"n": 1}, {"n": 2}, None]), "_corrupt_record": corrupt}
    )
    (part,) = Converter().parts(rows)
    assert part.to_pylist() == [
        {"key": b"a", "value": b'{"n":1}', "_corrupt_record": None},
        {"key": b"k", "value": b"\xff", "_corrupt_record": "no JSON"},
        {"key": None, "value": b"v", "_corrupt_record": "it cannot be read"},
    ]


@pytest.mark.parametrize("name", ["value", "record"])
def test_the_dead_letter_of_an_error_has_the_bytes_that_the_row_was_made_of(name: str) -> None:
    raw = pa.array([{"key": b"k", "value": b"%d" % n} for n in range(2)])
    column = pa.array([{"n": 0}, {"n": 1}]) if name == "value" else invoices(("t", "a", 0), ("t", "b", 1))
    *_, part = Converter().parts(batch({name: column, "raw": raw, "error": pa.array([None, "wrong"])}))
    last = part.to_pylist()[-1]
    assert (last["key"], last["value"], last["error"]) == (b"k", b"1", "wrong")


def test_rows_of_nothing_but_what_could_not_be_read_are_dead_letters() -> None:
    (part,) = Converter().parts(batch({"unread": pa.array([{"key": b"k", "value": b"v", "reason": "no"}], UNREAD)}))
    assert part.to_pylist() == [{"topic": None, "key": b"k", "value": b"v", "_corrupt_record": "no"}]


def test_each_record_column_is_a_part_without_its_nulls() -> None:
    raw = pa.struct([("topic", pa.string()), ("value", pa.binary())])
    rows = batch(
        {
            "invoice": invoices(("i", "a", 1), None, ("i", "c", 3)),
            "shipment": pa.array([None, {"topic": "s", "value": b"raw"}, None], raw),
            "other": pa.array([1, 2, 3]),
        }
    )
    first, second = Converter().parts(rows)
    assert first.to_pylist() == [
        {"topic": "i", "key": b"a", "value": b'{"n":1}'},
        {"topic": "i", "key": b"c", "value": b'{"n":3}'},
    ]
    assert second.to_pylist() == [{"topic": "s", "key": None, "value": b"raw"}]
    assert first.schema == second.schema, "so that one encoder can collect them"


@pytest.mark.parametrize("topic", [None, "all"])
def test_records_of_one_topic_are_in_the_order_of_rows_and_then_of_columns(topic: str | None) -> None:
    rows = batch(
        {
            "first": invoices(("t", "a", 1), ("t", "b", 2), None, ("t", "d", 4)),
            "second": invoices(("t", "A", 1), None, ("t", "C", 3), ("t", "D", 4)),
        }
    )
    (part,) = Converter(topic=topic).parts(rows)
    assert part.column("key").to_pylist() == [b"a", b"A", b"b", b"C", b"d", b"D"]


def test_a_row_with_an_error_is_one_dead_letter_with_its_first_record() -> None:
    corrupt = pa.array([None, None, {"key": b"k", "value": b"v", "reason": "no JSON"}, None], UNREAD)
    rows = batch(
        {
            "first": invoices(("t", "a", 1), None, ("t", "c", 3), None),
            "second": invoices(("u", "A", 1), ("u", "B", 2), ("u", "C", 3), None),
            "error": pa.array([None, "wrong", None, "all wrong"]),
            "_corrupt_record": corrupt,
        }
    )
    first, second, letters = Converter().parts(rows)
    assert [part.column("key").to_pylist() for part in (first, second)] == [[b"a"], [b"A"]]
    found = letters.select(["topic", "key", "value", "error", "_corrupt_record"]).to_pylist()
    assert [[*row.values()] for row in found] == [
        ["u", b"B", b'{"n":2}', "wrong", None],
        ["t", b"k", b"v", None, "no JSON"],
        [None, None, None, "all wrong", None],
    ]
