"""Rows of which most cannot be written, and a look from outside: each is written once, or is once a dead letter."""

from collections import Counter
from typing import Any

from confluent_kafka import Message
from pyspark.sql import DataFrame

from tests.spark.checker import read_committed, read_records, wait_until_settled
from tests.spark.numbers_job import Plan

#: The `max.message.bytes` of the topics.
LIMIT = 40_000
#: Of each ten rows these are bad, by the last digit of their number.
REASONS = {1: "too-large", 2: "no-topic", 3: "unknown-topic", 4: "unknown-partition", 5: "unknown-partition"}
REASONS |= {6: "null-header", 7: "query"}


def bad_rows(rows: DataFrame, left: str) -> DataFrame:
    """Records of numbers, with a column `value` that is a number as text. Seven in ten cannot be written."""
    digit = "CAST(value AS STRING) % 10"
    return rows.selectExpr(
        f"CASE {digit} WHEN 2 THEN NULL WHEN 3 THEN concat('no topic ', value) ELSE '{left}' END AS topic",
        "concat('key-', CAST(value AS STRING)) AS key",
        f"IF({digit} = 1, concat(CAST(value AS STRING), repeat('x', {2 * LIMIT})), CAST(value AS STRING)) AS value",
        f"CASE {digit} WHEN 4 THEN 99 WHEN 5 THEN -1 END AS partition",
        f"""array(struct('own' AS key, CAST('h' AS BINARY) AS value),
                  struct(IF({digit} = 6, NULL, 'second') AS key, CAST('h' AS BINARY) AS value)) AS headers""",
        f"IF({digit} = 7, concat('seven: ', CAST(value AS STRING)), NULL) AS error",
        "struct(topic, partition, offset) AS source" if "offset" in rows.columns else "NULL AS source",
    )


def reason_of(number: int) -> str | None:
    return REASONS.get(number % 10)


def headers_of(record: Message) -> dict[str, str | None]:
    found: Any = record.headers() or ()
    return {name: None if value is None else value.decode() for name, value in found}


def dead_topic(plan: Plan) -> str:
    return str(plan.options["deadLetters"])


def check(plan: Plan, count: int, *, has_source: bool = True) -> list[Message]:
    """Each number is written once, or once a dead letter that says why."""
    bootstrap, dead = plan.bootstrap, dead_topic(plan)
    wait_until_settled(bootstrap, plan.left, dead)
    written = Counter(map(int, read_committed(bootstrap, plan.left)))
    assert written == Counter(number for number in range(count) if reason_of(number) is None)
    letters = list(read_records(bootstrap, dead))
    found = {}
    for letter in letters:
        key, value, said = letter.key() or b"", letter.value() or b"", headers_of(letter)
        number = int(key.decode().removeprefix("key-"))
        assert number not in found, f"{number} is a dead letter twice"
        found[number] = said["fencepost.error.reason"]
        assert said["own"] == "h"
        assert said["fencepost.error"]
        assert said.get("fencepost.topic") == ({2: None, 3: f"no topic {number}"}.get(number % 10, plan.left))
        assert value.startswith(str(number).encode())
        if number % 10 == 1:
            assert said["fencepost.value.size"] == str(2 * LIMIT + len(str(number)))
            assert LIMIT / 3 < len(value) < LIMIT
        else:
            assert value.decode() == str(number)
        if has_source:
            assert said["fencepost.source.topic"] == plan.source
            assert {"fencepost.source.partition", "fencepost.source.offset"} <= said.keys()
    assert found == {number: reason for number in range(count) if (reason := reason_of(number)) is not None}
    return letters
