"""What lies behind a last stable offset: whose records readers wait for, and which of them they will get.

Read as read_uncommitted, batch by batch up to a limit in bytes. The markers on the way tell how each transaction ended,
so a record is *waiting* (committed, or of no transaction), *aborted* or *undecided* (its transaction is still open).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.client.cluster import Cluster
from fencepost.client.scanning import scan_batches
from fencepost.wire.batch import BatchHeader
from fencepost.wire.records import Marker, decode_marker
from fencepost.wire.terms import Isolation, TopicPartition

BYTES_MAX = 8 << 20
FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Undecided:
    """The records of one open transaction in one partition."""

    records: int
    first_offset: int
    last_offset: int
    first_ms: int | None  #: the timestamp of the first one


@dataclass(frozen=True, slots=True)
class Backlog:
    where: TopicPartition
    start: int
    end: int
    read_to: int  #: what is between this and `end` was not looked at
    waiting: int = 0  #: records that readers get as soon as nothing holds them
    aborted: int = 0  #: records that they never get
    open: Mapping[int, Undecided] = field(default_factory=dict)  #: by producer id

    @property
    def is_exact(self) -> bool:
        return self.read_to >= self.end

    @property
    def waiting_max(self) -> int:
        """At most so many records wait: all that was not looked at might."""
        return self.waiting + max(0, self.end - self.read_to)

    @property
    def undecided(self) -> int:
        return sum(each.records for each in self.open.values())


def read_backlog(
    cluster: Cluster, where: TopicPartition, start: int, end: int, bytes_max: int | None = BYTES_MAX
) -> tuple[Backlog, int]:
    """And how many bytes that took."""
    spent = 0

    def limited() -> Iterator[tuple[BatchHeader, Marker | None]]:
        nonlocal spent
        batches = scan_batches(
            cluster, where, start, end, fetch_bytes=FETCH_BYTES, isolation=Isolation.READ_UNCOMMITTED
        )
        for batch in batches:
            if bytes_max is not None and spent >= bytes_max:
                return
            spent += batch.header.size
            yield batch.header, decode_marker(batch.data) if batch.header.is_control else None

    found = sort_out(where, start, end, limited())
    return found, spent


def sort_out(
    where: TopicPartition, start: int, end: int, batches: Iterable[tuple[BatchHeader, Marker | None]]
) -> Backlog:
    """`batches` are those from `start` on, each with the marker that it is. Pure."""
    waiting = aborted = 0
    read_to = start
    pending: dict[int, Undecided] = {}
    for header, marker in batches:
        read_to = header.last_offset + 1
        if header.is_control:
            ended = pending.pop(header.producer_id, None) if marker is not None else None
            if ended is not None and marker is not None:
                waiting += ended.records if marker.commit else 0
                aborted += 0 if marker.commit else ended.records
        elif not header.is_transactional:
            waiting += header.record_count
        else:
            pending[header.producer_id] = _with(pending.get(header.producer_id), header)
    return Backlog(where, start, end, min(end, read_to), waiting, aborted, pending)


def _with(before: Undecided | None, header: BatchHeader) -> Undecided:
    if before is None:
        first_ms = header.base_timestamp if header.base_timestamp >= 0 else None
        return Undecided(header.record_count, header.base_offset, header.last_offset, first_ms)
    return Undecided(before.records + header.record_count, before.first_offset, header.last_offset, before.first_ms)
