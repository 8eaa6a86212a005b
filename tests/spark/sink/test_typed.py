"""Typed keys and values, several records of a row, and what the source could not read: read back from outside."""

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from fencepost.errors import BatchFailed, ConfigError
from fencepost.spark import progress, write
from fencepost.spark.sink.column_types import ANY_SIZE, BATCH_BYTES
from tests import logins
from tests.conftest import MakeTopic
from tests.spark import numbers_job
from tests.spark.checker import read_committed, read_records
from tests.spark.scene import MakeScene
from tests.spark.sink.inprocess import InProcess

ZONE = "America/New_York"
TYPED = """named_struct('id', id, 'price', id / 100, 'name', concat('é"', id), 'none', CAST(NULL AS INT),
    'at', timestamp_seconds(1600000000 + id), 'day', DATE'2024-02-29', 'amount', CAST(id AS DECIMAL(10, 2)),
    'inner', named_struct('b', CAST('x' AS BINARY), 'yes', id % 2 = 0))"""
#: Has lists, which are null in two rows of three.
WITH_LISTS = """named_struct('id', id, 'list', IF(id % 3 = 0, array(id, NULL), NULL),
    'map', IF(id % 3 = 0, map('k', id), NULL))"""

Save = Callable[[DataFrame, str, Mapping[str, str]], None]


@pytest.fixture
def save_in(bootstrap: str) -> dict[str, Save]:
    """The two ways to write a batch query."""

    def by_function(df: DataFrame, topic: str, options: Mapping[str, str]) -> None:
        write(df, bootstrap_servers=bootstrap, topic=topic, options={**logins.sink(bootstrap), **options})

    def by_api(df: DataFrame, topic: str, options: Mapping[str, str]) -> None:
        given = {**logins.spark(bootstrap), "topic": topic, **options}
        df.write.format("fencepost").options(**given).mode("append").save()

    return {"write": by_function, "api": by_api}


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def values(bootstrap: str, topic: str) -> Counter[str]:
    return Counter(read_committed(bootstrap, topic))


def headers_of(record: Message) -> dict[str, str]:
    found: Any = record.headers() or ()
    return {name: value.decode() for name, value in found}


def by_to_json(df: DataFrame) -> Counter[str]:
    return Counter(str(row.json) for row in df.selectExpr("to_json(value) AS json").collect())


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize("way", ["write", "api"])
@pytest.mark.parametrize("value", [TYPED, WITH_LISTS, f"array({TYPED})", f"map('k', {TYPED})"])
def test_a_value_with_a_structure_is_what_to_json_writes(
    spark: SparkSession, topic: MakeTopic, bootstrap: str, save_in: dict[str, Save], value: str, way: str
) -> None:
    df, name = spark.range(50).selectExpr("CAST(id AS STRING) AS key", f"{value} AS value"), topic(2)
    save_in[way](df, name, {})
    assert values(bootstrap, name) == by_to_json(df)


def test_lists_are_the_same_whether_spark_or_python_writes_them(
    spark: SparkSession, topic: MakeTopic, bootstrap: str, save_in: dict[str, Save]
) -> None:
    df, name = spark.range(50).selectExpr(f"{WITH_LISTS} AS value"), topic()
    before = str(spark.conf.get(BATCH_BYTES, "64m"))
    spark.conf.set(BATCH_BYTES, ANY_SIZE)
    try:
        save_in["write"](df, name, {})
    finally:
        spark.conf.set(BATCH_BYTES, before)
    assert values(bootstrap, name) == by_to_json(df)


@pytest.mark.parametrize("way", ["write", "api"])
def test_keys_have_formats_and_nulls_are_tombstones(
    spark: SparkSession, topic: MakeTopic, bootstrap: str, save_in: dict[str, Save], way: str
) -> None:
    name = topic(3)
    df = spark.range(30).selectExpr("id AS key", "IF(id % 2 = 0, named_struct('id', id), NULL) AS value")
    save_in[way](df, name, {"keyFormat": "long"})
    found = {struct.unpack(">q", record.key())[0]: record.value() for record in read_records(bootstrap, name)}
    assert found == {n: b'{"id":%d}' % n if n % 2 == 0 else None for n in range(30)}


