"""librdkafka's clients: their settings, and what their errors allow."""

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from fencepost.lab.chaos.clients.base import Client, again
from fencepost.lab.chaos.plan import SESSION_TIMEOUT_MS
from fencepost.security.spellings import respelled

CALL_TIMEOUT_S = 3.0


def settings(client: Client) -> dict[str, Any]:
    return {
        **respelled(client.spec.kafka, "confluent"),
        "client.id": client.spec.name,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 300,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 300,
        "socket.timeout.ms": 2500,
        "topic.metadata.refresh.interval.ms": 5000,
        "log_level": 0,
    }


#: After a re-bootstrap librdkafka 2.16 waits for ever for a coordinator that it has forgotten.
KEEPS_COORDINATOR = {"metadata.recovery.strategy": "none"}


def transactional_producer(client: Client, transactional_id: str) -> Producer:
    producer = Producer(
        {
            **settings(client),
            **KEEPS_COORDINATOR,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": client.spec.transaction_timeout_ms,
            "linger.ms": 1,
        }
    )
    again(client, lambda: producer.init_transactions(CALL_TIMEOUT_S), is_retriable)
    return producer


def group_consumer(client: Client, group: str, isolation: str) -> Consumer:
    return Consumer(
        {
            **settings(client),
            **KEEPS_COORDINATOR,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 500,
            "max.poll.interval.ms": 60_000,
        }
    )


def lone_consumer(client: Client, isolation: str, **more: object) -> Consumer:
    """A consumer without a group. librdkafka wants a group's name all the same."""
    return Consumer(
        {
            **settings(client),
            "group.id": client.spec.prefix + client.spec.name,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            **more,
        }
    )


def record_of(message: Any) -> tuple[tuple[str, int], int, str]:
    """Partition, offset and value of a message without an error."""
    return (message.topic(), message.partition()), message.offset(), message.value().decode()


def is_retriable(error: Exception) -> bool:
    return isinstance(error, KafkaException) and bool(error.args[0].retriable())


def is_fatal(error: KafkaException) -> bool:
    return bool(error.args[0].fatal())


def requires_abort(error: KafkaException) -> bool:
    return bool(error.args[0].txn_requires_abort())
