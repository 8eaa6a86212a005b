"""Hanging transactions: open in a partition, and no coordinator will ever end them there.

They hold the last stable offset for ever (KIP-664): a late Produce reopened a transaction after its end, or the
coordinator lost its record of it. `kafka-transactions find-hanging` calls a transaction hanging if its producer has no
transactional id, or the id's transaction does not have the partition. It only trusts what is older than the longest
transaction timeout, because it asks partitions first and coordinators later, and a transaction may end in between.

Here the partitions are asked again after the coordinators. A coordinator knows a partition before anything is written
there, and forgets it after the marker is written. So what is open before and after, and not known in between, hangs,
however young it is.

That needs all coordinators, and the right to see all their ids. Otherwise an unknown producer may be one that we do not
see: then it is doubtful.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.observe.asking import Answers
from fencepost.observe.producers import Producers, ProducerView, open_in, producers_of
from fencepost.observe.transactions import Missing, Survey, TransactionView, survey
from fencepost.wire.terms import TopicPartition


@dataclass(frozen=True, slots=True)
class Hanging:
    producer: ProducerView
    transaction: TransactionView | None  #: what the producer's transactional id does now; None if it has none
    now_ms: int

    @property
    def where(self) -> TopicPartition:
        return self.producer.where

    @property
    def start_offset(self) -> int:
        return self.producer.txn_start_offset or 0

    @property
    def age_ms(self) -> int | None:
        """Since its last write; None without a timestamp."""
        return None if self.producer.last_ms is None else max(0, self.now_ms - self.producer.last_ms)


@dataclass(frozen=True, slots=True)
class Search:
    hanging: tuple[Hanging, ...]
    doubtful: tuple[ProducerView, ...]  #: of unknown producers, while not all ids could be seen
    missing: tuple[Missing, ...]  #: coordinators and partitions that could not be asked
    partitions: int  #: how many were asked


def find_hanging(
    cluster: Cluster,
    *,
    topic: str | None = None,
    partitions: Collection[TopicPartition] | None = None,
    older_than_ms: int = 0,
) -> Search:
    """On every broker, or in one topic, or in these partitions. `older_than_ms` is the age of the last write."""
    asked = every_partition(cluster, topic) if partitions is None else list(partitions)
    before = producers_of(cluster, asked)
    now_ms = time.time_ns() // 1_000_000
    candidates = [each for each in open_in(before) if each.last_ms is None or now_ms - each.last_ms >= older_than_ms]
    missing = [Missing(str(where), str(failure)) for where, failure in sorted(before.failed.items())]
    if not candidates:
        return Search((), (), tuple(missing), len(asked))
    known = survey(cluster, producer_ids={each.producer_id for each in candidates}, prove_absence=True)
    suspects = unknown_to(candidates, known)
    still = still_open(suspects, producers_of(cluster, {each.where for each in suspects}))
    owners = known.by_producer()
    doubtful = [each for each in still if each.producer_id not in owners and not known.is_complete]
    hanging = [Hanging(each, owners.get(each.producer_id), now_ms) for each in still if each not in doubtful]
    return Search(tuple(hanging), tuple(doubtful), (*missing, *known.missing), len(asked))


def every_partition(cluster: Cluster, topic: str | None = None) -> list[TopicPartition]:
    """Of a topic, or of all that we may see, internal ones included. Raises TopicNotFound."""
    topics = cluster.refresh() if topic is None else cluster.refresh([topic])
    return [TopicPartition(name, index) for name in sorted(topics) for index in topics[name].partitions]


def unknown_to(producers: Iterable[ProducerView], known: Survey) -> list[ProducerView]:
    """Those whose open transaction no coordinator has with this partition. Pure."""
    owners = known.by_producer()
    return [
        each
        for each in producers
        if each.producer_id not in owners or each.where not in owners[each.producer_id].partitions
    ]


def still_open(suspects: Iterable[ProducerView], now: Answers[TopicPartition, Producers]) -> list[ProducerView]:
    """Those that have the same transaction open, as of now. Pure."""
    present = {(each.where, each.producer_id, each.epoch, each.txn_start_offset): each for each in open_in(now)}
    keys = ((each.where, each.producer_id, each.epoch, each.txn_start_offset) for each in suspects)
    return [present[key] for key in keys if key in present]
