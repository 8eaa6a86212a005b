"""Columns are checked before anything runs."""

from collections.abc import Mapping

import pytest
from pyspark.sql import types
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from fencepost.errors import ConfigError
from fencepost.spark.record_types import HEADERS, POSITION, UNREAD
from fencepost.spark.sink import columns
from fencepost.spark.sink.formats import NO_FORMATS, Formats

RECORD: dict[str, str | DataType] = {"topic": "string", "value": "binary"}
KINDS: list[DataType] = [
    types.BinaryType(), types.BooleanType(), types.DateType(), types.DoubleType(), types.IntegerType(),
    types.LongType(), types.NullType(), types.ShortType(), types.StringType(), types.TimestampType(),
    ArrayType(StructType().add("key", "string").add("value", "binary")),
    StructType().add("topic", "string").add("partition", "integer").add("offset", "long"),
    StructType().add("key", "binary").add("value", "binary").add("reason", "string"),
]  # fmt: skip
BY_NAME = {kind.simpleString(): kind for kind in KINDS}
PRICE = StructType().add("id", "long").add("price", "double")
INVOICE = StructType().add("topic", "string").add("key", "string").add("value", PRICE)


def check_columns(
    kinds: Mapping[str, str | DataType], topic: str | None, dead_letters: str | None, formats: Formats = NO_FORMATS
) -> None:
    found = {name: BY_NAME[kind] if isinstance(kind, str) else kind for name, kind in kinds.items()}
    columns.check_columns(found, topic, dead_letters, formats)


def with_field(struct: StructType, name: str, kind: str) -> StructType:
    return StructType([*struct.fields]).add(name, kind)


def test_the_columns_of_sparks_own_sink_are_taken() -> None:
    check_columns(
        {
            "topic": "string",
            "key": "binary",
            "value": "string",
            "headers": "array<struct<key:string,value:binary>>",
            "partition": "int",
            "timestamp": "timestamp",
            "other": "double",
        },
        None,
        None,
    )
    check_columns({"value": "binary", "key": "void", "Key": "int", "TOPIC": "string"}, "all of them", None)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({}, "needs a column 'value'; it has none"),
        ({"key": "string"}, "needs a column 'value'; it has key"),
        ({"value": "string"}, "column 'topic', or give the sink a topic"),
        ({"topic": "string", "value": "int"}, "column 'value' must be string or binary, or a STRUCT.*not int"),
        ({"topic": "string", "value": "string", "partition": "string"}, "column 'partition' must be int"),
        ({"topic": "string", "value": "string", "Key": "string"}, "column 'Key' would be dropped"),
    ],
)
def test_a_column_that_is_missing_or_of_another_type_is_named(kinds: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_columns(kinds, None, None)


def test_a_column_that_only_looks_like_ours_is_dropped_like_any_other() -> None:
    check_columns({**RECORD, "error": "boolean", "source": "string"}, None, None)
    check_columns({**RECORD, "source": POSITION, "headers": HEADERS}, None, None)


def test_a_text_of_errors_is_not_dropped_in_silence() -> None:
    with pytest.raises(ConfigError, match=r"column 'error'.*option deadLetters.*or drop the column"):
        check_columns({**RECORD, "error": "string"}, None, None)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"error": "boolean"}, "column 'error' must be string, not boolean"),
        ({"source": "string"}, "column 'source' must be struct<topic:string,partition:int,offset:bigint>, not string"),
        ({"Error": "string"}, "column 'Error' would be dropped"),
    ],
)
def test_with_dead_letters_the_columns_about_them_are_checked(more: dict[str, str], said: str) -> None:
    check_columns({**RECORD, "error": "string", "source": POSITION}, None, "dead")
    with pytest.raises(ConfigError, match=said):
        check_columns({**RECORD, **more}, None, "dead")


