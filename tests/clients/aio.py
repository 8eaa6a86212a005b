"""aiokafka behind the facade: its coroutines run on an event loop in a thread of their own."""

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiokafka
import aiokafka.errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.clients import facade, kafka_python
from tests.clients.facade import Message, Native, Refused, Sent, Spot

TIMEOUT_S = 20.0
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class LoopThread:
    """An event loop beside the test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a function or coroutine function there and wait for it here. Its errors get Kafka's names."""

        async def there() -> Any:
            found = function(*arguments, **options)
            return await found if inspect.isawaitable(found) else found

        try:
            return asyncio.run_coroutine_threadsafe(asyncio.wait_for(there(), TIMEOUT_S), self._loop).result()
        except aiokafka.errors.ProducerFenced as error:
            raise Refused("PRODUCER_FENCED", str(error)) from error
        except aiokafka.errors.KafkaError as error:
            raise Refused(kafka_python.name_of(error), str(error)) from error

    def native(self, kind: Callable[..., Any], *arguments: Any, **config: Any) -> Native:
        """A producer or consumer that lives on the loop."""
        return Native(self.call(kind, *arguments, **config), lambda method: partial(self.call, method))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()


def positions(offsets: Mapping[Spot, int]) -> dict[Any, Any]:
    return {aiokafka.TopicPartition(*spot): at for spot, at in offsets.items()}


class Producer(facade.Producer):
    positions = staticmethod(positions)

    def __init__(self, loop: LoopThread, **config: Any) -> None:
        super().__init__(loop.native(aiokafka.AIOKafkaProducer, **config))
        self._loop = loop
        try:
            self.native.start()
        except Refused:
            self.close()
            raise

    def deliver(self, *messages: Message) -> list[Sent]:
        found = self._loop.call(self._send, messages)
        # acks=0 has no metadata to give.
        return [
            Sent(-1, -1, None) if each is None else Sent(each.partition, each.offset, each.timestamp) for each in found
        ]

    async def _send(self, messages: tuple[Message, ...]) -> list[Any]:
        sending = self.native.unwrapped.send
        futures = [await sending(**kafka_python.fields_of(message)) for message in messages]
        found = await asyncio.gather(*futures, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return found

    def close(self) -> None:
        with contextlib.suppress(Refused, TimeoutError):
            self.native.stop()


class Consumer(kafka_python.Consumer):
    partition = aiokafka.TopicPartition
    positions = staticmethod(positions)

    def poll(self, timeout_s: float = facade.POLL_S) -> list[Message]:
        return kafka_python.messages_of(self.native.getmany(timeout_ms=int(timeout_s * 1000)))

    def membership(self) -> Any:
        return self.group

    def close(self) -> None:
        self.native.stop()


@dataclass
class Aio(facade.Client):
    _loop: LoopThread = field(default_factory=LoopThread)

    name = "aiokafka"
    writes_empty_records = False
    invalid_record = "UNKNOWN_SERVER_ERROR"  # a code that it does not know
    fences_by_generation = False
    replaced = ("CommitFailedError",)  # its commits do not carry the instance id
    assignors = ("range", "roundrobin", "sticky")

    def _open_producer(self, options: facade.ProducerOptions) -> Producer:
        compression = options.compression
        # Its way of saying "default" for acks and idempotence is to leave them out.
        chosen: dict[str, Any] = {}
        if options.transactional_id is not None:
            chosen["transactional_id"] = options.transactional_id
            chosen["transaction_timeout_ms"] = options.transaction_timeout_ms
        elif options.idempotent:
            chosen["enable_idempotence"] = True
        else:
            chosen["acks"] = options.acks if options.acks == "all" else int(options.acks)
        return Producer(
            self._loop,
            compression_type=None if compression == "none" else compression,
            max_request_size=options.max_bytes,
            metadata_max_age_ms=options.metadata_max_age_ms,
            retry_backoff_ms=10,
            request_timeout_ms=options.patience_ms,
            **self.address,
            **chosen,
        )

    def _open_consumer(self, options: facade.ConsumerOptions) -> Consumer:
        settings = kafka_python.consumer_settings(self.address, options, ASSIGNORS)
        native = self._loop.native(aiokafka.AIOKafkaConsumer, *options.topics, retry_backoff_ms=10, **settings)
        if options.pattern is not None:
            native.subscribe(pattern=options.pattern)
        native.start()
        return Consumer(native, options.group)

    def close(self) -> None:
        super().close()
        self._loop.close()
