"""Reading as a member of a group with librdkafka so that offsets can go into a transaction.

The group coordinator refuses offsets of a generation that is over (KIP-447), which helps only if the generation named
is the one in which the records were read. Two things get in the way. `Consumer.consume` collects records and serves
rebalances in one call, and may return records of partitions that it gave up in the meantime. And
`consumer_group_metadata` tells of the present: the next generation after a rebalance, or none at all (which nobody
checks) after the membership was lost. So records are taken one by one, those of revoked partitions are dropped, and
the metadata is that of the moment of assignment.
"""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition


class GroupMember:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        #: For `send_offsets_to_transaction`, of what was polled since the last assignment.
        self.metadata: Any = None
        self._polled: list[Any] = []

    def subscribe(self, topics: Sequence[str]) -> None:
        self.consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self, limit: int, timeout_s: float) -> list[Any]:
        """Waits for a first message and takes what else is there. Errors of partitions are messages as well."""
        self._polled = []
        wait_s = timeout_s
        while len(self._polled) < limit and (message := self.consumer.poll(wait_s)) is not None:
            self._polled.append(message)
            wait_s = 0.0
        return self._polled

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.metadata = consumer.consumer_group_metadata()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        self._polled[:] = [each for each in self._polled if (each.topic(), each.partition()) not in gone]
