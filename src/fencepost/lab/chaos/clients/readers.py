"""Readers of all partitions, with librdkafka and with kafka-python. They note what they get, in order.

A new incarnation begins near the end, so that a long run does not read everything once per kill.
"""

import time
from abc import abstractmethod
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fencepost.lab.chaos.clients.base import Client
from fencepost.lab.chaos.clients.rdkafka import CALL_TIMEOUT_S, lone_consumer, record_of
from fencepost.lab.chaos.history import Function, Status
from fencepost.lab.chaos.plan import ClientSpec
from fencepost.security.spellings import respelled

RECORDS_MAX = 200
BACK_MAX = 1000
POLL_S = 0.3

Records = dict[tuple[str, int], list[tuple[int, str]]]


def everything(spec: ClientSpec) -> list[tuple[str, int]]:
    topics = {**spec.topics, spec.target: spec.target_partitions}
    return [(topic, partition) for topic, count in topics.items() for partition in range(count)]


class Reader(Client):
    """What both libraries have in common."""

    def run(self) -> None:
        session = 0
        while not self.stopping:
            session += 1
            self.read(session)

    @abstractmethod
    def read(self, session: int) -> None:
        """Read from some positions on, until told to stop or until the library must be started again."""

    def start(self, session: int, ends: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Choose where to begin, and note it."""
        positions = {where: max(0, end - self.rng.randint(0, BACK_MAX)) for where, end in ends.items()}
        listed = [[*where, offset] for where, offset in positions.items()]
        isolation = self.spec.claims or self.spec.isolation
        self.history.log(Function.SESSION, Status.OK, number=session, isolation=isolation, positions=listed)
        return positions

    def note(self, session: int, records: Records) -> None:
        if records:
            listed = [[*where, of_one] for where, of_one in records.items()]
            self.history.log(Function.POLL, Status.OK, session=session, records=listed)


class RdkafkaReader(Reader):
    def read(self, session: int) -> None:
        consumer = lone_consumer(self, self.spec.isolation)
        try:
            positions = self.start(session, self._ends(consumer))
            consumer.assign([TopicPartition(*where, offset) for where, offset in positions.items()])
            lost_its_place = False
            while not self.stopping and not lost_its_place:
                records: Records = {}
                for message in consumer.consume(RECORDS_MAX, POLL_S):
                    error = message.error()
                    if error is None:
                        where, offset, value = record_of(message)
                        records.setdefault(where, []).append((offset, value))
                    elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                        self.surprise(error)
                        lost_its_place = True
                self.note(session, records)
        finally:
            consumer.close()

    def _ends(self, consumer: Consumer) -> dict[tuple[str, int], int]:
        ends: dict[tuple[str, int], int] = {}
        for where in everything(self.spec):
            while where not in ends and not self.stopping:
                try:
                    _, high = consumer.get_watermark_offsets(TopicPartition(*where), timeout=CALL_TIMEOUT_S)
                    ends[where] = high
                except KafkaException:
                    time.sleep(0.05)
        return ends


class PythonReader(Reader):
    """kafka-python, another implementation of the protocol."""

    def read(self, session: int) -> None:
        import kafka
        from kafka.errors import KafkaError as PythonKafkaError
        from kafka.errors import OffsetOutOfRangeError

        try:
            consumer = kafka_python_consumer(self.spec, self.spec.isolation)
        except (PythonKafkaError, OSError):
            time.sleep(0.2)
            return
        try:
            partitions = [kafka.TopicPartition(*where) for where in everything(self.spec)]
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            positions = self.start(session, {(where.topic, where.partition): end for where, end in ends.items()})
            for (topic, partition), offset in positions.items():
                consumer.seek(kafka.TopicPartition(topic, partition), offset)
            while not self.stopping:
                found = consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
                self.note(session, python_records(found))
        except OffsetOutOfRangeError as error:
            self.surprise(error)
        except (PythonKafkaError, OSError):
            time.sleep(0.2)
        finally:
            consumer.close()


def kafka_python_consumer(spec: ClientSpec, isolation: str) -> Any:
    import kafka

    return kafka.KafkaConsumer(
        **respelled(spec.kafka, "kafka-python"),
        client_id=spec.name,
        group_id=None,
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="none",
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=300,
        retry_backoff_ms=20,
        request_timeout_ms=3000,
        fetch_max_wait_ms=100,
        metadata_max_age_ms=5000,
        metrics_enabled=False,
    )


def python_records(found: Any) -> Records:
    return {
        (where.topic, where.partition): [(record.offset, record.value.decode()) for record in records]
        for where, records in found.items()
    }
