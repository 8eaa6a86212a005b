"""A window of a partition's log, batch by batch, each with its outcome: committed, aborted, open or plain.

Below the last stable offset every transaction is decided, and the broker says which were aborted. Above it, a batch's
outcome is its producer's next marker. Without one up to the end it is open. If the end is too far away to read up to,
`DescribeProducers` tells who has something open, and the rest is `undecided`: ended, and we have not looked how.

Invariant: a window fetches at most `bytes_max`, however long the log is.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fencepost.client.cluster import Cluster
from fencepost.client.scanning import Content, ScannedBatch, scan_batches
from fencepost.errors import ClientError, TopicNotFound
from fencepost.observe.producers import producers_of
from fencepost.observe.stable import Bounds, bounds_of
from fencepost.wire.batch import BatchHeader
from fencepost.wire.records import Record, decode_marker
from fencepost.wire.terms import Isolation, TopicPartition

BYTES_MAX = 8 << 20
#: How much more is read to learn how transactions of the window end.
DECIDING_BYTES_MAX = 8 << 20
FETCH_BYTES = 512 << 10
BATCHES_MAX = 2_000
SAMPLE_BYTES = 4 << 10  #: a broker answers with one whole batch, however large it is


class Outcome(enum.StrEnum):
    PLAIN = "plain"  #: in no transaction
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNDECIDED = "undecided"  #: of a transaction that ended further up
    COMMIT_MARKER = "commit"
    ABORT_MARKER = "abort"
    OTHER_MARKER = "control"

    @property
    def is_marker(self) -> bool:
        return self in (Outcome.COMMIT_MARKER, Outcome.ABORT_MARKER, Outcome.OTHER_MARKER)


@dataclass(frozen=True, slots=True)
class LogBatch:
    header: BatchHeader
    outcome: Outcome
    ends_at: int | None = None  #: the offset of the marker that ended its transaction, if it was seen
    records: tuple[Record, ...] = ()  #: only if asked for


@dataclass(frozen=True, slots=True)
class Window:
    bounds: Bounds
    batches: tuple[LogBatch, ...]
    next_offset: int  #: where the next window begins

    @property
    def is_last(self) -> bool:
        return self.next_offset >= self.bounds.end


def bounds(cluster: Cluster, where: TopicPartition) -> Bounds:
    """Raises a ClientError that says why they cannot be had."""
    found = bounds_of(cluster, [where])
    if where not in found.found:
        failure = found.failed.get(where)
        raise TopicNotFound(f"{where}: {failure or 'there is no such partition'}")
    return found.found[where]


def read_window(
    cluster: Cluster,
    where: TopicPartition,
    start: int,
    *,
    batches_max: int = BATCHES_MAX,
    bytes_max: int = BYTES_MAX,
    with_records: bool = False,
) -> Window:
    """Batches from the one with offset `start` on. A start before the log's is moved to it."""
    found = bounds(cluster, where)
    start = max(start, found.log_start)
    taken: list[LogBatch] = []
    size, position = 0, start
    for batch in _raw(cluster, where, start, found):
        taken.append(_judged(batch, found, with_records))
        size += batch.header.size
        position = batch.header.last_offset + 1
        if len(taken) >= batches_max or size >= bytes_max:
            break
    else:
        position = max(start, found.end)
    return Window(found, _decided(cluster, found, taken, position), position)


def _raw(
    cluster: Cluster, where: TopicPartition, start: int, found: Bounds, fetch_bytes: int = FETCH_BYTES
) -> Iterator[ScannedBatch]:
    yield from scan_batches(cluster, where, start, found.stable, fetch_bytes=fetch_bytes)
    begin = max(start, found.stable)
    yield from scan_batches(
        cluster, where, begin, found.end, fetch_bytes=fetch_bytes, isolation=Isolation.READ_UNCOMMITTED
    )


def _judged(batch: ScannedBatch, found: Bounds, with_records: bool) -> LogBatch:
    """What the batch itself tells. A transactional one above the last stable offset is undecided for now."""
    header = batch.header
    records = tuple(batch.records()) if with_records and batch.content is not Content.CONTROL else ()
    if batch.content is Content.CONTROL:
        return LogBatch(header, _marker(batch))
    if not header.is_transactional:
        return LogBatch(header, Outcome.PLAIN, records=records)
    if batch.content is Content.ABORTED:
        return LogBatch(header, Outcome.ABORTED, records=records)
    is_stable = header.base_offset < found.stable
    return LogBatch(header, Outcome.COMMITTED if is_stable else Outcome.UNDECIDED, records=records)


