"""Used by tests of the source and of the sink: filling, deleting and reading topics, and options."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from fencepost.spark.options import Options
from fencepost.spark.source.read_options import ReadKind, SourceOptions, parse_options
from tests import logins
from tests.conftest import topic_maker, unique, wait_until

TIMEOUT_S = 20


def fill(
    bootstrap: str,
    topic: str,
    values: Sequence[str | bytes | None],
    partition: int = 0,
    *,
    key: str | bytes | None = None,
    timestamp_ms: int | None = None,
    **settings: Any,
) -> None:
    """Append records. Their keys are their values unless one is given for all."""
    producer = Producer({**logins.confluent(bootstrap), "linger.ms": 5, **settings})
    for value in values:
        more = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        producer.produce(topic, value=value, key=value if key is None else key, partition=partition, **more)
    assert producer.flush(TIMEOUT_S) == 0


def begin(bootstrap: str, topic: str, values: Sequence[str], partition: int = 0) -> Producer:
    """A producer with an open transaction that holds these records."""
    producer = Producer({**logins.confluent(bootstrap), "transactional.id": unique("txn"), "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value, key=value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    return producer


def commit(bootstrap: str, topic: str, values: Sequence[str], partition: int = 0) -> None:
    begin(bootstrap, topic, values, partition).commit_transaction(TIMEOUT_S)


def abort(bootstrap: str, topic: str, values: Sequence[str], partition: int = 0) -> None:
    begin(bootstrap, topic, values, partition).abort_transaction(TIMEOUT_S)


def commit_offsets(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({**logins.confluent(bootstrap), "group.id": group})
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:  # Apache Kafka makes its offsets topic when it is first needed
            if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return False
        return True

    wait_until(is_committed, "the group has a coordinator")
    consumer.close()


def delete_records(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    place = TopicPartition(topic, partition, before)
    admin = AdminClient(logins.confluent(bootstrap))
    admin.delete_records([place])[place].result(TIMEOUT_S)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient(logins.confluent(bootstrap))
    admin.delete_topics([topic], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    wait_until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, f"{topic} is gone")


def create_again(bootstrap: str, topic: str, partitions: int = 1) -> None:
    delete_topic(bootstrap, topic)
    topic_maker(AdminClient(logins.confluent(bootstrap)))(partitions, name=topic)


def load(reader: DataFrameReader | DataStreamReader, bootstrap: str, **given: object) -> DataFrame:
    """`load(spark.readStream, bootstrap, subscribe="purchases")`."""
    named = {**logins.spark(bootstrap), **{name: str(value) for name, value in given.items()}}
    return reader.format("fencepost").options(**named).load()


@contextlib.contextmanager
def configured(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """A session with another setting until the block ends."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def options(bootstrap: str, kind: ReadKind = ReadKind.STREAM, **given: object) -> SourceOptions:
    texts = {name: str(value) for name, value in given.items()}
    return parse_options(Options({**logins.spark(bootstrap), **texts}), kind)
