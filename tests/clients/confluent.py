"""confluent-kafka (librdkafka) behind the facade."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import confluent_kafka as ck

from fencepost.errors import ErrorCode
from fencepost.lab.chaos.clients.membership import GroupMember
from tests.clients import facade
from tests.clients.facade import Message, Native, Refused, Sent, Spot

TIMEOUT_S = 20.0
#: Waits of librdkafka's own that would only slow the tests down.
QUICK = {"reconnect.backoff.ms": 10, "retry.backoff.ms": 10, "topic.metadata.refresh.fast.interval.ms": 20}


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    try:
        yield
    except (ck.KafkaException, SystemError) as error:
        # A fatal error that comes with the report of a delivery is raised as the cause of a SystemError.
        known = error if isinstance(error, ck.KafkaException) else error.__cause__
        if not isinstance(known, ck.KafkaException):
            raise
        raise refusal(known.args[0]) from error


def refusal(error: Any) -> Refused:
    return Refused(ErrorCode(error.code()).name if error.code() > 0 else error.name(), error.str())


def positions(offsets: Mapping[Spot, int]) -> list[Any]:
    return [ck.TopicPartition(*spot, offset) for spot, offset in offsets.items()]


class Producer(facade.Producer):
    positions = staticmethod(positions)

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(Native(ck.Producer(config), named_errors()))
        if "transactional.id" in config:
            self.native.init_transactions(TIMEOUT_S)

    def deliver(self, *messages: Message) -> list[Sent]:
        done: dict[int, Sent] = {}
        errors: list[Any] = []

        def callback(number: int) -> Any:
            def on_delivery(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    kind, timestamp = message.timestamp()
                    known = None if kind == ck.TIMESTAMP_NOT_AVAILABLE else timestamp
                    done[number] = Sent(message.partition(), message.offset(), known)

            return on_delivery

        for number, message in enumerate(messages):
            optional: dict[str, Any] = {"partition": message.partition, "timestamp": message.timestamp}
            self.native.produce(
                message.topic,
                message.value,
                message.key,
                headers=list(message.headers),
                on_delivery=callback(number),
                **{name: value for name, value in optional.items() if value is not None},
            )
        self.native.flush(TIMEOUT_S)
        if errors:
            raise refusal(errors[0])
        return [done[number] for number in range(len(messages))]

    def close(self) -> None:
        self.native.purge()
        with contextlib.suppress(Refused):  # a fenced producer says nothing else
            self.native.flush(0)


class Consumer(facade.Consumer):
    def __init__(self, config: dict[str, Any], group: str | None) -> None:
        super().__init__(Native(ck.Consumer(config), named_errors()), group)
        # A consumer without a group does not ask for committed offsets.
        self._start = ck.OFFSET_BEGINNING if group is None else ck.OFFSET_INVALID
        self.member = GroupMember(self.native)
        self._ended: dict[Spot, int] = {}
        #: As of the last poll: asking while another thread polls would lock both up.
        self._assignment: set[Spot] = set()

    def poll(self, timeout_s: float = 0.05) -> list[Message]:
        found: list[Message] = []
        for message in self.member.poll(500, timeout_s):
            if message.error() is None:
                found.append(_message(message))
            elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                self._ended[Spot(message.topic(), message.partition())] = message.offset()
            else:
                raise refusal(message.error())
        self._assignment = {Spot(each.topic, each.partition) for each in self.native.assignment()}
        return found

    def assign(self, spots: Iterable[Spot]) -> None:
        self.native.assign([ck.TopicPartition(*spot, self._start) for spot in spots])

    def assignment(self) -> set[Spot]:
        return self._assignment

    def seek(self, spot: Spot, offset: int) -> None:
        self.native.seek(ck.TopicPartition(*spot, offset))
        self._ended.pop(spot, None)

    def position(self, spot: Spot) -> int:
        # librdkafka's own position stays behind control records; the end of the partition tells of those.
        (found,) = self.native.position([ck.TopicPartition(*spot)])
        return max(found.offset, self._ended.get(spot, 0))

    def commit(self, offsets: Mapping[Spot, int] | None = None) -> None:
        given = {} if offsets is None else {"offsets": positions(offsets)}
        for found in self.native.commit(asynchronous=False, **given):
            if found.error is not None:
                raise refusal(found.error)

    def committed(self, spot: Spot) -> int | None:
        (found,) = self.native.committed([ck.TopicPartition(*spot)], TIMEOUT_S)
        if found.error is not None:
            raise refusal(found.error)
        return None if found.offset < 0 else found.offset

    def membership(self) -> Any:
        return self.member.metadata or self.native.consumer_group_metadata()

    def offsets_for_times(self, times: Mapping[Spot, int]) -> dict[Spot, int | None]:
        found = self.native.offsets_for_times(positions(times), TIMEOUT_S)
        return {Spot(f.topic, f.partition): None if f.offset < 0 else f.offset for f in found}

    def bounds(self, spot: Spot) -> tuple[int, int]:
        return self.native.get_watermark_offsets(ck.TopicPartition(*spot), TIMEOUT_S)


class Confluent(facade.Client):
    name = "confluent"
    no_such_topic = ("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PARTITION")
    assignors = ("range", "roundrobin", "cooperative-sticky")

    def _open_producer(self, options: facade.ProducerOptions) -> Producer:
        config = {
            **self.address,
            "compression.type": options.compression,
            "acks": options.acks,
            "enable.idempotence": options.idempotent,
            "message.max.bytes": options.max_bytes,
            "metadata.max.age.ms": options.metadata_max_age_ms,
            "message.timeout.ms": options.patience_ms,
            "topic.metadata.propagation.max.ms": options.patience_ms // 2,
            "linger.ms": 1,
            **QUICK,
        }
        if options.transactional_id is not None:
            del config["enable.idempotence"], config["message.timeout.ms"]
            config["transactional.id"] = options.transactional_id
            config["transaction.timeout.ms"] = options.transaction_timeout_ms
        return Producer(config)

    def _open_consumer(self, options: facade.ConsumerOptions) -> Consumer:
        config = {
            **self.address,
            "group.id": options.group or "alone",
            "isolation.level": options.isolation,
            "auto.offset.reset": "error" if options.reset == "none" else options.reset,
            "enable.auto.commit": options.auto_commit,
            "auto.commit.interval.ms": 100,
            "partition.assignment.strategy": options.assignor,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": options.heartbeat_ms,
            "metadata.max.age.ms": options.metadata_max_age_ms,
            "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 10,
            "enable.partition.eof": True,
            **QUICK,
        }
        if options.instance_id is not None:
            config["group.instance.id"] = options.instance_id
        consumer = Consumer(config, options.group)
        if options.pattern is not None:
            consumer.member.subscribe(["^" + options.pattern])
        elif options.topics:
            consumer.member.subscribe(options.topics)
        return consumer


def _message(found: Any) -> Message:
    kind, timestamp = found.timestamp()
    return Message(
        topic=found.topic(),
        value=found.value(),
        key=found.key(),
        headers=tuple(found.headers() or ()),
        partition=found.partition(),
        timestamp=timestamp,
        timestamp_type=kind - ck.TIMESTAMP_CREATE_TIME,
        offset=found.offset(),
    )