def _marker(batch: ScannedBatch) -> Outcome:
    marker = decode_marker(batch.data)
    if marker is None:
        return Outcome.OTHER_MARKER
    return Outcome.COMMIT_MARKER if marker.commit else Outcome.ABORT_MARKER


def _decided(cluster: Cluster, found: Bounds, taken: list[LogBatch], position: int) -> tuple[LogBatch, ...]:
    """With the outcomes that markers further up give."""
    wanted = {each.header.producer_id for each in taken if each.outcome is Outcome.UNDECIDED}
    later: list[LogBatch] = []
    has_seen_all = position >= found.end
    if wanted and not has_seen_all:
        later, has_seen_all = _later_markers(cluster, found, position, wanted)
    decided = with_markers([*taken, *later])[: len(taken)]
    still = {each.header.producer_id for each in decided if each.outcome is Outcome.UNDECIDED}
    if not still:
        return tuple(decided)
    opened = {} if has_seen_all else _open_since(cluster, found.where)
    return tuple(
        replace(each, outcome=Outcome.OPEN)
        if each.outcome is Outcome.UNDECIDED
        and (has_seen_all or each.header.base_offset >= opened.get(each.header.producer_id, found.end))
        else each
        for each in decided
    )


def with_markers(batches: list[LogBatch]) -> list[LogBatch]:
    """Each transactional batch with the marker that follows it. Pure; `batches` is in the log's order."""
    ends: dict[int, LogBatch] = {}
    decided: list[LogBatch] = []
    for each in reversed(batches):
        producer_id = each.header.producer_id
        if each.outcome.is_marker:
            ends[producer_id] = each
        elif each.header.is_transactional and (end := ends.get(producer_id)) is not None:
            outcome = each.outcome
            if outcome is Outcome.UNDECIDED:
                outcome = Outcome.COMMITTED if end.outcome is Outcome.COMMIT_MARKER else Outcome.ABORTED
            each = replace(each, outcome=outcome, ends_at=end.header.base_offset)
        decided.append(each)
    return decided[::-1]


def _later_markers(cluster: Cluster, found: Bounds, position: int, wanted: set[int]) -> tuple[list[LogBatch], bool]:
    """The next marker of each of these producers, and whether all of the log was read for them."""
    left, size = set(wanted), 0
    markers: list[LogBatch] = []
    for batch in _raw(cluster, found.where, position, found):
        size += batch.header.size
        if batch.content is Content.CONTROL and batch.header.producer_id in left:
            markers.append(LogBatch(batch.header, _marker(batch)))
            left.discard(batch.header.producer_id)
        if not left or size >= DECIDING_BYTES_MAX:
            return markers, not left
    return markers, True


def _open_since(cluster: Cluster, where: TopicPartition) -> Mapping[int, int]:
    """By producer id; empty if the cluster does not tell."""
    try:
        producers = producers_of(cluster, [where]).found.get(where, ())
    except ClientError:
        return {}
    return {each.producer_id: each.txn_start_offset for each in producers if each.txn_start_offset is not None}


def sample(cluster: Cluster, where: TopicPartition, start: int, end: int, points: int) -> list[LogBatch]:
    """A batch at each of so many places between two offsets: what a log of millions of offsets looks like."""
    found = bounds(cluster, where)
    start, end = max(start, found.log_start), min(end, found.end)
    if end <= start:
        return []
    taken: dict[int, LogBatch] = {}
    for point in range(points):
        offset = start + (end - start) * point // points
        batch = next(_raw(cluster, where, offset, found, SAMPLE_BYTES), None)
        if batch is not None:
            taken[batch.header.base_offset] = _judged(batch, found, with_records=False)
    opened = _open_since(cluster, where)
    return [
        replace(each, outcome=Outcome.OPEN)
        if each.outcome is Outcome.UNDECIDED
        and each.header.base_offset >= opened.get(each.header.producer_id, found.end)
        else each
        for each in taken.values()
    ]
