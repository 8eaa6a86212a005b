"""Clients of other days: the same libraries, told to speak as they did to brokers of long ago."""

from collections.abc import Callable
from typing import Any

import confluent_kafka as ck
import kafka
import pytest

from tests.clients.confluent import QUICK, named_errors
from tests.clients.facade import Client
from tests.clients.kafka_python import KafkaPython
from tests.conftest import WAIT_TIMEOUT_S, MakeTopic, unique, wait_until

CLIENT = KafkaPython


class TestKafkaPython:
    """kafka-python sends the versions that a broker of that release knew."""

    @pytest.mark.parametrize("release", [(0, 11), (1, 0), (1, 1), (2, 0), (2, 3), (2, 6), (3, 0), (3, 5)], ids=str)
    def test_a_client_for_an_old_release_produces_consumes_and_commits(
        self, topic: MakeTopic, release: tuple[int, int], client: Client
    ) -> None:
        name, group = topic(partitions=2), unique("group")
        common: dict[str, Any] = {**client.address, "api_version": release}
        producer = kafka.KafkaProducer(
            transactional_id=unique("tx"), compression_type="gzip", retry_backoff_ms=10, **common
        )
        consumer = kafka.KafkaConsumer(
            name, group_id=group, auto_offset_reset="earliest", isolation_level="read_committed", **common
        )
        try:
            producer.init_transactions()
            for value, commit in ((b"dropped", False), (b"kept", True)):
                producer.begin_transaction()
                sent = [producer.send(name, value, partition=n, headers=[("h", b"1")]) for n in range(2)]
                for each in sent:
                    each.get(timeout=WAIT_TIMEOUT_S)
                if commit:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
            found: list[Any] = []

            def is_read() -> bool:
                for batch in consumer.poll(1000).values():
                    found.extend(batch)
                return len(found) >= 2

            wait_until(is_read, "both are read")
            assert [each.value for each in found] == [b"kept", b"kept"]
            consumer.commit()
            assert consumer.committed(kafka.TopicPartition(name, 0)) > 1
        finally:
            producer.close(timeout=2)
            consumer.close()


class TestLibrdkafka:
    """librdkafka can be told not to ask for versions at all."""

    @pytest.mark.parametrize("release", ["0.11.0.0", "1.0.0", "2.0.0"])
    def test_a_client_that_never_asks_for_versions_produces_and_consumes(
        self, client_config: Callable[[str], dict[str, Any]], topic: MakeTopic, release: str
    ) -> None:
        name = topic()
        common = {
            **client_config("confluent"),
            "api.version.request": False,
            "broker.version.fallback": release,
            **QUICK,
        }
        producer = ck.Producer({**common, "compression.type": "gzip"})
        errors: list[Any] = []
        producer.produce(name, b"value", b"key", on_delivery=lambda error, _: error and errors.append(error))
        producer.flush(WAIT_TIMEOUT_S)
        assert errors == []
        consumer = ck.Consumer({**common, "group.id": unique("group"), "auto.offset.reset": "earliest"})
        consumer.subscribe([name])
        with named_errors():
            message = wait_until(lambda: consumer.poll(0.5), "it is read")
            assert message.error() is None
            assert (message.key(), message.value()) == (b"key", b"value")
            consumer.commit(message, asynchronous=False)
        consumer.close()