@pytest.mark.parametrize("way", ["write", "api"])
def test_what_cannot_be_written_is_refused_before_anything_runs(
    spark: SparkSession, topic: MakeTopic, save_in: dict[str, Save], way: str
) -> None:
    name = topic()
    refused: list[tuple[str, dict[str, str], str]] = [
        ("id AS value", {}, "column 'value' must be .*not bigint. Give the sink the option valueFormat=long"),
        ("named_struct('x', INTERVAL 1 DAY) AS value", {}, "column 'value': JSON .*x is duration"),
        ("'a' AS value", {"valueFormat": "json"}, "column 'value': JSON is written of a STRUCT"),
        ("'a' AS value", {"valueFormat": "jsonn"}, "option 'valueFormat': there is no format 'jsonn'"),
        ("named_struct('v', 1) AS invoice", {}, "needs a column 'value'"),
        ("named_struct('value', 'v', 'Key', 'k') AS invoice", {}, "column 'invoice' has a field 'Key'"),
        ("'v' AS value, 'no' AS error", {}, "the option deadLetters"),
    ]
    for columns, options, said in refused:
        with pytest.raises((ConfigError, AnalysisException), match=said):
            save_in[way](
                spark.range(1).selectExpr(*columns.split(", ") if "named" not in columns else [columns]), name, options
            )


def test_a_value_that_its_format_cannot_write_fails_or_is_a_dead_letter(
    spark: SparkSession, topic: MakeTopic, bootstrap: str, save_in: dict[str, Save]
) -> None:
    name, dead = topic(), topic()
    df = spark.range(4).selectExpr("IF(id = 2, 'no id', uuid()) AS key", "named_struct('id', id) AS value")
    with pytest.raises(
        BatchFailed, match=r"its key cannot be written as uuid: 5 bytes.*key 'no id' and value '{\"id\":2}'"
    ):
        save_in["write"](df, name, {"keyFormat": "uuid"})
    save_in["write"](df, name, {"keyFormat": "uuid", "deadLetters": dead})
    assert len(values(bootstrap, name)) == 3
    (letter,) = read_records(bootstrap, dead)
    assert (letter.key(), letter.value()) == (b"no id", b'{"id":2}')
    assert headers_of(letter)["fencepost.error.reason"] == "format"


def two_records(df: DataFrame, first: str, second: str) -> DataFrame:
    """Of a number: one record, another if it is even; every tenth has an error, and some could not be read."""
    return df.selectExpr(
        f"named_struct('topic', '{first}', 'key', CAST(id AS STRING), 'value', named_struct('n', id)) AS invoice",
        f"""IF(id % 2 = 0, named_struct('topic', '{second}', 'value', named_struct('s', concat('s', id)),
            'headers', array(named_struct('key', 'h', 'value', CAST('x' AS BINARY)))), NULL) AS shipment""",
        "IF(id % 10 = 0, concat('ten: ', id), NULL) AS error",
        """IF(id % 10 = 3, named_struct('key', CAST('raw key' AS BINARY), 'value', CAST(concat('raw ', id) AS BINARY),
            'reason', 'no JSON'), NULL) AS _corrupt_record""",
    )


def check_two_records(bootstrap: str, count: int, first: str, second: str, dead: str) -> None:
    good = [n for n in range(count) if n % 10 not in (0, 3)]
    assert values(bootstrap, first) == Counter(f'{{"n":{n}}}' for n in good)
    shipments = read_records(bootstrap, second)
    assert Counter(record.value() for record in shipments) == Counter(b'{"s":"s%d"}' % n for n in good if n % 2 == 0)
    assert all(headers_of(record) == {"h": "x"} and record.key() is None for record in shipments)
    letters = {
        (headers_of(each)["fencepost.error.reason"], each.key(), each.value()) for each in read_records(bootstrap, dead)
    }
    expected = {("query", b"%d" % n, b'{"n":%d}' % n) for n in range(0, count, 10)}
    expected |= {("corrupt", b"raw key", b"raw %d" % n) for n in range(3, count, 10)}
    assert letters == expected


