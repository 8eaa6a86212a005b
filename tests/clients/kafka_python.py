"""kafka-python behind the facade."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import kafka
import kafka.errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from fencepost.errors import ErrorCode
from tests.clients import facade
from tests.clients.facade import Message, Native, Refused, Sent, Spot

TIMEOUT_S = 20.0
QUICK = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "metrics_enabled": False}
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    try:
        yield
    except kafka.errors.KafkaError as error:
        raise Refused(name_of(error), str(error)) from error


def name_of(error: BaseException) -> str:
    number = getattr(error, "errno", None)
    if number is None and (told := re.search(r"\[Error (\d+)\]", str(error))):
        number = int(told[1])
    return type(error).__name__ if number is None else ErrorCode(number).name


def positions(offsets: Mapping[Spot, int]) -> dict[Any, Any]:
    return {kafka.TopicPartition(*spot): kafka.OffsetAndMetadata(at, "", -1) for spot, at in offsets.items()}


class Producer(facade.Producer):
    positions = staticmethod(positions)

    def __init__(self, **config: Any) -> None:
        super().__init__(Native(kafka.KafkaProducer(**config), named_errors()))
        if config.get("transactional_id"):
            try:
                self.native.init_transactions()
            except Refused:
                self.close()
                raise

    def deliver(self, *messages: Message) -> list[Sent]:
        with named_errors():
            found = [sent.get(timeout=TIMEOUT_S) for sent in [self.native.send(**fields_of(each)) for each in messages]]
        return [Sent(each.partition, each.offset, each.timestamp) for each in found]

    def close(self) -> None:
        with contextlib.suppress(Refused):
            self.native.close(timeout=2)


class Consumer(facade.Consumer):
    """aiokafka's consumer has nearly the same methods: its adapter inherits these."""

    partition: Any = kafka.TopicPartition
    positions = staticmethod(positions)

    def poll(self, timeout_s: float = facade.POLL_S) -> list[Message]:
        coordinator = self.native._coordinator
        if coordinator.rejoining:
            # A poll that ends during a join may forget the join, which is then never finished.
            coordinator.request_rejoin()
        return messages_of(self.native.poll(int(timeout_s * 1000)))

    def assign(self, spots: Iterable[Spot]) -> None:
        self.native.assign([self.partition(*spot) for spot in spots])

    def assignment(self) -> set[Spot]:
        return {Spot(*found) for found in self.native.assignment()}

    def seek(self, spot: Spot, offset: int) -> None:
        self.native.seek(self.partition(*spot), offset)

    def position(self, spot: Spot) -> int:
        return self.native.position(self.partition(*spot)) or 0

    def commit(self, offsets: Mapping[Spot, int] | None = None) -> None:
        self.native.commit(None if offsets is None else self.positions(offsets))

    def committed(self, spot: Spot) -> int | None:
        return self.native.committed(self.partition(*spot))

    def membership(self) -> Any:
        return self.native.group_metadata()

    def offsets_for_times(self, times: Mapping[Spot, int]) -> dict[Spot, int | None]:
        found = self.native.offsets_for_times({self.partition(*spot): at for spot, at in times.items()})
        return {Spot(*spot): None if each is None else each.offset for spot, each in found.items()}

    def bounds(self, spot: Spot) -> tuple[int, int]:
        partition = self.partition(*spot)
        first = self.native.beginning_offsets([partition])[partition]
        return first, self.native.end_offsets([partition])[partition]


class KafkaPython(facade.Client):
    name = "kafka-python"
    no_such_topic = ("KafkaTimeoutError", "UNKNOWN_TOPIC_OR_PARTITION")
    writes_null_headers = False
    writes_empty_records = False
    assignors = ("range", "roundrobin", "cooperative-sticky")

    def _open_producer(self, options: facade.ProducerOptions) -> Producer:
        compression = options.compression
        idempotence = {"transactional_id": options.transactional_id} if options.transactional_id else {}
        return Producer(
            compression_type=None if compression == "none" else compression,
            acks=options.acks if options.acks == "all" else int(options.acks),
            enable_idempotence=options.idempotent or bool(idempotence),
            transaction_timeout_ms=options.transaction_timeout_ms,
            max_request_size=options.max_bytes,
            metadata_max_age_ms=options.metadata_max_age_ms,
            max_block_ms=options.patience_ms,
            **idempotence,
            **self.address,
            **QUICK,
        )

    def _open_consumer(self, options: facade.ConsumerOptions) -> Consumer:
        native = kafka.KafkaConsumer(**consumer_settings(self.address, options, ASSIGNORS), **QUICK)
        if options.pattern is not None:
            native.subscribe(pattern=options.pattern)
        elif options.topics:
            native.subscribe(options.topics)
            # Else it may join before it knows the partitions, assign none of them, and join again.
            native.topics()
        return Consumer(Native(native, named_errors()), options.group)


def consumer_settings(
    address: Mapping[str, Any], options: facade.ConsumerOptions, assignors: Mapping[str, Any]
) -> dict[str, Any]:
    """As kafka-python and aiokafka name them."""
    return {
        **address,
        "group_id": options.group,
        "isolation_level": options.isolation,
        "auto_offset_reset": options.reset,
        "enable_auto_commit": options.auto_commit,
        "auto_commit_interval_ms": 100,
        "partition_assignment_strategy": (assignors[options.assignor],),
        "group_instance_id": options.instance_id,
        "session_timeout_ms": options.session_timeout_ms,
        "heartbeat_interval_ms": options.heartbeat_ms,
        "metadata_max_age_ms": options.metadata_max_age_ms,
        "fetch_max_wait_ms": 100,
        "max_partition_fetch_bytes": 4 << 20,
    }


def fields_of(message: Message) -> dict[str, Any]:
    """A message as the `send` of both takes it."""
    return {
        "topic": message.topic,
        "value": message.value,
        "key": message.key,
        "headers": list(message.headers),
        "partition": message.partition,
        "timestamp_ms": message.timestamp,
    }


def messages_of(polled: Mapping[Any, list[Any]]) -> list[Message]:
    """What both give to a poll: records by partition."""
    return [
        Message(
            topic=found.topic,
            value=found.value,
            key=found.key,
            headers=tuple(found.headers),
            partition=found.partition,
            timestamp=found.timestamp,
            timestamp_type=found.timestamp_type,
            offset=found.offset,
        )
        for batch in polled.values()
        for found in batch
    ]
