"""State from the changelog's JSON to columns."""

import math

import pyarrow as pa
import pytest

from fencepost.errors import ConfigError, Malformed
from fencepost.spark.state.values import check_schema, decode

SCHEMA = pa.schema([("purchases", pa.int64()), ("amount", pa.float64()), ("name", pa.string())])


def test_a_value_becomes_a_row_and_a_missing_one_a_row_of_nulls() -> None:
    table = decode([b'{"purchases":2,"amount":1.5,"name":"a"}', None, b'{"purchases":3}'], SCHEMA)
    assert table.schema == SCHEMA
    assert table.to_pylist() == [
        {"purchases": 2, "amount": 1.5, "name": "a"},
        {"purchases": None, "amount": None, "name": None},
        {"purchases": 3, "amount": None, "name": None},
    ]


def test_no_state_at_all_is_rows_of_nulls() -> None:
    assert decode([None, None], SCHEMA).to_pylist() == [dict.fromkeys(SCHEMA.names)] * 2
    assert len(decode([], SCHEMA)) == 0


def test_a_field_that_was_taken_out_of_the_state_is_not_looked_at() -> None:
    assert decode([b'{"purchases":2,"colour":"red"}'], SCHEMA).to_pylist()[0]["purchases"] == 2


@pytest.mark.parametrize(("text", "value"), [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf)])
def test_numbers_that_json_does_not_have_come_back(text: str, value: float) -> None:
    found = decode([b'{"amount":"%s"}' % text.encode(), b'{"amount":1.0}'], SCHEMA).column("amount").to_pylist()
    assert found[1] == 1.0
    assert math.isnan(found[0]) if math.isnan(value) else found[0] == value


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"purchases":"many"}'])
def test_a_value_that_is_not_of_the_state_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        decode([text], SCHEMA)


def test_text_with_newlines_and_quotes_stays_one_value() -> None:
    assert decode([rb'{"name":"a\nb \"c\""}', b'{"name":"d"}'], SCHEMA).column("name").to_pylist() == ['a\nb "c"', "d"]


def test_a_type_that_would_not_come_back_as_it_went_is_refused() -> None:
    check_schema(SCHEMA, "the state")
    with pytest.raises(ConfigError, match="Keep a time as a number"):
        check_schema(pa.schema([("at", pa.timestamp("us"))]), "the state")