@pytest.mark.parametrize("way", ["write", "api"])
def test_each_record_column_of_a_row_is_a_record_unless_it_is_null(
    spark: SparkSession, topic: MakeTopic, bootstrap: str, way: str
) -> None:
    first, second, dead = topic(2), topic(2), topic()
    df = two_records(spark.range(100), first, second)
    if way == "write":
        options = {**logins.sink(bootstrap), "deadLetters": dead}
        summary = write(df, bootstrap_servers=bootstrap, options=options)
        assert summary.records == {first: 80, second: 40}
        assert summary.dead_letters == {"query": 10, "corrupt": 10}
    else:
        given = {**logins.spark(bootstrap), "deadLetters": dead}
        df.write.format("fencepost").options(**given).mode("append").save()
    check_two_records(bootstrap, 100, first, second, dead)


def test_records_of_a_row_that_go_to_one_topic_are_in_the_order_of_rows_and_columns(
    spark: SparkSession, topic: MakeTopic, bootstrap: str, save_in: dict[str, Save]
) -> None:
    name = topic()
    df = spark.range(0, 200, 1, 1).selectExpr(
        "named_struct('value', concat('a', id)) AS first",
        "IF(id % 3 = 0, NULL, named_struct('value', concat('b', id))) AS second",
    )
    save_in["write"](df, name, {})
    meant = [text for n in range(200) for text in (f"a{n}", *([f"b{n}"] if n % 3 else []))]
    assert [*read_committed(bootstrap, name)] == meant


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize("options", [{}, {"smallBatchRecords": "0"}], ids=["by the driver", "by tasks"])
def test_a_stream_writes_typed_records_and_counts_rows(
    here: InProcess, make_scene: MakeScene, topic: MakeTopic, options: Mapping[str, str]
) -> None:
    dead = topic()
    scene = make_scene(30, options={"deadLetters": dead, **options})
    plan = replace(scene.plan, batch_records=10)
    numbers = numbers_job.read(here.spark, plan).selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id", "offset")
    query = here.run(plan, two_records(numbers, plan.left, plan.right))
    check_two_records(plan.bootstrap, 30, plan.left, plan.right, dead)
    done = progress(query)
    assert sum(sum(each.records.values()) for each in done.recent) == 24 + 12
    assert sum(sum(each.dead_letters.values()) for each in done.recent) == 6


@pytest.mark.usefixtures("new_york")
def test_a_small_batch_has_the_times_of_the_session(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(30)
    plan = replace(scene.plan, batch_records=10)
    numbers = numbers_job.read(here.spark, plan).selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id")
    here.run(plan, numbers.selectExpr(f"'{plan.left}' AS topic", "named_struct('at', timestamp_seconds(id)) AS value"))
    assert values(plan.bootstrap, plan.left) == Counter(
        f'{{"at":"1969-12-31T19:00:{n:02}.000-05:00"}}' for n in range(30)
    )


def test_several_writes_of_a_batch_may_have_values_of_several_types(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(30)
    plan = replace(scene.plan, batch_records=10)
    writer = here.writer(plan)

    def each(df: DataFrame, batch_id: int) -> None:
        rows = df.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id", "key")
        with writer.batch(df, batch_id) as batch:
            batch.write(rows.selectExpr("key", "named_struct('n', id) AS value"), topic=plan.left)
            batch.write(rows.selectExpr(f"'{plan.right}' AS topic", "array(id) AS value"))
            batch.write(rows.selectExpr("'text' AS key", "concat('text ', id) AS value"), topic=plan.right)
            batch.write(rows.selectExpr("named_struct('value', named_struct('m', id)) AS record"), topic=plan.left)

    here.run(plan, numbers_job.read(here.spark, plan), pipeline=writer, function=each)
    left = Counter(json.dumps({name: n}, separators=(",", ":")) for n in range(30) for name in "nm")
    assert values(plan.bootstrap, plan.left) == left
    assert values(plan.bootstrap, plan.right) == Counter(text for n in range(30) for text in (f"[{n}]", f"text {n}"))


def test_the_standard_streaming_writer_writes_typed_records(
    spark: SparkSession, make_scene: MakeScene, topic: MakeTopic
) -> None:
    dead = topic()
    scene = make_scene(30)
    plan = scene.plan
    numbers = numbers_job.read(spark, plan).selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id")
    given = {**logins.spark(plan.bootstrap), "pipeline": plan.pipeline, "deadLetters": dead}
    query = (
        two_records(numbers, plan.left, plan.right)
        .writeStream.format("fencepost")
        .options(**given)
        .option("checkpointLocation", plan.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    check_two_records(plan.bootstrap, 30, plan.left, plan.right, dead)
