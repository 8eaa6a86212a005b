"""A page of a partition's records, with the outcome of each, from an offset or a time on, through a filter.

Invariant: a page fetches at most `BYTES_MAX` and says where the next one begins, so a filter that matches nothing in a
large partition answers soon, and can be continued.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import at_times
from fencepost.console import logs
from fencepost.console.logs import LogBatch, Outcome, read_window
from fencepost.wire.records import Record
from fencepost.wire.terms import Isolation, TopicPartition

BYTES_MAX = 8 << 20
LIMIT_MAX = 500
DOWNLOAD_MAX = 10_000
WINDOW_BATCHES = 200


class View(enum.StrEnum):
    COMMITTED = "read_committed"  #: what such a reader sees
    UNCOMMITTED = "read_uncommitted"  #: everything but markers

    def shows(self, outcome: Outcome, offset: int, stable: int) -> bool:
        if outcome.is_marker:
            return False
        if self is View.UNCOMMITTED:
            return True
        return outcome in (Outcome.PLAIN, Outcome.COMMITTED) and offset < stable


@dataclass(frozen=True, slots=True)
class Wanted:
    view: View = View.UNCOMMITTED
    text: str = ""  #: in the key, the value or a header
    outcome: Outcome | None = None
    producer_id: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Page:
    found: tuple[tuple[Record, LogBatch], ...]
    next_offset: int
    is_last: bool
    searched: int  #: records that were looked at


def offset_at(cluster: Cluster, where: TopicPartition, time_ms: int) -> int:
    """Of the first record at or after a time; the end, if there is none."""
    found = at_times(cluster, {where: time_ms}, Isolation.READ_UNCOMMITTED)[where]
    return logs.bounds(cluster, where).end if found is None else found


def last_start(cluster: Cluster, where: TopicPartition, count: int) -> int:
    """Where the last offsets begin."""
    known = logs.bounds(cluster, where)
    return max(known.log_start, known.end - count)


def read_page(cluster: Cluster, where: TopicPartition, start: int, wanted: Wanted) -> Page:
    found: list[tuple[Record, LogBatch]] = []
    size = searched = 0
    position = start
    matches = _matcher(wanted)
    while True:
        window = read_window(
            cluster, where, position, batches_max=WINDOW_BATCHES, bytes_max=BYTES_MAX - size, with_records=True
        )
        for batch in window.batches:
            size += batch.header.size
            for record in batch.records:
                if record.offset < position:
                    continue
                searched += 1
                if wanted.view.shows(batch.outcome, record.offset, window.bounds.stable) and matches(record, batch):
                    found.append((record, batch))
                    if len(found) >= wanted.limit:
                        is_last = record.offset + 1 >= window.bounds.end
                        return Page(tuple(found), record.offset + 1, is_last, searched)
        position = window.next_offset
        if window.is_last or size >= BYTES_MAX:
            return Page(tuple(found), position, window.is_last, searched)


def _matcher(wanted: Wanted) -> Callable[[Record, LogBatch], bool]:
    needle = wanted.text.encode().lower()

    def matches(record: Record, batch: LogBatch) -> bool:
        if wanted.outcome is not None and batch.outcome is not wanted.outcome:
            return False
        if wanted.producer_id is not None and batch.header.producer_id != wanted.producer_id:
            return False
        return not needle or any(needle in each.lower() for each in _texts(record))

    return matches


def _texts(record: Record) -> Iterator[bytes]:
    yield record.key or b""
    yield record.value or b""
    for name, value in record.headers:
        yield name.encode()
        yield value or b""
