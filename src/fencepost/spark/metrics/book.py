"""What is known of the pipelines and queries of this process, for whoever shows it.

Totals are those of `sink.progress`. What they do not have is added here: how commit times spread, when the last commit
was, and what Spark tells of a query's batches and lag. Threads share the book: a query's, Spark's listener's, the
server's. Invariants: it grows with the number of pipelines and of queries that run, never with time; there is one entry
for each name of a query.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.metrics.histogram import LONG_BOUNDS_S, NS_PER_MS, Histogram
from fencepost.spark.sink import progress
from fencepost.spark.sink.progress import SinkProgress, TransactionProgress

#: Of queries that have ended: a driver may start one every minute, each with a checkpoint and so an id of its own.
ENDED_KEPT = 100


def _times() -> Histogram:
    return Histogram(LONG_BOUNDS_S)


@dataclass(slots=True)
class PipelineSums:
    """All queries of one pipeline in this process."""

    committed: int = 0
    skipped: int = 0
    aborted: int = 0
    records: int = 0
    bytes: int = 0
    dead_letters: Counter[str] = field(default_factory=Counter)
    restore_s: float = 0.0
    restored: int = 0

    def add(self, query: SinkProgress) -> None:
        self.committed += query.committed
        self.skipped += query.skipped
        self.aborted += query.aborted
        self.records += query.records
        self.bytes += query.bytes
        self.dead_letters.update(query.dead_letters)
        self.restore_s += query.restore_ms / 1000
        self.restored += query.restored


@dataclass(slots=True)
class PipelineTimes:
    """Since somebody first asked for metrics."""

    commits: Histogram = field(default_factory=_times)
    writes: Histogram = field(default_factory=_times)
    last_commit_s: float = 0.0  #: by the time of day; 0: none


@dataclass(slots=True)
class QueryFacts:
    """What Spark tells of a query."""

    name: str
    is_active: bool = True
    has_failed: bool = False
    input_rows: int = 0
    lag_offsets: int | None = None  #: None: Spark does not tell
    batches: Histogram = field(default_factory=_times)  #: their times, from trigger to trigger


class Book:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remote: dict[str, SinkProgress] = {}  #: of queries whose sink runs in a server of Spark Connect
        self._times: dict[str, PipelineTimes] = {}
        self._queries: dict[str, QueryFacts] = {}

    # -- what happened -----------------------------------------------------------------------------------------------

    def committed(self, done: TransactionProgress) -> None:
        if done.was_skipped:
            return
        with self._lock:
            times = self._times.setdefault(done.pipeline, PipelineTimes())
            times.commits.observe_ns(int(done.commit_ms * NS_PER_MS))
            times.writes.observe_ns(int(done.write_ms * NS_PER_MS))
            times.last_commit_s = time.time()

    def told(self, sums: SinkProgress) -> TransactionProgress | None:
        """What a server of Spark Connect says of a query. Its last transaction, if it is a new one."""
        with self._lock:
            before = self._remote.get(sums.query_id)
            self._remote[sums.query_id] = sums
        is_new = before is None or before.last != sums.last
        return sums.last if is_new else None

    def start(self, query_id: str, name: str) -> None:
        """It goes on where an earlier one of this name stopped, which had another id if its checkpoint was deleted."""
        with self._lock:
            ended = [each for each, facts in self._queries.items() if facts.name == name and not facts.is_active]
            facts = self._queries.pop(ended[-1]) if ended else self._queries.get(query_id, QueryFacts(name))
            facts.name, facts.is_active, facts.has_failed = name, True, False
            self._queries[query_id] = facts

    def end(self, query_id: str, *, has_failed: bool) -> None:
        with self._lock:
            facts = self._queries.pop(query_id, None) or QueryFacts(query_id)
            facts.is_active, facts.has_failed = False, has_failed
            self._queries[query_id] = facts  # the last one to have ended
            ended = [each for each, facts in self._queries.items() if not facts.is_active]
            for each in ended[:-ENDED_KEPT]:
                del self._queries[each]

    def change(self, query_id: str, change: Callable[[QueryFacts], None]) -> None:
        with self._lock:
            change(self._queries.setdefault(query_id, QueryFacts(query_id)))

    # -- what is known -----------------------------------------------------------------------------------------------

    def pipelines(self) -> dict[str, PipelineSums]:
        with self._lock:
            found = [*self._remote.values()]
        sums: dict[str, PipelineSums] = {}
        for query in [*progress.of_all_queries(), *found]:
            sums.setdefault(query.pipeline, PipelineSums()).add(query)
        return sums

    def times(self) -> dict[str, PipelineTimes]:
        with self._lock:
            return dict(self._times)

    def queries(self) -> list[tuple[str, QueryFacts]]:
        """With the pipeline of each, or an empty text if the query has no sink of ours, or none yet."""
        with self._lock:
            known = {query_id: sums.pipeline for query_id, sums in self._remote.items()}
            found = list(self._queries.items())
        known |= {sums.query_id: sums.pipeline for sums in progress.of_all_queries()}
        return [(known.get(query_id, ""), facts) for query_id, facts in found]


BOOK = Book()
