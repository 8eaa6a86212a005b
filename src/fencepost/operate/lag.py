"""How far a pipeline is behind: the committed records that it has not read, and how old the first of them is.

Offsets are no records: markers and aborted records have offsets, too, and compaction leaves gaps. So records are
counted, by the headers of their batches. That means fetching them, so it has a limit in bytes. What lies beyond it is
bounded by its offsets, and the answer says so. 0 is always exact.

Only records before the last stable offset count. Nobody knows yet if what is behind an open transaction will ever be
read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.rights import Operation, wanted
from fencepost.observe.counting import BYTES_MAX, Counter
from fencepost.operate.standing import Standing, Topic
from fencepost.wire.terms import Isolation, TopicPartition

__all__ = ["BYTES_MAX", "Lag", "PartitionLag", "measure"]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    where: TopicPartition
    committed: int | None  #: the next offset to read; None if the pipeline has never committed one here
    end: int | None = None  #: the last stable offset; None if the topic is not here
    undecided: int = 0  #: offsets after it: of open transactions, or behind them
    records: int | None = None  #: None if unknown
    is_exact: bool = True  #: else an upper bound
    oldest_ms: int | None = None  #: the timestamp of the first unread record
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Lag:
    now_ms: int
    partitions: tuple[PartitionLag, ...]

    @property
    def read(self) -> tuple[PartitionLag, ...]:
        """Partitions in which the pipeline has an offset. The others are not part of the totals."""
        return tuple(each for each in self.partitions if each.committed is not None)

    @property
    def records(self) -> int | None:
        """None if one is unknown."""
        counts = [each.records for each in self.read]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def is_exact(self) -> bool:
        return all(each.is_exact for each in self.read)

    @property
    def seconds(self) -> float | None:
        """The age of the oldest unread record; 0 if there is none, None if that is unknown."""
        ages = [self.seconds_of(each) for each in self.read]
        return None if None in ages else max((age for age in ages if age is not None), default=0.0)

    def seconds_of(self, lag: PartitionLag) -> float | None:
        if lag.records == 0:
            return 0.0
        return None if lag.oldest_ms is None else max(0.0, (self.now_ms - lag.oldest_ms) / 1000)


@wanted(Operation.READ)
def measure(cluster: Cluster, standing: Standing, bytes_max: int | None = BYTES_MAX) -> Lag:
    """`bytes_max` is what may be fetched to count records; None for no limit."""
    positions = standing.positions
    here = {name for name, topic in standing.topics.items() if topic is Topic.HERE}
    known = [TopicPartition(name, index) for name in sorted(here) for index in cluster.topic(name).partitions]
    begins = earliest(cluster, known)
    ends = latest(cluster, known, Isolation.READ_COMMITTED)
    tops = latest(cluster, known, Isolation.READ_UNCOMMITTED)
    counter = Counter(cluster, bytes_max)
    found: dict[TopicPartition, PartitionLag] = {}
    for where in sorted(known, key=lambda where: ends[where] - positions.get(where, begins[where])):  # small ones first
        committed = positions.get(where)
        start, problem = _start(where, committed, begins[where], tops[where])
        count = counter.count(where, start, ends[where])
        found[where] = PartitionLag(
            where,
            committed,
            ends[where],
            max(0, tops[where] - max(ends[where], start)),
            count.records,
            count.is_exact,
            count.oldest_ms,
            problem,
        )
    for where, committed in positions.items():
        if where not in found:
            found[where] = PartitionLag(where, committed, is_exact=False, problem=_gone(standing.topics, where))
    return Lag(standing.now_ms, tuple(found[where] for where in sorted(found)))


def _start(where: TopicPartition, committed: int | None, begin: int, top: int) -> tuple[int, str]:
    """Where unread records begin, and what is wrong with the committed offset."""
    if committed is None:
        return begin, ""
    if committed < begin:
        return begin, f"offsets {committed} to {begin - 1} were deleted before they were read"
    if committed > top:
        return committed, f"the partition ends at {top}, before the committed offset: it lost records"
    return committed, ""


def _gone(topics: Mapping[str, Topic], where: TopicPartition) -> str:
    match topics.get(where.topic):
        case Topic.REPLACED:
            return "the topic was deleted and created again: the offset means nothing in it"
        case Topic.MISSING:
            return "the topic is not on this cluster, or hidden: it was deleted, or is read from another cluster"
    return "the topic has no such partition"