def test_structs_maps_and_arrays_are_written_as_json() -> None:
    check_columns({**RECORD, "value": PRICE, "key": PRICE}, None, None)
    check_columns({**RECORD, "value": MapType(types.StringType(), PRICE)}, None, None)
    check_columns({**RECORD, "value": ArrayType(PRICE)}, None, None, Formats(value="json"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("bigint", "not bigint. Give the sink the option keyFormat=long, CAST it to STRING, or put it into a STRUCT"),
        ("boolean", "not boolean. Give the sink the option keyFormat=boolean"),
        ("date", "not date. CAST it to STRING, or put it into a STRUCT"),
    ],
)
def test_a_number_without_a_format_is_refused_with_the_options_that_would_do(kind: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_columns({**RECORD, "key": kind}, None, None)


def test_a_format_writes_its_type() -> None:
    check_columns({**RECORD, "key": "bigint", "value": "void"}, None, None, Formats(key="long", value="uuid"))
    check_columns({**RECORD, "key": "smallint"}, None, None, Formats(key="long"))
    with pytest.raises(ConfigError, match="column 'key': format 'integer' is for INT, not for int64"):
        check_columns({**RECORD, "key": "bigint"}, None, None, Formats(key="integer"))
    with pytest.raises(ConfigError, match="column 'value': JSON is written of a STRUCT, MAP or ARRAY, not of string"):
        check_columns({**RECORD, "value": "string"}, None, None, Formats(value="json"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (types.DayTimeIntervalType(), r"column 'value': .*x is duration\[us\]"),
        (types.YearMonthIntervalType(), "column 'value': .*cannot be sent to Python"),
        (types.VariantType(), "column 'value': .*x is a VARIANT"),
        (MapType(types.BinaryType(), types.LongType()), "column 'value': .*x has binary. Use STRING keys"),
    ],
    ids=str,
)
def test_a_field_that_json_cannot_hold_is_named(kind: DataType, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_columns({**RECORD, "value": StructType().add("x", kind)}, None, None)


def test_a_row_may_have_several_records() -> None:
    check_columns({"invoice": INVOICE, "shipment": INVOICE, "source": POSITION, "other": "int"}, None, None)
    invoice = StructType().add("value", "string")
    check_columns({"invoice": invoice, "error": "string", "_corrupt_record": UNREAD}, "invoices", "dead")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"invoice": INVOICE, "key": "string"}, "'key' would be dropped.*records are invoice. Put 'key' into each"),
        ({"invoice": StructType().add("value", "string")}, "column 'invoice' needs a field 'topic'"),
        ({"invoice": with_field(INVOICE, "Key", "string")}, "has a field 'Key', which no record has"),
        (
            {"invoice": with_field(INVOICE, "partition", "long")},
            "'partition' of column 'invoice' must be int, not bigint",
        ),
        (
            {"invoice": StructType().add("topic", "string").add("value", "long")},
            "field 'value' of column 'invoice' must be string.*valueFormat=long",
        ),
    ],
)
def test_what_is_wrong_with_one_of_several_records_is_named(kinds: dict[str, str | DataType], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_columns(kinds, None, None)


def test_records_that_the_source_could_not_read_need_a_topic_of_dead_letters() -> None:
    with pytest.raises(ConfigError, match=r"column '_corrupt_record'.*option deadLetters"):
        check_columns({**RECORD, "_corrupt_record": UNREAD}, None, None)
    check_columns({**RECORD, "_corrupt_record": UNREAD}, None, "dead")
    check_columns({**RECORD, "_corrupt_record": "string"}, None, None)  # a column of somebody else
    with pytest.raises(ConfigError, match="column 'unread'"):
        check_columns({"invoice": INVOICE, "unread": UNREAD}, None, None)


def test_the_bytes_that_a_row_was_made_of_are_no_record() -> None:
    raw = StructType().add("key", "binary").add("value", "binary")
    check_columns({"invoice": INVOICE, "raw": raw}, None, None)
    with pytest.raises(ConfigError, match="needs a column 'value'"):
        check_columns({"raw": raw}, "invoices", None)
