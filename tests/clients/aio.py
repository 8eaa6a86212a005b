"""aiokafka behind the facade: its coroutines run on an event loop in a thread of their own."""

import asyncio
import contextlib
import re
import threading
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiokafka
import aiokafka.errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from fencepost.errors import ErrorCode
from tests.clients.facade import (
    Client,
    Consumer,
    ConsumerOptions,
    Message,
    Producer,
    ProducerOptions,
    Refused,
    Sent,
    Spot,
)
from tests.clients.kafka_python import consumer_settings, message_of

TIMEOUT_S = 20.0
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


Answer = TypeVar("Answer")


class LoopThread:
    """An event loop beside the test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, awaitable: Awaitable[Answer], timeout_s: float = TIMEOUT_S) -> Answer:
        """Wait for it here while it runs there; its errors get Kafka's names."""

        async def bounded() -> Answer:
            return await asyncio.wait_for(awaitable, timeout_s)

        try:
            return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result()
        except aiokafka.errors.KafkaError as error:
            raise Refused(name_of(error), str(error)) from error

    def call(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """A plain function, run where the clients live."""

        async def there() -> Any:
            return function(*arguments, **options)

        return self.run(there())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()


def name_of(error: BaseException) -> str:
    if isinstance(error, aiokafka.errors.ProducerFenced):
        return "PRODUCER_FENCED"
    number = getattr(error, "errno", None)
    return ErrorCode(number).name if isinstance(number, int) else type(error).__name__


class AioProducer(Producer):
    def __init__(self, loop: LoopThread, **config: Any) -> None:
        self._loop = loop
        self.native = loop.call(aiokafka.AIOKafkaProducer, **config)
        try:
            loop.run(self.native.start())
        except Refused:
            self.close()
            raise

    def deliver(self, *messages: Message) -> list[Sent]:
        async def send() -> list[Any]:
            futures = [
                await self.native.send(
                    message.topic,
                    message.value,
                    message.key,
                    partition=message.partition,
                    timestamp_ms=message.timestamp,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            found = await asyncio.gather(*futures, return_exceptions=True)
            for each in found:
                if isinstance(each, BaseException):
                    raise each
            return found

        # acks=0 has no metadata to give.
        return [
            Sent(-1, -1, None) if each is None else Sent(each.partition, each.offset, each.timestamp)
            for each in self._loop.run(send())
        ]

    def begin(self) -> None:
        self._loop.run(self.native.begin_transaction())

    def commit(self) -> None:
        self._loop.run(self.native.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self.native.abort_transaction())

    def send_offsets(self, offsets: Mapping[Spot, int], membership: Any) -> None:
        self._loop.run(self.native.send_offsets_to_transaction(positions(offsets), membership))

    def close(self) -> None:
        with contextlib.suppress(Refused, TimeoutError):
            self._loop.run(self.native.stop())


class AioConsumer(Consumer):
    def __init__(self, loop: LoopThread, group: str | None, *topics: str, pattern: str | None, **config: Any) -> None:
        self._loop = loop
        self.group = group
        self.native = loop.call(aiokafka.AIOKafkaConsumer, *topics, group_id=group, **config)
        if pattern is not None:
            loop.call(self.native.subscribe, pattern=pattern)
        loop.run(self.native.start())

    def poll(self, timeout_s: float = 0.05) -> list[Message]:
        found = self._loop.run(self.native.getmany(timeout_ms=int(timeout_s * 1000)))
        return [message_of(each) for batch in found.values() for each in batch]

    def assign(self, spots: Iterable[Spot]) -> None:
        self._loop.call(self.native.assign, [aiokafka.TopicPartition(*spot) for spot in spots])

    def assignment(self) -> set[Spot]:
        return {Spot(*found) for found in self.native.assignment()}

    def seek(self, spot: Spot, offset: int) -> None:
        self._loop.call(self.native.seek, aiokafka.TopicPartition(*spot), offset)

    def position(self, spot: Spot) -> int:
        return self._loop.run(self.native.position(aiokafka.TopicPartition(*spot)))

    def commit(self, offsets: Mapping[Spot, int] | None = None) -> None:
        self._loop.run(self.native.commit(None if offsets is None else positions(offsets)))

    def committed(self, spot: Spot) -> int | None:
        return self._loop.run(self.native.committed(aiokafka.TopicPartition(*spot)))

    def membership(self) -> Any:
        return self.group

    def offsets_for_times(self, times: Mapping[Spot, int]) -> dict[Spot, int | None]:
        asked = {aiokafka.TopicPartition(*spot): at for spot, at in times.items()}
        found = self._loop.run(self.native.offsets_for_times(asked))
        return {Spot(*spot): None if each is None else each.offset for spot, each in found.items()}

    def bounds(self, spot: Spot) -> tuple[int, int]:
        partition = aiokafka.TopicPartition(*spot)
        first = self._loop.run(self.native.beginning_offsets([partition]))[partition]
        return first, self._loop.run(self.native.end_offsets([partition]))[partition]

    def close(self) -> None:
        self._loop.run(self.native.stop())


@dataclass
class Aio(Client):
    _loop: LoopThread = field(default_factory=LoopThread)

    name = "aiokafka"
    writes_empty_records = False
    invalid_record = "UNKNOWN_SERVER_ERROR"  # a code that it does not know
    fences_by_generation = False
    replaced = ("CommitFailedError",)  # its commits do not carry the instance id
    assignors = ("range", "roundrobin", "sticky")

    def _open_producer(self, options: ProducerOptions) -> Producer:
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
        return AioProducer(
            self._loop,
            bootstrap_servers=self.bootstrap,
            compression_type=None if compression == "none" else compression,
            max_request_size=options.max_bytes,
            metadata_max_age_ms=options.metadata_max_age_ms,
            retry_backoff_ms=10,
            request_timeout_ms=options.patience_ms,
            **chosen,
        )

    def _open_consumer(self, options: ConsumerOptions) -> Consumer:
        return AioConsumer(
            self._loop,
            options.group,
            *options.topics,
            pattern=options.pattern and re.compile(options.pattern).pattern,
            retry_backoff_ms=10,
            **consumer_settings(self.bootstrap, options, ASSIGNORS),
        )

    def close(self) -> None:
        super().close()
        self._loop.close()


def positions(offsets: Mapping[Spot, int]) -> dict[Any, Any]:
    return {aiokafka.TopicPartition(*spot): at for spot, at in offsets.items()}
