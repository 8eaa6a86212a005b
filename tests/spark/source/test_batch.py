"""`spark.read.format("fencepost")` on a real Spark and a real broker."""

import datetime
import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tests import logins
from tests.conftest import wait_until
from tests.spark.source.support import TIMEOUT_S, abort, begin, commit, configured, fill, load

Topic = Callable[..., str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def read(spark: SparkSession, bootstrap: str, **given: object) -> DataFrame:
    return load(spark.read, bootstrap, **given)


def values_of(frame: DataFrame) -> list[str]:
    return [
        row.value.decode()
        for row in frame.select("value", "partition", "offset").orderBy("partition", "offset").collect()
    ]


def test_spark_finds_the_source_by_itself_with_the_schema_of_its_own(spark: SparkSession, bootstrap: str):
    assert read(spark, bootstrap, subscribe="t").dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    with_headers = read(spark, bootstrap, subscribe="t", includeHeaders="true")
    assert with_headers.dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")


def test_every_column_holds_what_was_produced(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(2)
    producer = Producer(logins.confluent(bootstrap))
    producer.produce(
        name, value=b"v", key=b"k", partition=1, timestamp=1_700_000_000_123, headers=[("a", b"1"), ("a", None)]
    )
    producer.produce(name, value=None, key=None, partition=1, timestamp=1_700_000_000_124)
    assert producer.flush(TIMEOUT_S) == 0
    first, second = read(spark, bootstrap, subscribe=name, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset) == (name, 1, 0)
    assert first.timestamp.astimezone(datetime.UTC).isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert first.timestampType == 0
    assert [(header.key, header.value) for header in first.headers] == [("a", b"1"), ("a", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_a_session_whose_timestamps_have_no_time_zone_reads_the_same(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, ["x"], timestamp_ms=1_700_000_000_123)
    with configured(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"):
        found = read(spark, bootstrap, subscribe=name).selectExpr("unix_millis(timestamp) AS ms").collect()
    assert [row.ms for row in found] == [1_700_000_000_123]


def test_all_compressions_and_only_committed_records_are_read(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(len(CODECS))
    for partition, codec in enumerate(CODECS):
        fill(bootstrap, name, [f"{codec}-{index}" for index in range(300)], partition, **{"compression.type": codec})
    commit(bootstrap, name, ["committed"])
    abort(bootstrap, name, ["aborted"])
    producer = begin(bootstrap, name, ["open"])
    expected = [f"{codec}-{index}" for codec in CODECS for index in range(300)]
    expected.insert(300, "committed")
    frame = read(spark, bootstrap, subscribe=name)
    wait_until(lambda: values_of(read(spark, bootstrap, subscribe=name)) == expected, "the transactions have ended")
    assert frame.rdd.getNumPartitions() == 1, "a small batch is one task"
    everything = values_of(read(spark, bootstrap, subscribe=name, **{"kafka.isolation.level": "read_uncommitted"}))
    assert set(everything) - set(expected) == {"aborted", "open"}
    producer.abort_transaction(TIMEOUT_S)


def test_a_large_read_is_a_task_for_each_partition_or_more_on_request(
    spark: SparkSession, bootstrap: str, topic: Topic
):
    name = topic(2)
    fill(bootstrap, name, [str(index) for index in range(3000)], 0, **{"batch.num.messages": 100})
    fill(bootstrap, name, [str(index) for index in range(1000)], 1, **{"batch.num.messages": 100})
    assert read(spark, bootstrap, subscribe=name).rdd.getNumPartitions() == 2
    split = read(spark, bootstrap, subscribe=name, minPartitions=8)
    assert split.rdd.getNumPartitions() == 8
    assert values_of(split) == [str(index) for index in range(3000)] + [str(index) for index in range(1000)]


def test_a_range_between_offsets_or_times_is_read(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    for time_ms in range(1000, 11_000, 1000):
        fill(bootstrap, name, [str(time_ms)], timestamp_ms=time_ms)
    ends = {"startingOffsets": json.dumps({name: {"0": 2}}), "endingOffsets": json.dumps({name: {"0": 5}})}
    assert values_of(read(spark, bootstrap, subscribe=name, **ends)) == ["3000", "4000", "5000"]
    times = {"startingTimestamp": 8500, "endingTimestamp": 9500}
    assert values_of(read(spark, bootstrap, subscribe=name, **times)) == ["9000"]


def test_an_empty_topic_is_an_empty_frame(spark: SparkSession, bootstrap: str, topic: Topic):
    assert read(spark, bootstrap, subscribe=topic(3)).count() == 0


def test_a_schema_of_the_users_cannot_change_what_a_value_is(spark: SparkSession, bootstrap: str, topic: Topic):
    with pytest.raises(Exception, match=r"column .value. is BINARY here, not STRING"):
        load(spark.read.schema("value STRING"), bootstrap, subscribe=topic(1)).count()
