"""Columns are checked before anything runs."""

import pytest

from fencepost.errors import ConfigError
from fencepost.spark.sink.columns import HEADERS, POSITION, check_columns

RECORD = {"topic": "string", "value": "binary"}


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
        ({"topic": "string", "value": "int"}, "column 'value' must be string or binary, not int"),
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
