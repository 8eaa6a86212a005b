"""A program to be killed: consumes a purchase, sends an invoice and a shipment, commits the offset.

Runs as a separate process (`python -m fencepost.lab.scenarios.loop`) with confluent-kafka, in two modes. With
idempotence alone the offset is committed after the sends. With transactions all three are one. It ends when it has
processed all purchases that were there at its start. Exit status FENCED: a successor has taken over.
"""

import enum
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from fencepost.client.retry import BUSY, COORDINATOR_MOVED
from fencepost.lab.kit.programs import read_plan, say, wait_here
from fencepost.lab.scenarios.readers import silent
from fencepost.security.spellings import respelled
from fencepost.shop.expected import expected_invoice, expected_shipment, parse_purchase

FENCED = 3
TIMEOUT_S = 30.0
ATTEMPT_TIMEOUT_S = 5.0
PAUSE_S = 0.1


class Mode(enum.StrEnum):
    IDEMPOTENT = "idempotence alone"
    TRANSACTIONAL = "transactions"


class Point(enum.StrEnum):
    """Where it can be made to stop."""

    POLLED = "polled"  #: a purchase is in hand, nothing is sent
    SENT = "sent"  #: invoice and shipment are in Kafka, the offset is not
    OFFSETS_SENT = "offsets sent"  #: with transactions: the offset is in the transaction, which is open
    COMMITTED = "committed"  #: all of it, and the program has not moved on


@dataclass(frozen=True, slots=True)
class Plan:
    kafka: dict[str, str]  #: the settings of a client, by Kafka's names
    purchases: str
    invoices: str
    shipments: str
    group: str
    mode: str = Mode.TRANSACTIONAL
    transactional_id: str = "shop"
    timeout_ms: int = 60_000
    stop_at: str = ""  #: a Point
    stop_after: int = 0  #: this many purchases pass the point before it stops there


class Loop:
    def __init__(self, plan: Plan) -> None:
        from confluent_kafka import Consumer, Producer

        self._plan = plan
        self._passed = 0
        common = {
            **respelled(plan.kafka, "confluent"),
            "reconnect.backoff.max.ms": 500,
            "retry.backoff.ms": 50,
            # After a re-bootstrap librdkafka 2.16 waits for ever for a group coordinator that it has forgotten.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        reading = {
            "group.id": plan.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
        self._consumer = Consumer({**common, **reading}, logger=silent)
        writing: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 0}
        if plan.mode == Mode.TRANSACTIONAL:
            writing |= {"transactional.id": plan.transactional_id, "transaction.timeout.ms": plan.timeout_ms}
        self._producer = Producer({**common, **writing}, logger=silent)

    def run(self) -> int:
        """Returns the number of purchases that it handled."""
        if self._plan.mode == Mode.TRANSACTIONAL:
            self._producer.init_transactions(TIMEOUT_S)  # first: this ends what a predecessor left open
        left = self._assign()
        say("began", left=left)
        handled = 0
        while handled < left:
            message: Any = self._consumer.poll(0.5)
            if message is None or message.error() is not None:
                continue
            self._handle(message)
            handled += 1
        return handled

    def _assign(self) -> int:
        """Take all partitions from the committed offsets on. Returns the number of purchases that are left."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        topic = self._plan.purchases
        partitions = sorted(self._consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
        committed = self._committed([TopicPartition(topic, p) for p in partitions])
        left = 0
        starts = []
        for entry in committed:
            _, end = self._consumer.get_watermark_offsets(entry, timeout=TIMEOUT_S, cached=False)
            left += end - max(entry.offset, 0)
            starts.append(
                TopicPartition(topic, entry.partition, entry.offset if entry.offset >= 0 else OFFSET_BEGINNING)
            )
        self._consumer.assign(starts)
        return left

    def _committed(self, partitions: list[Any]) -> list[Any]:
        """Waits for a group coordinator that is just starting."""
        from confluent_kafka import KafkaException

        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return list(self._consumer.committed(partitions, timeout=TIMEOUT_S))
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_MOVED | BUSY or time.monotonic() > deadline_s:
                    raise
                time.sleep(PAUSE_S)

    def _handle(self, message: Any) -> None:
        from confluent_kafka import TopicPartition

        purchase = parse_purchase(message.value())
        if purchase is None:
            return
        self._reach(Point.POLLED, purchase.purchase_id)
        is_transactional = self._plan.mode == Mode.TRANSACTIONAL
        if is_transactional:
            self._producer.begin_transaction()
        key = str(purchase.purchase_id).encode()
        self._producer.produce(self._plan.invoices, json.dumps(expected_invoice(purchase)).encode(), key)
        self._producer.produce(self._plan.shipments, json.dumps(expected_shipment(purchase)).encode(), key)
        self._producer.flush(TIMEOUT_S)
        self._reach(Point.SENT, purchase.purchase_id)
        following = [TopicPartition(message.topic(), message.partition(), message.offset() + 1)]
        if is_transactional:
            member = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(following, member, TIMEOUT_S)
            self._reach(Point.OFFSETS_SENT, purchase.purchase_id)
            self._commit()
        else:
            self._consumer.commit(offsets=following, asynchronous=False)
        self._reach(Point.COMMITTED, purchase.purchase_id)

    def _commit(self) -> None:
        """A commit that timed out may have happened. So it is repeated, never aborted."""
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.commit_transaction(ATTEMPT_TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def _reach(self, point: Point, purchase_id: int) -> None:
        if point != self._plan.stop_at:
            return
        self._passed += 1
        if self._passed == self._plan.stop_after + 1:
            wait_here(point, purchase=purchase_id)


def main() -> int:
    from confluent_kafka import KafkaException

    loop = Loop(Plan(**read_plan()))
    try:
        say("done", handled=loop.run())
    except KafkaException as error:
        reason = error.args[0]
        say("refused", error=reason.name(), text=reason.str(), fatal=reason.fatal())
        return FENCED
    return 0


if __name__ == "__main__":
    sys.exit(main())
