"""Keys and values that the source decodes: `valueFormat`, `keyFormat`, schemas, and what becomes of bad records."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tests.spark.source.support import fill, load

Topic = Callable[..., str]
PURCHASES = "id BIGINT, name STRING, items ARRAY<STRUCT<sku: STRING, price: DOUBLE>>"
GOOD = '{"id": 7, "name": "Ada", "items": [{"sku": "a", "price": 1.5}, {"price": null}], "more": true}'
BAD = '{"id": 7, "name": "A'


def typed(spark: SparkSession, bootstrap: str, name: str, schema: str | None = None, **given: object) -> DataFrame:
    reader = spark.read if schema is None else spark.read.schema(schema)
    return load(reader, bootstrap, subscribe=name, **{"valueFormat": "json", **given})


def in_order(frame: DataFrame) -> list[Row]:
    return frame.orderBy("offset").collect()


def refusal(spark: SparkSession, bootstrap: str, schema: str | None = None, **given: object) -> str:
    with pytest.raises(PySparkException) as caught:
        typed(spark, bootstrap, "t", schema, **given).collect()
    return str(caught.value)


def test_a_json_value_is_a_struct_of_the_schema(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [GOOD, '{"name": 5}', None])
    frame = typed(spark, bootstrap, name, valueSchema=PURCHASES)
    kind = "struct<id:bigint,name:string,items:array<struct<sku:string,price:double>>>"
    assert dict(frame.dtypes)["value"] == kind
    first, second, third = [row.value for row in in_order(frame)]
    assert first == Row(id=7, name="Ada", items=[Row(sku="a", price=1.5), Row(sku=None, price=None)])
    assert second == Row(id=None, name="5", items=None)
    assert third is None
    assert [row.id for row in frame.select("value.id").orderBy("id").collect()] == [None, None, 7]


def test_a_schema_may_be_that_of_one_type_or_sparks_json(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, ["[1, 2]"])
    assert typed(spark, bootstrap, name, valueSchema="ARRAY<INT>").first().value == [1, 2]
    as_json = '{"type":"array","elementType":"long","containsNull":true}'
    assert typed(spark, bootstrap, name, valueSchema=as_json).first().value == [1, 2]


def test_sparks_own_schema_gives_exactly_the_columns_that_it_names(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [GOOD])
    flat = typed(spark, bootstrap, name, "name STRING, offset BIGINT, id BIGINT")
    assert flat.dtypes == [("name", "string"), ("offset", "bigint"), ("id", "bigint")]
    assert flat.collect() == [Row(name="Ada", offset=0, id=7)]
    nested = typed(spark, bootstrap, name, "topic STRING, value STRUCT<id: BIGINT>")
    assert nested.collect() == [Row(topic=name, value=Row(id=7))]
    plain = typed(spark, bootstrap, name, "value BINARY, partition INT", valueFormat="binary")
    assert [(bytes(row.value).decode(), row.partition) for row in plain.collect()] == [(GOOD, 0)]


def test_only_the_columns_of_the_option_are_made(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [GOOD], key="k")
    some = typed(spark, bootstrap, name, valueSchema="id BIGINT", columns="offset, value")
    assert some.dtypes == [("offset", "bigint"), ("value", "struct<id:bigint>")]
    assert some.collect() == [Row(offset=0, value=Row(id=7))]
    plain = typed(spark, bootstrap, name, valueFormat="binary", columns="key")
    assert [bytes(row.key) for row in plain.collect()] == [b"k"]


@pytest.mark.parametrize(
    ("columns", "schema", "said"),
    [
        ("value, raw", None, "no column 'raw' here, but key, value, topic"),
        ("value,value", None, "names 'value' twice"),
        (" , ", None, "names no column"),
        ("value", "id BIGINT", "given twice"),
    ],
)
def test_columns_that_cannot_be_had_are_refused(
    spark: SparkSession, bootstrap: str, columns: str, schema: str | None, said: str
):
    more = {} if schema else {"valueSchema": "id BIGINT"}
    with pytest.raises(PySparkException, match=said):
        typed(spark, bootstrap, "t", schema, columns=columns, **more).collect()


def test_numbers_and_text_are_read_as_kafkas_serializers_write_them(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [struct.pack(">q", -5), None], key=struct.pack(">i", 3))
    frame = typed(spark, bootstrap, name, keyFormat="integer", valueFormat="long")
    assert [(kind, dict(frame.dtypes)[kind]) for kind in ("key", "value")] == [("key", "int"), ("value", "bigint")]
    assert [(row.key, row.value) for row in in_order(frame)] == [(3, -5), (3, None)]
    text = typed(spark, bootstrap, name, keyFormat="binary", valueFormat="string", mode="PERMISSIVE")
    assert "not UTF-8" in in_order(text)[0]["_corrupt_record"].reason


def test_a_bad_record_stops_the_query_and_is_named(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [GOOD, BAD, BAD], key="k-17")
    with pytest.raises(PySparkException) as caught:
        typed(spark, bootstrap, name, valueSchema=PURCHASES).collect()
    message = str(caught.value)
    assert f"the record at {name}-0 offset 1 cannot be decoded: value: " in message
    assert "Its key is 'k-17'" in message
    assert "1 more near it" in message
    assert "mode=PERMISSIVE" in message


def test_a_permissive_source_keeps_the_bytes_and_the_reason(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [GOOD, BAD, '{"id": 1.5}', '{"id": 2}'], key="k")
    frame = typed(spark, bootstrap, name, valueSchema=PURCHASES, mode="PERMISSIVE")
    assert frame.dtypes[-1] == ("_corrupt_record", "struct<key:binary,value:binary,reason:string>")
    rows = in_order(frame)
    assert [row["_corrupt_record"] is None for row in rows] == [True, False, False, True]
    assert [row.value is None for row in rows] == [False, True, True, False]
    broken = rows[1]["_corrupt_record"]
    assert (bytes(broken.key), bytes(broken.value)) == (b"k", BAD.encode())
    assert "id" in rows[2]["_corrupt_record"].reason
    named = typed(spark, bootstrap, name, valueSchema="id INT", mode="permissive", columnNameOfCorruptRecord="bad")
    assert [row.offset for row in named.where("bad IS NOT NULL").orderBy("offset").collect()] == [1, 2]


def test_the_bytes_of_a_record_are_there_on_request(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [GOOD], key="k")
    (row,) = typed(spark, bootstrap, name, valueSchema="id INT", includeRaw="true").collect()
    assert (row.value.id, bytes(row.raw.key), bytes(row.raw.value)) == (7, b"k", GOOD.encode())


def test_times_without_a_zone_are_in_the_zone_of_the_option(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, ['{"at": ["2024-07-01T12:00:00", "2024-07-01T12:00:00Z"]}'])
    schema = "at ARRAY<TIMESTAMP>"
    for zone, hours in (("UTC", 0), ("Europe/Warsaw", -2)):
        frame = typed(spark, bootstrap, name, valueSchema=schema, timeZone=zone)
        (row,) = frame.selectExpr("unix_seconds(value.at[0]) - unix_seconds(value.at[1]) AS apart").collect()
        assert row.apart == hours * 3600


def test_a_stream_is_typed_like_a_batch(spark: SparkSession, bootstrap: str, topic: Topic, tmp_path: Any):
    name = topic(2)
    fill(bootstrap, name, [f'{{"id": {index}}}' for index in range(50)])
    reader = spark.readStream.schema("id BIGINT, offset BIGINT")
    frame = load(reader, bootstrap, subscribe=name, valueFormat="json", startingOffsets="earliest")
    query = (
        frame.groupBy()
        .sum("id")
        .writeStream.format("memory")
        .queryName("typed")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("typed").collect() == [(sum(range(50)),)]


@pytest.mark.parametrize(
    ("schema", "given", "text"),
    [
        (None, {}, "needs to know the fields: set option 'valueSchema'"),
        (None, {"valueFormat": "xml"}, "there is no format 'xml'"),
        (None, {"valueFormat": "nowhere.at_all:THING"}, "cannot be loaded"),
        (None, {"valueFormat": "long", "valueSchema": "a INT"}, "with 'long' it is BIGINT"),
        (None, {"valueSchema": "a INT NOT NULL"}, "drop NOT NULL"),
        (None, {"valueSchema": "a INT", "mode": "DROPMALFORMED"}, "would lose records"),
        (None, {"valueSchema": "a INT", "mode": "odd"}, "must be one of failfast, permissive"),
        (None, {"valueSchema": "a MAP<INT, INT>"}, "map"),
        (None, {"valueSchema": "a INT", "timeZone": "Mars/Base"}, "there is no time zone 'Mars/Base'"),
        ("value STRUCT<a: INT>, b INT", {}, "the source has no column 'b'"),
        ("value BINARY, b INT", {"valueFormat": "binary"}, "need a format that has some"),
        ("a INT, offset INT", {}, "column 'offset' is BIGINT here, not INT"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession, bootstrap: str, schema: str | None, given: dict[str, str], text: str
):
    assert text in refusal(spark, bootstrap, schema, **given)
