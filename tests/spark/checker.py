"""Looks from outside, with confluent-kafka, whether every number has taken effect once: both outputs, and the offsets.

At any moment, whatever has died: a number is in both outputs or in neither, never twice, and nothing else is there.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests import logins
from tests.conftest import wait_until
from tests.spark.numbers_job import Plan

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Seen:
    """What a read_committed reader finds."""

    left: Counter[str]
    right: Counter[str]


class Checker:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.written = 0
        self.bootstrap = plan.bootstrap

    def write(self, count: int) -> None:
        """More numbers into the source, the next ones."""
        producer = Producer({**logins.confluent(self.bootstrap), "linger.ms": 5})
        for number in range(self.written, self.written + count):
            producer.produce(self.plan.source, value=str(number), key=str(number))
        assert producer.flush(TIMEOUT_S) == 0
        self.written += count

    def see(self) -> Seen:
        return Seen(*(Counter(read_committed(self.bootstrap, topic)) for topic in (self.plan.left, self.plan.right)))

    def assert_whole(self) -> int:
        """Nothing is torn or doubled; gives how many numbers have taken effect.

        Kafka answers a commit before all partitions show it, so what looks torn is looked at again.
        """
        last: list[Seen] = []

        def is_whole() -> bool:
            last[:] = [self.see()]
            return numbers(last[0].left, "L ") == numbers(last[0].right, "R ")

        wait_until(is_whole, f"{self.plan.left} and {self.plan.right} hold the same", TIMEOUT_S)
        found = numbers(last[0].left, "L ")
        assert not (twice := [number for number, times in found.items() if times != 1]), f"more than once: {twice[:5]}"
        assert not (foreign := [n for n in found if n not in map(str, range(self.written))]), f"foreign: {foreign[:5]}"
        return len(found)

    def assert_complete(self) -> None:
        """Every number has taken effect once, no transaction is left open, and the group stands at the end."""
        found = self.assert_whole()
        assert found == self.written, f"{self.written - found} of {self.written} numbers have no effect"
        assert self.committed() == self.ends(self.plan.source, IsolationLevel.READ_COMMITTED)
        self.wait_until_settled()

    def wait_until_settled(self) -> None:
        wait_until_settled(self.bootstrap, self.plan.left, self.plan.right)

    def committed(self) -> dict[int, int]:
        """The group's offsets in the source."""
        consumer = Consumer({**logins.confluent(self.bootstrap), "group.id": self.plan.pipeline})
        partitions = partitions_of(consumer, self.plan.source)
        found = consumer.committed([TopicPartition(self.plan.source, each) for each in partitions], timeout=TIMEOUT_S)
        consumer.close()
        return {each.partition: max(0, each.offset) for each in found}

    def ends(self, topic: str, isolation: IsolationLevel) -> dict[int, int]:
        return ends_of(self.bootstrap, topic, isolation)


def numbers(values: Counter[str], prefix: str) -> Counter[str]:
    return Counter({value.removeprefix(prefix): times for value, times in values.items()})


def partitions_of(client: AdminClient | Consumer, topic: str) -> list[int]:
    """Asked of a client that has more to ask: the first answer of each takes 50 ms."""
    return sorted(client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)


def ends_of(bootstrap: str, topic: str, isolation: IsolationLevel) -> dict[int, int]:
    admin = AdminClient(logins.confluent(bootstrap))
    asked = {TopicPartition(topic, each): OffsetSpec.latest() for each in partitions_of(admin, topic)}
    found = admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIMEOUT_S)
    return {each.partition: result.result(TIMEOUT_S).offset for each, result in found.items()}


def wait_until_settled(bootstrap: str, *topics: str) -> None:
    """Until no transaction is open in them: Kafka answers a commit before all partitions show it."""

    def are_settled() -> bool:
        return all(
            ends_of(bootstrap, topic, IsolationLevel.READ_COMMITTED)
            == ends_of(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED)
            for topic in topics
        )

    wait_until(are_settled, f"no transaction is open in {', '.join(topics)}", TIMEOUT_S)


def read_committed(bootstrap: str, topic: str) -> Sequence[str]:
    """All values up to the last stable offset of each partition."""
    return [(record.value() or b"").decode() for record in read_records(bootstrap, topic)]


def read_records(bootstrap: str, topic: str) -> Sequence[Message]:
    """All records up to there."""
    consumer = Consumer(
        {
            **logins.confluent(bootstrap),
            "group.id": "checker",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # by default it takes half a second to notice an end
            "auto.offset.reset": "earliest",
        }
    )
    partitions = partitions_of(consumer, topic)
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    found: list[Message] = []
    open_partitions = set(partitions)
    deadline = time.monotonic() + TIMEOUT_S
    while open_partitions:
        assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            open_partitions.discard(message.partition())
        else:
            raise AssertionError(str(error))
    consumer.close()
    return found
