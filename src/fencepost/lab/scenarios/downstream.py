"""A reader of invoices, to be killed: a member of a group, read_committed, that commits after each record.

Runs as a process of its own (`python -m fencepost.lab.scenarios.downstream`) until it is ended.
"""

import sys
from dataclasses import dataclass
from typing import Any

from fencepost.lab.kit.programs import read_plan, say, wait_here
from fencepost.lab.scenarios.readers import silent
from fencepost.security.spellings import respelled


@dataclass(frozen=True, slots=True)
class Plan:
    kafka: dict[str, str]  #: the settings of a client, by Kafka's names
    topic: str
    group: str
    session_ms: int
    stop_after: int = -1  #: reads and commits this many records, reads one more, and stops; -1: never stops


def main() -> int:
    from confluent_kafka import Consumer, TopicPartition

    plan = Plan(**read_plan())
    consumer = Consumer(
        {
            **respelled(plan.kafka, "confluent"),
            "group.id": plan.group,
            "session.timeout.ms": plan.session_ms,
            "heartbeat.interval.ms": plan.session_ms // 5,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        },
        logger=silent,
    )

    def assigned(_: Any, partitions: list[TopicPartition]) -> None:
        say("assigned", partitions=[each.partition for each in partitions])

    consumer.subscribe([plan.topic], on_assign=assigned)
    handled = 0
    while True:
        message: Any = consumer.poll(0.5)
        if message is None or message.error() is not None:
            continue
        say("read", partition=message.partition(), offset=message.offset(), value=message.value().decode())
        if handled == plan.stop_after:
            wait_here("read")
        consumer.commit(message=message, asynchronous=False)
        handled += 1


if __name__ == "__main__":
    sys.exit(main())
