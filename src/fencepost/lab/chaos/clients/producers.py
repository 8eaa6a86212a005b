"""librdkafka as a producer: in transactions of the first protocol, and idempotent without them."""

import functools
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from fencepost.lab.chaos.clients.base import Client, StartAgain, again
from fencepost.lab.chaos.clients.rdkafka import (
    CALL_TIMEOUT_S,
    is_fatal,
    is_retriable,
    requires_abort,
    settings,
    transactional_producer,
)
from fencepost.lab.chaos.history import Function, Status

ABORT_SHARE = 0.2
#: How often, and how long, a transaction is left open.
LINGER_SHARE, LINGER_MAX_S = 0.1, 1.0
SENDS_IN_FLIGHT_MAX = 200

Writes = list[tuple[str, int, str]]


def acknowledging(acked: dict[str, int], value: str) -> Callable[[Any, Any], None]:
    """A delivery report that notes the record's offset."""

    def told(error: Any, message: Any) -> None:
        if error is None and message.offset() >= 0:
            acked[value] = message.offset()

    return told


class RdkafkaTransaction:
    """One transaction of a client, with all lines of its history."""

    def __init__(self, client: Client, producer: Producer, number: int) -> None:
        self._client = client
        self._producer = producer
        self._number = number
        self.acked: dict[str, int] = {}

    def run(self, writes: Writes, *, aborts: bool, before_the_end: Callable[[], None], **data: Any) -> bool:
        """Whether it was committed. Raises StartAgain if the producer cannot go on."""
        log, plan = self._client.history.log, "abort" if aborts else "commit"
        log(Function.TXN, Status.INVOKE, number=self._number, writes=writes, plan=plan, **data)
        try:
            self._producer.begin_transaction()
            for topic, partition, value in writes:
                told = acknowledging(self.acked, value)
                self._producer.produce(topic, value, partition=partition, on_delivery=told)
            before_the_end()
            if not aborts:
                log(Function.END, Status.INVOKE, number=self._number, how="commit")
                again(self._client, lambda: self._producer.commit_transaction(CALL_TIMEOUT_S), is_retriable)
                self._producer.poll(0)
                log(Function.TXN, Status.OK, number=self._number, acked=self.acked)
                return True
            why = "as planned"
        except KafkaException as error:
            why = str(error)
            if is_fatal(error) or not requires_abort(error):
                self._unknown(why)
        except StartAgain as error:
            self._unknown(str(error))
        self._abort(why)
        return False

    def _abort(self, why: str) -> None:
        log = self._client.history.log
        log(Function.END, Status.INVOKE, number=self._number, how="abort", why=why)
        try:
            again(self._client, lambda: self._producer.abort_transaction(CALL_TIMEOUT_S), is_retriable)
        except (KafkaException, StartAgain) as error:
            self._unknown(str(error))
        self._producer.poll(0)
        log(Function.TXN, Status.FAIL, number=self._number, acked=self.acked, error=why)

    def _unknown(self, why: str) -> None:
        self._client.history.log(Function.TXN, Status.INFO, number=self._number, acked=self.acked, error=why)
        raise StartAgain(why)


class TransactionalProducer(Client):
    def run(self) -> None:
        producer = transactional_producer(self, self.spec.prefix + self.spec.name)
        for number in self.numbers():
            aborts = self.rng.random() < ABORT_SHARE
            transaction = RdkafkaTransaction(self, producer, number)
            linger = functools.partial(self._linger, producer)
            transaction.run(self.choose_writes(number), aborts=aborts, before_the_end=linger)

    def _linger(self, producer: Producer) -> None:
        if self.rng.random() < LINGER_SHARE:
            producer.flush(self.rng.uniform(0, LINGER_MAX_S))
            self.rest(LINGER_MAX_S / 3)


class IdempotentSender(Client):
    """Single records, each acknowledged on its own, between those of the transactions."""

    _fatal: str | None = None

    def run(self) -> None:
        producer = Producer(
            {
                **settings(self),
                "enable.idempotence": True,
                "linger.ms": 1,
                # A record that is given up may have been written, and later ones would overtake it.
                "message.timeout.ms": 600_000,
                "error_cb": self._on_error,
            }
        )
        for number in self.numbers():
            if self._fatal is not None:
                break
            self._send(producer, number)
            producer.poll(0)
            while len(producer) > SENDS_IN_FLIGHT_MAX and not self.stopping and self._fatal is None:
                producer.poll(0.1)
        producer.flush(10)
        if self._fatal is not None:
            raise StartAgain(self._fatal)

    def _send(self, producer: Producer, number: int) -> None:
        writes = self.choose_writes(number)
        acked: dict[str, int] = {}
        left = len(writes)
        self.history.log(Function.SENDS, Status.INVOKE, number=number, writes=writes)

        def told(value: str) -> Callable[[Any, Any], None]:
            note = acknowledging(acked, value)

            def tell(error: Any, message: Any) -> None:
                nonlocal left
                note(error, message)
                left -= 1
                if left == 0:
                    self.history.log(Function.SENDS, Status.OK, number=number, acked=acked)

            return tell

        for topic, partition, value in writes:
            producer.produce(topic, value, partition=partition, on_delivery=told(value))

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._fatal = str(error)
            time.sleep(0.1)
