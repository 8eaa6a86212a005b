"""What readers see, with confluent-kafka, a client that is not ours.

Owns what "seen" means: everything from the beginning of each partition to the LSO or the high watermark, depending on
the isolation.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fencepost.errors import FencepostError
from fencepost.security.spellings import respelled
from fencepost.wire.terms import Isolation

READ_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 20.0

silent = logging.getLogger("fencepost.lab.scenarios.librdkafka")
silent.addHandler(logging.NullHandler())
silent.propagate = False


class NotReadable(FencepostError):
    """A reader did not reach the end in time."""


class Seen(NamedTuple):
    partition: int
    offset: int
    value: bytes


def read_all(kafka: Mapping[str, str], topic: str, isolation: Isolation) -> list[Seen]:
    """Everything that a reader with this isolation sees now, by partition and offset."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            **respelled(kafka, "confluent"),
            "group.id": "fencepost-scenarios",  # required, but nothing is joined or committed
            "isolation.level": isolation.name.lower(),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        },
        logger=silent,
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        found: list[Seen] = []
        unread = set(partitions)
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while unread:
            if time.monotonic() > deadline_s:
                raise NotReadable(f"{topic}: not readable to its end within {READ_TIMEOUT_S:.0f} s")
            message: Any
            for message in consumer.consume(500, timeout=0.1):
                error = message.error()
                if error is None:
                    found.append(Seen(message.partition(), message.offset(), message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
    finally:
        consumer.close()
    return sorted(found)


def write_all(kafka: Mapping[str, str], topic: str, values: Iterable[tuple[bytes, bytes]]) -> None:
    """Keys and values into a topic, once, with an idempotent producer."""
    from confluent_kafka import Producer

    producer = Producer(
        {**respelled(kafka, "confluent"), "enable.idempotence": True, "log_level": 0, "linger.ms": 5}, logger=silent
    )
    for key, value in values:
        producer.produce(topic, value, key)
    if producer.flush(READ_TIMEOUT_S):
        raise NotReadable(f"{topic}: not written within {READ_TIMEOUT_S:.0f} s")
