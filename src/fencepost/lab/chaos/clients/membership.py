"""Reading as a member of a group with librdkafka so that offsets can go into a transaction.

The group coordinator refuses offsets of a generation that is over (KIP-447). That helps only if the request names the
generation in which the records were read. Three things get in the way.

- `Consumer.consume` collects records and serves rebalances in one call. It may return records of partitions that it
  just gave up. So records are polled one by one, and those of revoked partitions are dropped.
- `consumer_group_metadata` returns the present generation: the next one after a rebalance, or none after the membership
  was lost, which no broker checks. So the metadata is taken at the assignment.
- A partition that is given up and assigned again may begin with records below the committed offset, which were fetched
  the first time and which others have processed (librdkafka 2.16, about once in 600 rebalances). So the committed
  offsets are read at the assignment, and older records are dropped.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

COMMITTED_TIMEOUT_S = 10.0


class GroupMember:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        #: For `send_offsets_to_transaction`, of what was polled since the last assignment.
        self.metadata: Any = None
        self._polled: list[Any] = []
        self._committed: dict[tuple[str, int], int] = {}  #: at the last assignment

    def subscribe(self, topics: Sequence[str]) -> None:
        self.consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self, limit: int, timeout_s: float) -> list[Any]:
        """Wait for a first message, and take what else is there. Errors of partitions are messages, too."""
        self._polled = []
        wait_s = timeout_s
        while len(self._polled) < limit and (message := self.consumer.poll(wait_s)) is not None:
            if not self._is_old(message):
                self._polled.append(message)
            wait_s = 0.0
        return self._polled

    def _is_old(self, message: Any) -> bool:
        return message.error() is None and message.offset() < self._committed.get(_place(message), 0)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.metadata = consumer.consumer_group_metadata()
        self._committed = {}
        with contextlib.suppress(KafkaException):  # the broker is down, so nobody else commits
            for each in consumer.committed(partitions, COMMITTED_TIMEOUT_S):
                self._committed[each.topic, each.partition] = each.offset

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        self._polled[:] = [each for each in self._polled if _place(each) not in gone]


def _place(message: Any) -> tuple[str, int]:
    return message.topic(), message.partition()
