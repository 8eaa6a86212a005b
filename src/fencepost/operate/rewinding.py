"""What a reset writes to the changelogs, so that the state fits the offsets again.

`drop` ends all keys with tombstones. `restore` gives every key the value that it had after an earlier transaction. Both
only read; the records go into the transaction of the reset.

When can a value of the past be known? A transaction is identified by its producer id and epoch, in the ledger and in
the changelog. So the ledger's later entries say where in a changelog the past ends (the cut): at the first record of a
later transaction. A key without a record after the cut has its value still. For the others the last record before the
cut counts. If there is none, the key was new; or compaction has removed it, because there is a later one. Compaction
leaves gaps between offsets. So if a partition has none before the cut, nothing was removed. If it has some, a key
without a record before the cut cannot be judged, and the restore is refused. The same if it has gaps on both sides: a
key may have lost its value before the cut, and its tombstone after.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.rights import Operation, wanted
from fencepost.client.scanning import Content, ScannedBatch, scan_batches
from fencepost.errors import ChangeRefused
from fencepost.operate.steps import live_keys
from fencepost.wire.records import Record
from fencepost.wire.terms import Isolation, TopicPartition

#: New values of keys; None removes a key.
Changes = Mapping[bytes, bytes | None]
#: The producer id and epoch of a transaction.
Writer = tuple[int, int]

#: Records of about this size together are one batch.
BATCH_BYTES = 128 << 10


@wanted(Operation.READ)
def drop(cluster: Cluster, topic: str, isolation: Isolation) -> dict[TopicPartition, Changes]:
    """Tombstones for all keys. With READ_UNCOMMITTED it waits for transactions that are ending."""
    return {
        where: dict.fromkeys(sorted(live_keys(cluster, where, begin, end)))
        for where, begin, end in _ranges(cluster, topic, isolation)
    }


@wanted(Operation.READ)
def restore(
    cluster: Cluster, topic: str, isolation: Isolation, later: AbstractSet[Writer]
) -> dict[TopicPartition, Changes]:
    """What gives all keys the values that they had before the transactions `later`. Raises ChangeRefused."""
    found: dict[TopicPartition, Changes] = {}
    for where, begin, end in _ranges(cluster, topic, isolation):
        past = _Past(is_whole_before=begin == 0, next_offset=begin)
        for batch in scan_batches(cluster, where, begin, end):
            past.add(batch, later)
        if past.is_in_doubt:
            raise ChangeRefused(
                f"{where} was compacted, and may have lost values of then: the state cannot be restored exactly. "
                "Nothing was changed. Use --state drop with a start from which all of it can be built again"
            )
        found[where] = past.changes
    return found


def _ranges(cluster: Cluster, topic: str, isolation: Isolation) -> Iterator[tuple[TopicPartition, int, int]]:
    places = [TopicPartition(topic, index) for index in cluster.refresh([topic])[topic].partitions]
    begins, ends = earliest(cluster, places), latest(cluster, places, isolation)
    return ((where, begins[where], ends[where]) for where in places)


@dataclass(slots=True)
class _Past:
    """A changelog partition, read once from its beginning."""

    is_whole_before: bool  #: no offset is missing before the cut
    next_offset: int
    is_whole_after: bool = True
    is_over: bool = False  #: the cut has been passed
    before: dict[bytes, bytes | None] = field(default_factory=dict)
    after: dict[bytes, bytes | None] = field(default_factory=dict)

    def add(self, batch: ScannedBatch, later: AbstractSet[Writer]) -> None:
        header = batch.header
        if (header.producer_id, header.producer_epoch) in later and batch.content is Content.RECORDS:
            self.is_over = True
        is_whole = header.base_offset == self.next_offset and header.record_count == header.last_offset_delta + 1
        self.next_offset = header.last_offset + 1
        if self.is_over:
            self.is_whole_after &= is_whole
        else:
            self.is_whole_before &= is_whole
        if batch.content is Content.RECORDS:
            values = self.after if self.is_over else self.before
            values.update((record.key, record.value) for record in batch.records() if record.key is not None)

    @property
    def is_in_doubt(self) -> bool:
        """Whether a value at the cut is not known."""
        if not self.is_over or self.is_whole_before:
            return False
        return not self.is_whole_after or not self.after.keys() <= self.before.keys()

    @property
    def changes(self) -> Changes:
        """Only for keys that have another value now."""
        return {key: self.before.get(key) for key, now in self.after.items() if self.before.get(key) != now}


def in_batches(changes: Changes, time_ms: int) -> Iterator[Sequence[Record]]:
    """The changes as records, in groups that make batches of a reasonable size."""
    group: list[Record] = []
    size = 0
    for key, value in changes.items():
        group.append(Record(key, value, time_ms))
        size += len(key) + len(value or b"")
        if size >= BATCH_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
