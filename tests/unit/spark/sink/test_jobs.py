"""Columns are checked before anything runs."""

import pytest

from fencepost.errors import BatchFailed, ConfigError, Fenced, GaveUp, TopicNotFound, WriteFailed
from fencepost.spark.sink.jobs import _as_error, check_columns, known_error


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
    )
    check_columns({"value": "binary", "key": "void", "Key": "int", "TOPIC": "string"}, "all of them")


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
        check_columns(kinds, None)


def test_a_writers_error_keeps_its_class() -> None:
    assert isinstance(_as_error("Fenced", "told so"), Fenced)
    assert isinstance(_as_error("WriteFailed", "told so"), WriteFailed)
    assert isinstance(_as_error("BootstrapFailed", "told so"), WriteFailed)
    assert "told so" in str(_as_error("NoSuchClass", "told so"))


def test_an_error_of_a_task_is_found_in_sparks_account_of_it() -> None:
    account = "Job aborted ...\n  File ...\nfencepost.errors.TopicNotFound: there is no topic 'x'\n\n\tat org.apache..."
    found = known_error(Exception(account))
    assert isinstance(found, TopicNotFound)
    assert str(found) == "there is no topic 'x'"
    assert isinstance(known_error(Exception("fencepost.errors.WriteFailed: no")), BatchFailed)
    assert isinstance(
        known_error(Exception("x\nfencepost.errors.Refused: INVALID_TOPIC_EXCEPTION: 'a/b'\n")), BatchFailed
    )
    assert isinstance(known_error(Exception("fencepost.errors.GaveUp: 60 s")), GaveUp)
    assert known_error(Exception("java.lang.OutOfMemoryError")) is None
