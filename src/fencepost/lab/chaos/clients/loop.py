"""A member of a group: consumes a topic, makes one record of each, and commits offsets in the same transaction.

After an error it starts over with a new consumer. Only so its position is certainly the committed one.
"""

from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition

from fencepost.lab.chaos.clients.base import Client, again
from fencepost.lab.chaos.clients.membership import GroupMember
from fencepost.lab.chaos.clients.producers import ABORT_SHARE, RdkafkaTransaction
from fencepost.lab.chaos.clients.rdkafka import CALL_TIMEOUT_S, group_consumer, is_retriable, transactional_producer
from fencepost.lab.chaos.plan import LOOP_GROUP

RECORDS_MAX = 20


class Loop(Client):
    def run(self) -> None:
        number = 0
        producer = transactional_producer(self, self.spec.prefix + self.spec.name)
        while not self.stopping:
            consumer = group_consumer(self, self.spec.prefix + LOOP_GROUP, self.spec.isolation)
            member = GroupMember(consumer)
            member.subscribe([self.spec.source])
            try:
                while not self.stopping:
                    messages = [m for m in member.poll(RECORDS_MAX, 0.3) if m.error() is None]
                    if not messages:
                        continue
                    number += 1
                    if not self._one(member, producer, number, messages):
                        break
            finally:
                consumer.close()

    def _one(self, member: GroupMember, producer: Producer, number: int, messages: list[Any]) -> bool:
        inputs, writes = [], []
        ends: dict[tuple[str, int], int] = {}
        for index, message in enumerate(messages):
            where = message.topic(), message.partition()
            inputs.append([*where, message.offset(), message.value().decode()])
            target = self.rng.randrange(self.spec.target_partitions)
            writes.append((self.spec.target, target, self.value(number, index)))
            ends[where] = message.offset() + 1

        def send_offsets() -> None:
            offsets = [TopicPartition(*where, end) for where, end in ends.items()]
            again(
                self,
                lambda: producer.send_offsets_to_transaction(offsets, member.metadata, CALL_TIMEOUT_S),
                is_retriable,
            )

        try:
            return RdkafkaTransaction(self, producer, number).run(
                writes,
                aborts=self.rng.random() < ABORT_SHARE / 4,
                before_the_end=send_offsets,
                group=self.spec.prefix + LOOP_GROUP,
                offsets=[[*where, end] for where, end in ends.items()],
                inputs=inputs,
            )
        except KafkaException:
            return False
