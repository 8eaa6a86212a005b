"""The producers that a partition remembers, as its leader tells (DescribeProducers), and their open transactions.

The partition does not know transactional ids, and its coordinator does not know offsets. The producer id joins the two.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.fields import by_topic
from fencepost.client.transaction_state import DESCRIBE_PRODUCERS
from fencepost.observe.asking import Answers, ask_leaders
from fencepost.wire.codec import Message
from fencepost.wire.terms import TopicPartition


@dataclass(frozen=True, slots=True)
class ProducerView:
    where: TopicPartition
    producer_id: int
    epoch: int
    last_sequence: int  #: -1 if its last batch was a marker
    last_ms: int | None  #: the timestamp of its last batch, by the producer's or the broker's clock
    coordinator_epoch: int  #: of its last marker; -1 if it never had one
    txn_start_offset: int | None  #: the first offset of its open transaction

    @property
    def is_open(self) -> bool:
        return self.txn_start_offset is not None


Producers = tuple[ProducerView, ...]


def producers_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, Producers]:
    """Of these partitions: those with an open transaction first, by its first offset."""
    return ask_leaders(cluster, partitions, DESCRIBE_PRODUCERS, _fields, _entries).map(_views)


def open_in(producers: Answers[TopicPartition, Producers]) -> list[ProducerView]:
    """The open transactions of all partitions."""
    return [each for found in producers.found.values() for each in found if each.is_open]


def _fields(partitions: Sequence[TopicPartition]) -> dict[str, object]:
    return {"topics": by_topic(partitions, inside="partition_indexes")}


def _entries(answer: Message) -> Iterator[tuple[TopicPartition, Message]]:
    for topic in answer.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry


def _views(where: TopicPartition, entry: Message) -> Producers:
    views = [
        ProducerView(
            where,
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp if each.last_timestamp >= 0 else None,
            each.coordinator_epoch,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in entry.active_producers
    ]
    return tuple(sorted(views, key=lambda each: (not each.is_open, each.txn_start_offset or 0, each.producer_id)))
