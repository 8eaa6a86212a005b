"""Records of partitions as a reader of a chosen view gets them, with the outcome of each one's transaction.

============  =========================================================================================================
COMMITTED     what a read_committed consumer gets
UNCOMMITTED   what a read_uncommitted consumer gets: aborted and undecided records, too, and no way to tell them apart
RAW           everything that the log has, markers included, and what became of each transaction
============  =========================================================================================================

No request says how a record's transaction ended. Up to the last stable offset everything is decided, and a
read_committed fetch lists what is aborted. Beyond it, a record is decided by the next marker of its producer, so that
part is read twice: once for the markers, once for the records. If there is no such marker, the transaction is open.
"""

import bisect
import enum
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.rights import Operation, wanted
from fencepost.client.scanning import Content, ScannedBatch, scan_batches
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from fencepost.wire.records import Record, decode_marker
from fencepost.wire.terms import Isolation, TopicPartition

#: How often to look for new records at the end.
POLL_S = 0.1
#: How far one partition is read before the next one has its turn, in offsets.
TURN_OFFSETS = 10_000


class View(enum.Enum):
    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    RAW = "raw"

    @property
    def isolation(self) -> Isolation:
        return Isolation.READ_COMMITTED if self is View.COMMITTED else Isolation.READ_UNCOMMITTED


class Outcome(enum.StrEnum):
    """What became of the transaction that a record belongs to, when it was read."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    NONE = "none"  #: it is in no transaction


class MarkerKind(enum.StrEnum):
    COMMIT = "commit"
    ABORT = "abort"
    OTHER = "other"  #: a control record that does not end a transaction


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, and what is known of its transaction."""

    where: TopicPartition
    record: Record
    outcome: Outcome | None = None  #: None unless the view is RAW
    marker: MarkerKind | None = None  #: it is a marker
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Bounds:
    begin: int
    end: int  #: what a reader of the view can read ends here


@wanted(Operation.READ)
def bounds(cluster: Cluster, partitions: Iterable[TopicPartition], view: View) -> dict[TopicPartition, Bounds]:
    asked = list(partitions)
    begins, ends = earliest(cluster, asked), latest(cluster, asked, view.isolation)
    return {where: Bounds(begins[where], ends[where]) for where in asked}


def read_range(cluster: Cluster, where: TopicPartition, start: int, end: int, view: View) -> Iterator[Seen]:
    """Records with offsets from `start` to before `end`, which the view has reached."""
    if view is View.RAW:
        yield from _read_raw(cluster, where, start, end)
        return
    for batch in scan_batches(cluster, where, start, end, isolation=view.isolation):
        if batch.content is Content.RECORDS:
            yield from (Seen(where, record) for record in batch.records() if start <= record.offset < end)


def _read_raw(cluster: Cluster, where: TopicPartition, start: int, end: int) -> Iterator[Seen]:
    stable = latest(cluster, [where], Isolation.READ_COMMITTED)[where]
    for batch in scan_batches(cluster, where, start, min(end, stable)):
        decided = Outcome.ABORTED if batch.content is Content.ABORTED else Outcome.COMMITTED
        yield from _seen(where, batch, decided, start, min(end, stable))
    start = max(start, stable)
    if start >= end:
        return
    ends = _Ends()
    for batch in scan_batches(cluster, where, start, end, isolation=Isolation.READ_UNCOMMITTED):
        ends.note(batch)
    for batch in scan_batches(cluster, where, start, end, isolation=Isolation.READ_UNCOMMITTED):
        yield from _seen(where, batch, ends.outcome(batch), start, end)


def _seen(where: TopicPartition, batch: ScannedBatch, decided: Outcome, start: int, end: int) -> Iterator[Seen]:
    header = batch.header
    kind = _marker_kind(batch) if header.is_control else None
    if kind is not None:
        decided = {MarkerKind.COMMIT: Outcome.COMMITTED, MarkerKind.ABORT: Outcome.ABORTED}.get(kind, Outcome.NONE)
    outcome = decided if header.is_transactional else Outcome.NONE
    for record in batch.records():
        if start <= record.offset < end:
            yield Seen(where, record, outcome, kind, header.producer_id, header.producer_epoch)


def _marker_kind(batch: ScannedBatch) -> MarkerKind:
    marker = decode_marker(batch.data)
    if marker is None:
        return MarkerKind.OTHER
    return MarkerKind.COMMIT if marker.commit else MarkerKind.ABORT


class _Ends:
    """Where the transactions of each producer end, in one partition."""

    def __init__(self) -> None:
        self._offsets: dict[int, list[int]] = {}  #: of markers, ascending, by producer
        self._outcomes: dict[int, list[Outcome]] = {}

    def note(self, batch: ScannedBatch) -> None:
        kind = _marker_kind(batch) if batch.header.is_control else MarkerKind.OTHER
        if kind is not MarkerKind.OTHER:
            self._offsets.setdefault(batch.header.producer_id, []).append(batch.header.base_offset)
            outcome = Outcome.COMMITTED if kind is MarkerKind.COMMIT else Outcome.ABORTED
            self._outcomes.setdefault(batch.header.producer_id, []).append(outcome)

    def outcome(self, batch: ScannedBatch) -> Outcome:
        offsets = self._offsets.get(batch.header.producer_id, [])
        index = bisect.bisect_left(offsets, batch.header.base_offset)
        return self._outcomes[batch.header.producer_id][index] if index < len(offsets) else Outcome.OPEN


class Follower:
    """Reads partitions from where it is told, to their ends or for ever.

    Invariant: `positions` is the next offset of each partition, behind the record that was given last.
    """

    def __init__(self, cluster: Cluster, positions: Mapping[TopicPartition, int], view: View) -> None:
        self._cluster = cluster
        self._view = view
        self.positions = dict(positions)

    def to_the_end(self) -> Iterator[Seen]:
        """What is there now, one partition after the other."""
        ends = self._ends()
        for where in sorted(self.positions):
            yield from self._read(where, ends[where])

    def for_ever(self) -> Iterator[Seen | None]:
        """What is there, and what comes; partitions take turns. None before it waits for more."""
        while True:
            ends = self._ends()
            behind = [where for where in sorted(self.positions) if self.positions[where] < ends[where]]
            for where in behind:
                yield from self._read(where, min(ends[where], self.positions[where] + TURN_OFFSETS))
            if not behind:
                yield None
                time.sleep(POLL_S)

    @wanted(Operation.READ)
    def _ends(self) -> dict[TopicPartition, int]:
        return latest(self._cluster, self.positions, self._view.isolation)

    def _read(self, where: TopicPartition, end: int) -> Iterator[Seen]:
        for seen in read_range(self._cluster, where, self.positions[where], end, self._view):
            self.positions[where] = seen.record.offset + 1
            yield seen
        self.positions[where] = max(end, self.positions[where])
