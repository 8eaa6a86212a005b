"""The end of a run: waits until no transaction is open, then reads every partition to its end, several times.

librdkafka reads with both isolation levels, kafka-python with read_committed: two libraries that skip aborted records
in their own way must find the same. It connects to the broker directly, not through the faulty network.
"""

import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

from fencepost.client import Cluster, offsets
from fencepost.errors import ClientError
from fencepost.lab.chaos.clients.base import Client
from fencepost.lab.chaos.clients.rdkafka import lone_consumer, record_of
from fencepost.lab.chaos.clients.readers import Records, everything, kafka_python_consumer, python_records
from fencepost.lab.chaos.clients.watcher import observe
from fencepost.lab.chaos.facts import READ_COMMITTED, READ_UNCOMMITTED
from fencepost.lab.chaos.history import Function, Status
from fencepost.lab.chaos.plan import LONG_TRANSACTION_TIMEOUT_MS
from fencepost.wire import terms

#: The longest transaction timeout, and what a coordinator may take to look for transactions past it.
SETTLE_TIMEOUT_S = LONG_TRANSACTION_TIMEOUT_MS / 1000 + 30
DRAIN_TIMEOUT_S = 120.0
LINE_RECORDS_MAX = 1000

Ends = dict[tuple[str, int], int]


class Drain(Client):
    def run(self) -> None:
        with Cluster({**self.spec.kafka, "client.id": self.spec.name}) as connected:
            stable, ends = self._settle(connected)
            self._log("librdkafka", READ_COMMITTED, self._rdkafka(READ_COMMITTED, stable), stable)
            self._log("librdkafka", READ_UNCOMMITTED, self._rdkafka(READ_UNCOMMITTED, ends), ends)
            self._log("kafka-python", READ_COMMITTED, self._kafka_python(READ_COMMITTED, stable), stable)
            observe(connected, self.spec, self.history)

    def _settle(self, connected: Cluster) -> tuple[Ends, Ends]:
        """LSO and high watermark of every partition, once they are equal, or when the time is up."""
        partitions = [terms.TopicPartition(*where) for where in (*everything(self.spec), (self.spec.ledger, 0))]
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            try:
                stable = offsets.latest(connected, partitions, terms.Isolation.READ_COMMITTED)
                ends = offsets.latest(connected, partitions, terms.Isolation.READ_UNCOMMITTED)
                if stable == ends:
                    break
                if time.monotonic() > deadline:
                    for where in partitions:
                        if stable[where] != ends[where]:
                            what = f"{where} is stable up to {stable[where]} of {ends[where]}: a hanging transaction"
                            self.history.log(Function.STUCK, Status.INFO, what=what)
                    break
            except ClientError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)
        return {(*where,): end for where, end in stable.items()}, {(*where,): end for where, end in ends.items()}

    def _rdkafka(self, isolation: str, ends: Ends) -> Records:
        consumer: Consumer = lone_consumer(self, isolation, **{"enable.partition.eof": True})
        records: Records = {where: [] for where in ends}
        open_ones = {where for where, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(*where, 0) for where in open_ones])
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while open_ones and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    where, offset, value = record_of(message)
                    records[where].append((offset, value))
                elif error.code() == KafkaError._PARTITION_EOF:
                    # If the last records came after this event, another one follows.
                    where, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
                    if offset >= ends[where]:
                        open_ones.discard(where)
        consumer.close()
        self._complain(f"librdkafka ({isolation})", open_ones)
        return records

    def _kafka_python(self, isolation: str, ends: Ends) -> Records:
        import kafka

        consumer = kafka_python_consumer(self.spec, isolation)
        records: Records = {where: [] for where in ends}
        partitions = {where: kafka.TopicPartition(*where) for where, end in ends.items() if end > 0}
        consumer.assign(list(partitions.values()))
        for partition in partitions.values():
            consumer.seek(partition, 0)
        open_ones = set(partitions)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while open_ones and time.monotonic() < deadline:
            for where, found in python_records(consumer.poll(timeout_ms=500, max_records=1000)).items():
                records[where] += found
            open_ones = {where for where in open_ones if (consumer.position(partitions[where]) or 0) < ends[where]}
        consumer.close()
        self._complain(f"kafka-python ({isolation})", open_ones)
        return records

    def _complain(self, who: str, open_ones: set[tuple[str, int]]) -> None:
        for topic, partition in sorted(open_ones):
            what = f"{who} does not reach the end of {topic}-{partition}"
            self.history.log(Function.STUCK, Status.INFO, what=what)

    def _log(self, reader: str, isolation: str, records: Records, ends: Ends) -> None:
        for (topic, partition), found in records.items():
            for first in range(0, max(len(found), 1), LINE_RECORDS_MAX):
                self.history.log(
                    Function.DRAIN,
                    Status.OK,
                    reader=reader,
                    isolation=isolation,
                    topic=topic,
                    partition=partition,
                    records=found[first : first + LINE_RECORDS_MAX],
                    end=ends[topic, partition],
                )
