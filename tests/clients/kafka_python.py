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


class KafkaPythonProducer(Producer):
    def __init__(self, **config: Any) -> None:
        self.native = kafka.KafkaProducer(**config)
        if config.get("transactional_id"):
            try:
                with named_errors():
                    self.native.init_transactions()
            except Refused:
                self.close()
                raise

    def deliver(self, *messages: Message) -> list[Sent]:
        with named_errors():
            futures = [
                self.native.send(
                    message.topic,
                    message.value,
                    message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            found = [future.get(timeout=TIMEOUT_S) for future in futures]
        return [Sent(each.partition, each.offset, each.timestamp) for each in found]

    def begin(self) -> None:
        with named_errors():
            self.native.begin_transaction()

    def commit(self) -> None:
        with named_errors():
            self.native.commit_transaction()

    def abort(self) -> None:
        with named_errors():
            self.native.abort_transaction()

    def send_offsets(self, offsets: Mapping[Spot, int], membership: Any) -> None:
        with named_errors():
            self.native.send_offsets_to_transaction(positions(offsets), membership)

    def close(self) -> None:
        with contextlib.suppress(kafka.errors.KafkaError):
            self.native.close(timeout=2)


class KafkaPythonConsumer(Consumer):
    def __init__(self, group: str | None, *topics: str, pattern: str | None, **config: Any) -> None:
        self.group = group
        self.native = kafka.KafkaConsumer(group_id=group, **config)
        if pattern is not None:
            self.native.subscribe(pattern=pattern)
        elif topics:
            self.native.subscribe(topics)
            # Else it may join before it knows the partitions, assign none of them, and join again.
            self.native.topics()

    def poll(self, timeout_s: float = 0.05) -> list[Message]:
        coordinator = self.native._coordinator
        if coordinator.rejoining:
            # A poll that ends amid a join may forget that it was joining, and the join is never finished.
            coordinator.request_rejoin()
        with named_errors():
            found = self.native.poll(int(timeout_s * 1000))
        return [message_of(each) for batch in found.values() for each in batch]

    def assign(self, spots: Iterable[Spot]) -> None:
        self.native.assign([kafka.TopicPartition(*spot) for spot in spots])

    def assignment(self) -> set[Spot]:
        return {Spot(*found) for found in self.native.assignment()}

    def seek(self, spot: Spot, offset: int) -> None:
        self.native.seek(kafka.TopicPartition(*spot), offset)

    def position(self, spot: Spot) -> int:
        with named_errors():
            return self.native.position(kafka.TopicPartition(*spot)) or 0

    def commit(self, offsets: Mapping[Spot, int] | None = None) -> None:
        with named_errors():
            self.native.commit(None if offsets is None else positions(offsets), timeout_ms=TIMEOUT_S * 1000)

    def committed(self, spot: Spot) -> int | None:
        with named_errors():
            return self.native.committed(kafka.TopicPartition(*spot), timeout_ms=TIMEOUT_S * 1000)

    def membership(self) -> Any:
        return self.native.group_metadata()

    def offsets_for_times(self, times: Mapping[Spot, int]) -> dict[Spot, int | None]:
        with named_errors():
            found = self.native.offsets_for_times({kafka.TopicPartition(*spot): at for spot, at in times.items()})
        return {Spot(*spot): None if each is None else each.offset for spot, each in found.items()}

    def bounds(self, spot: Spot) -> tuple[int, int]:
        partition = kafka.TopicPartition(*spot)
        with named_errors():
            first = self.native.beginning_offsets([partition])[partition]
            return first, self.native.end_offsets([partition])[partition]

    def close(self) -> None:
        self.native.close()


class KafkaPython(Client):
    name = "kafka-python"
    no_such_topic = ("KafkaTimeoutError", "UNKNOWN_TOPIC_OR_PARTITION")
    writes_null_headers = False
    writes_empty_records = False
    assignors = ("range", "roundrobin", "cooperative-sticky")

    def _open_producer(self, options: ProducerOptions) -> Producer:
        compression = options.compression
        idempotence = {"transactional_id": options.transactional_id} if options.transactional_id else {}
        return KafkaPythonProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if compression == "none" else compression,
            acks=options.acks if options.acks == "all" else int(options.acks),
            enable_idempotence=options.idempotent or bool(idempotence),
            transaction_timeout_ms=options.transaction_timeout_ms,
            max_request_size=options.max_bytes,
            metadata_max_age_ms=options.metadata_max_age_ms,
            max_block_ms=options.patience_ms,
            **idempotence,
            **QUICK,
        )

    def _open_consumer(self, options: ConsumerOptions) -> Consumer:
        return KafkaPythonConsumer(
            options.group,
            *options.topics,
            pattern=options.pattern,
            **consumer_settings(self.bootstrap, options, ASSIGNORS),
            **QUICK,
        )


def positions(offsets: Mapping[Spot, int]) -> dict[Any, Any]:
    return {kafka.TopicPartition(*spot): kafka.OffsetAndMetadata(at, "", -1) for spot, at in offsets.items()}


def consumer_settings(bootstrap: str, options: ConsumerOptions, assignors: Mapping[str, Any]) -> dict[str, Any]:
    """As kafka-python and aiokafka name them."""
    return {
        "bootstrap_servers": bootstrap,
        "isolation_level": options.isolation,
        "auto_offset_reset": options.reset,
        "enable_auto_commit": options.auto_commit,
        "auto_commit_interval_ms": 100,
        "partition_assignment_strategy": (assignors[options.assignor],),
        "group_instance_id": options.instance_id,
        "session_timeout_ms": options.session_timeout_ms,
        "heartbeat_interval_ms": 50,
        "metadata_max_age_ms": options.metadata_max_age_ms,
        "fetch_max_wait_ms": 100,
        "max_partition_fetch_bytes": 4 << 20,
    }


def message_of(found: Any) -> Message:
    return Message(
        topic=found.topic,
        value=found.value,
        key=found.key,
        headers=tuple(found.headers),
        partition=found.partition,
        timestamp=found.timestamp,
        timestamp_type=found.timestamp_type,
        offset=found.offset,
    )
