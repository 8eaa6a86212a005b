"""All that one transaction wrote: its records in every topic, and the offsets of groups that it committed.

A partition does not know the transaction's other partitions; the coordinators' log does, for transactions of late.
Without it, partitions that remember the producer are searched. In each of them the transaction is found by its producer
and by the time of its marker, which is the same everywhere within a moment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import at_times
from fencepost.console.logs import LogBatch, Outcome, read_window
from fencepost.coordinator.group.records import OffsetKey, read_commit, read_key
from fencepost.errors import ClientError, Malformed
from fencepost.observe.hanging import every_partition
from fencepost.observe.producers import producers_of
from fencepost.wire.terms import CONSUMER_OFFSETS, Isolation, TopicPartition

#: Clocks of producers and brokers differ.
SLACK_MS = 5_000
WINDOW_BYTES = 4 << 20
WINDOWS_MAX = 4
PARTITIONS_MAX = 200
#: If a partition has no timestamps that help, so many of its last offsets are searched.
TAIL_OFFSETS = 5_000


@dataclass(frozen=True, slots=True)
class Committed:
    group_id: str
    where: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Part:
    """What the transaction wrote to one partition."""

    where: TopicPartition
    outcome: Outcome | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    records: int = 0
    bytes: int = 0
    ends_at: int | None = None  #: its marker
    commits: tuple[Committed, ...] = ()
    problem: str = ""


def partitions_of_producer(cluster: Cluster, producer_id: int) -> list[TopicPartition]:
    """Those that remember it."""
    found = producers_of(cluster, every_partition(cluster)).found
    return [where for where, known in found.items() if any(each.producer_id == producer_id for each in known)]


def find_parts(
    cluster: Cluster,
    producer_id: int,
    partitions: Iterable[TopicPartition],
    start_ms: int,
    ended_ms: int | None,
) -> list[Part]:
    """In each of these partitions. `ended_ms` is None while the transaction is open."""
    wanted = sorted(partitions)[:PARTITIONS_MAX]
    since = at_times(cluster, dict.fromkeys(wanted, start_ms - SLACK_MS), Isolation.READ_UNCOMMITTED)
    found = []
    for where in wanted:
        try:
            found.append(_find(cluster, producer_id, where, since[where], ended_ms))
        except ClientError as error:
            found.append(Part(where, problem=str(error)))
    return found


def _find(cluster: Cluster, producer_id: int, where: TopicPartition, since: int | None, ended_ms: int | None) -> Part:
    first = read_window(cluster, where, 0, batches_max=1).bounds if since is None else None
    start = since if since is not None else max(0, first.end - TAIL_OFFSETS) if first is not None else 0
    has_offsets = where.topic == CONSUMER_OFFSETS
    seen: list[LogBatch] = []
    for _ in range(WINDOWS_MAX):
        window = read_window(cluster, where, start, bytes_max=WINDOW_BYTES, with_records=has_offsets)
        seen += [each for each in window.batches if each.header.producer_id == producer_id]
        if chosen := choose(seen, ended_ms):
            return _part(where, chosen)
        if window.is_last:
            break
        start = window.next_offset
    return Part(where, problem="its records were not found: compacted or deleted, or too far from its time")


def choose(seen: Sequence[LogBatch], ended_ms: int | None) -> list[LogBatch]:
    """The batches of a producer that belong to the transaction that ended then, or is open. Pure."""
    if ended_ms is None:
        return [each for each in seen if each.outcome is Outcome.OPEN]
    markers = [each for each in seen if each.outcome.is_marker]
    near = [each for each in markers if abs(each.header.max_timestamp - ended_ms) <= SLACK_MS]
    if not near:
        return []
    end = min(near, key=lambda each: abs(each.header.max_timestamp - ended_ms)).header.base_offset
    return [each for each in seen if each.ends_at == end]


def _part(where: TopicPartition, chosen: Sequence[LogBatch]) -> Part:
    return Part(
        where,
        chosen[0].outcome,
        chosen[0].header.base_offset,
        chosen[-1].header.last_offset,
        sum(each.header.record_count for each in chosen),
        sum(each.header.size for each in chosen),
        chosen[-1].ends_at,
        tuple(_commits(chosen)) if where.topic == CONSUMER_OFFSETS else (),
    )


def _commits(chosen: Sequence[LogBatch]) -> Iterable[Committed]:
    for record in (record for batch in chosen for record in batch.records):
        try:
            key, commit = read_key(record), read_commit(record)
        except Malformed:
            continue
        if isinstance(key, OffsetKey) and commit is not None:
            yield Committed(key.group_id, key.where, commit.offset)
