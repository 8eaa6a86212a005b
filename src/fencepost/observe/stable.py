"""Where partitions begin and end, for readers of either isolation: log start, last stable offset, high watermark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.fields import by_topic
from fencepost.client.offsets import EARLIEST, FIRST_WITH_ISOLATION, LATEST, LIST_OFFSETS
from fencepost.observe.asking import Answers, ask_leaders
from fencepost.observe.producers import Producers, ProducerView
from fencepost.wire.codec import Message
from fencepost.wire.terms import Isolation, TopicPartition


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one partition, read one after the other while it may grow: log start <= stable <= end."""

    where: TopicPartition
    log_start: int
    stable: int  #: the last stable offset: read_committed readers end here
    end: int  #: the high watermark: read_uncommitted readers end here

    @property
    def is_held(self) -> bool:
        """Whether a read_committed reader ends before the others."""
        return self.stable < self.end


def bounds_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, Bounds]:
    """Asked from the end backwards: what is written in between makes no partition look held."""
    wanted = list(partitions)
    ends = _asked(cluster, wanted, LATEST, Isolation.READ_UNCOMMITTED)
    stable = _asked(cluster, list(ends.found), LATEST, Isolation.READ_COMMITTED)
    starts = _asked(cluster, list(stable.found), EARLIEST, Isolation.READ_UNCOMMITTED)
    found = {
        where: Bounds(where, begin, max(begin, stable.found[where]), max(ends.found[where], stable.found[where]))
        for where, begin in starts.found.items()
    }
    return Answers(found, ends.failed | stable.failed | starts.failed)


def holder(bounds: Bounds, producers: Producers) -> ProducerView | None:
    """Whose open transaction holds the last stable offset; None if nobody's does."""
    if not bounds.is_held:
        return None
    first = [each for each in producers if each.txn_start_offset is not None and each.txn_start_offset < bounds.end]
    return min(first, key=lambda each: each.txn_start_offset or 0, default=None)


def _asked(
    cluster: Cluster, partitions: Sequence[TopicPartition], time_ms: int, isolation: Isolation
) -> Answers[TopicPartition, int]:
    if not partitions:
        return Answers()
    fields = _fields_for(time_ms, isolation)
    found = ask_leaders(cluster, partitions, LIST_OFFSETS, fields, _entries, lowest=FIRST_WITH_ISOLATION)
    return found.map(lambda _, entry: int(entry.offset))


def _fields_for(time_ms: int, isolation: Isolation) -> Callable[[Sequence[TopicPartition]], dict[str, object]]:
    def fields(partitions: Sequence[TopicPartition]) -> dict[str, object]:
        entries = ((topic, {"partition_index": index, "timestamp": time_ms}) for topic, index in partitions)
        return {"replica_id": -1, "isolation_level": isolation, "topics": by_topic(entries)}

    return fields


def _entries(answer: Message) -> Iterator[tuple[TopicPartition, Message]]:
    for topic in answer.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry
