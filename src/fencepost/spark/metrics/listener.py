"""Listens to Spark's queries and to our transactions, and writes both into the book.

With Spark Connect our transactions are in a process of the server. Its totals are a setting of the session
(`sink.progress`), which this listener asks for with every progress of a query: one call per batch.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from fencepost.metrics.histogram import NS_PER_MS
from fencepost.spark.metrics.book import BOOK, QueryFacts
from fencepost.spark.sessions import is_connect
from fencepost.spark.sink.progress import TransactionProgress, of_remote_query, subscribe
from fencepost.spark.source.lag import lag_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

#: Of these only one may write into the book: it is the process's, and so are the transactions.
_writers: list[object] = []


class QueryListener(StreamingQueryListener):
    """For `spark.streams.addListener`. Several may listen; the first one writes."""

    def __init__(self, session: "SparkSession", on_commit: Callable[[TransactionProgress], None] | None = None) -> None:
        super().__init__()
        self._session = session
        self._on_commit = on_commit
        _writers.append(self)
        self._unsubscribe = subscribe(self._committed)

    def close(self) -> None:
        """Call it after the listener was removed from the session."""
        if self in _writers:
            _writers.remove(self)
            self._unsubscribe()

    # -- from the sink -----------------------------------------------------------------------------------------------

    def _committed(self, done: TransactionProgress) -> None:
        if self._keeps_book:
            BOOK.committed(done)
        if self._on_commit is not None and not done.was_skipped:
            self._on_commit(done)

    # -- from Spark --------------------------------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        if self._keeps_book:
            BOOK.start(str(event.id), event.name or str(event.id))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if self._keeps_book:
            BOOK.change(str(event.progress.id), lambda facts: _progressed(facts, event.progress))
        if is_connect(self._session):
            self._ask(str(event.progress.id))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if self._keeps_book:
            BOOK.end(str(event.id), has_failed=event.exception is not None)

    @property
    def _keeps_book(self) -> bool:
        return _writers[:1] == [self]

    def _ask(self, query_id: str) -> None:
        try:
            sums = of_remote_query(self._session, query_id)
        except Exception as error:  # the query goes on without its metrics
            logger.warning("the progress of query %s cannot be read: %s", query_id, error)
            return
        done = None if sums is None else BOOK.told(sums)
        if done is not None:
            self._committed(done)


def _progressed(facts: QueryFacts, progress: Any) -> None:
    facts.name = progress.name or str(progress.id)
    facts.input_rows += max(0, progress.numInputRows)
    duration_ms = (progress.durationMs or {}).get("triggerExecution")
    if duration_ms is not None:
        facts.batches.observe_ns(int(duration_ms) * NS_PER_MS)
    lag = lag_in(progress)
    facts.lag_offsets = facts.lag_offsets if lag is None else lag.total_offsets
