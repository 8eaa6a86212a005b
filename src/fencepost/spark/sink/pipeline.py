"""One micro-batch from beginning to end, in the driver: fence, decide, run, commit; and what to do when that fails.

======================================  ================================================================================
what happened                           what is done
======================================  ================================================================================
a task failed before it might write     Spark has tried it again as it does with any; the query fails with its error
a writer failed, or was started twice   abort, a new epoch, the whole batch again, a few times with pauses
a writer is stuck, the timeout passes   its job is cancelled; the same, once
the query is stopped                    abort, and say so in the words by which Spark knows it
the commit was refused for certain      the same
the commit may have been carried out    never abort: reclaim the id, read what is committed; then done, or again
another producer has the id             stop at once and undo nothing: a successor is at work
======================================  ================================================================================

Invariants: fencing comes before reading what is committed, so nothing older can still change it. An epoch is used for
one attempt. What is known to be committed is only ever learned from Kafka or from a commit that Kafka acknowledged.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fencepost.client.cluster import Cluster, TopicPartition
from fencepost.client.groups import CommittedOffset, committed_offsets
from fencepost.client.identity import ProducerIdentity
from fencepost.client.transaction import AbortedBy, SharedTransaction, timed_out
from fencepost.client.writing import TransactionWriter
from fencepost.errors import (
    BatchFailed,
    BootstrapFailed,
    ConnectionLost,
    Fenced,
    FencepostError,
    GaveUp,
    OutcomeUnknown,
    QueryStopped,
    TransactionFailed,
    TransactionTimedOut,
    WriteFailed,
)
from fencepost.spark import ledger
from fencepost.spark.ledger import LedgerEntry
from fencepost.spark.sink import microbatch, progress, steps
from fencepost.spark.sink.decide import Decision, decide
from fencepost.spark.sink.jobs import WriteJob, select_columns
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.sink.progress import TransactionProgress
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.sink.steps import Step
from fencepost.spark.state.plan import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

PAUSE_S = 0.2
PAUSE_MAX_S = 10.0
#: A cluster that has answered once may be away for so long, being restarted.
PATIENCE_MS = 60_000

#: A batch that outlasted its transaction twice will do it again.
TIMEOUTS_MAX = 2
#: By these words Spark knows that a function of ours was interrupted by its own `stop()`. It looks for them with an
#: expression that runs out of stack on the long account of a job that was cancelled, so they come alone.
STOPPED = "py4j.protocol.Py4JJavaError: An error occurred while calling the sink: java.lang.InterruptedException"
#: What may be gone when the batch is done again.
AGAIN = (WriteFailed, TransactionFailed, OutcomeUnknown, GaveUp, ConnectionLost, BootstrapFailed)


#: From the rows of a batch, and the pipeline's state, to records.
Transform = Callable[["DataFrame", State], "DataFrame"]


class Pipeline:
    """Call it as `foreachBatch` does. One object serves one query at a time, over any number of its starts."""

    def __init__(self, settings: SinkSettings, transform: Transform | None = None) -> None:
        self.settings = settings
        self.name = settings.pipeline
        self._transform = transform
        self._is_prepared = False
        self._lock = threading.Lock()
        self._run_id = ""
        self._cluster: Cluster | None = None
        self._transaction: SharedTransaction | None = None
        self._job: WriteJob | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._changelogs: dict[str, int] = {}
        self._last: tuple[str, int] | None = None

    def __call__(self, df: "DataFrame", batch_id: int) -> None:
        with self._lock:
            batch = microbatch.current(df, batch_id)
            self._do(df, batch)

    def prepare(self, df: "DataFrame") -> "DataFrame":
        """Check and select the columns of a whole query before it begins, so that its batches need not.

        ConfigError when they do not make records.
        """
        self._is_prepared = True
        return select_columns(df, self.settings.topic)

    def fence(self) -> None:
        """Take the id over before the query begins, and so undo what a dead predecessor left open.

        Otherwise its offsets, neither committed nor undone, would hold up a source that starts from what is committed,
        until the transaction timeout.
        """
        with self._lock:
            self._take_over()

    def close(self) -> None:
        """Give connections and the port back. The next batch opens them again."""
        if self._job is not None:
            self._job.close()
        if self._cluster is not None:
            self._cluster.close()
        self._run_id, self._job, self._cluster, self._transaction = "", None, None, None

    # -- a batch -----------------------------------------------------------------------------------------------------

    def _do(self, df: "DataFrame", batch: MicroBatch) -> None:
        aborted = timeouts = 0
        reasons: list[str] = []
        while True:
            try:
                self._start(df, batch)
                if self._decide(batch) is Decision.SKIP:
                    progress.note(TransactionProgress(self.name, batch.query_id, batch.batch_id, was_skipped=True))
                    return
                self._attempt(df, batch, aborted)
                return
            except Exception as raised:
                error = self._cause(raised)
                aborted += self._undo(batch, error)
                if microbatch.is_stopping(df, batch):
                    self.close()
                    raise QueryStopped(STOPPED) from None
                if not isinstance(error, AGAIN):
                    self.close()
                    raise
                reasons.append(str(error))
                timeouts += isinstance(error, TransactionTimedOut)
                if len(reasons) >= self.settings.attempts_max or timeouts >= TIMEOUTS_MAX:
                    self.close()
                    raise self._failed(batch, reasons, error) from error
            pause_s = min(PAUSE_MAX_S, PAUSE_S * 2 ** (len(reasons) - 1)) * random.uniform(0.5, 1.0)
            logger.warning("%s: batch %d again in %.1f s: %s", self.name, batch.batch_id, pause_s, reasons[-1])
            time.sleep(pause_s)

    def _attempt(self, df: "DataFrame", batch: MicroBatch, aborted: int) -> None:
        """Write the batch and commit it. Whatever is raised, nothing of it is visible, unless it is OutcomeUnknown."""
        transaction, job = self._transaction, self._job
        if transaction is None or job is None:
            raise BatchFailed("the pipeline was closed while a batch was under way")
        steps.hook(Step.DECIDED, batch.batch_id)

        def begin() -> ProducerIdentity:
            identity = transaction.begin()
            steps.hook(Step.WRITING, batch.batch_id)
            return identity

        state = State(self._open_cluster(), self.name, self.settings.state_directory, self._changelogs)
        try:
            records = df if self._transform is None else self._transform(df, state)
            if not self._is_prepared:
                records = select_columns(records, self.settings.topic)
            written = job.run(records, batch.offsets_count, begin)
        finally:
            state.release()
        steps.hook(Step.WRITTEN, batch.batch_id)
        if not written.records and not batch.moved:
            return  # nothing to write and nothing to remember
        identity = written.identity or begin()
        started_s = time.monotonic()
        self._commit(transaction, batch, {**self._changelogs, **state.partitions})
        progress.note(
            TransactionProgress(
                self.name,
                batch.query_id,
                batch.batch_id,
                producer_id=identity.producer_id,
                epoch=identity.epoch,
                records=written.records,
                bytes=written.bytes,
                aborted=aborted,
                write_ms=written.write_ms,
                commit_ms=(time.monotonic() - started_s) * 1000,
            )
        )

    def _commit(self, transaction: SharedTransaction, batch: MicroBatch, changelogs: dict[str, int]) -> None:
        """The ledger's entry and the offsets into the transaction, and the end of it."""
        entry = LedgerEntry(batch.query_id, batch.batch_id, {**self._committed, **batch.end}, changelogs)
        with TransactionWriter(self._open_cluster(), transaction.identity) as writer:
            writer.write(ledger.place(self.name), ledger.blob(self.name, entry))
        note = f"{batch.query_id}/{batch.batch_id}"
        here = self._topics_here(batch.moved)
        transaction.add_offsets(
            self.name, {where: CommittedOffset(end, note) for where, end in batch.moved.items() if where.topic in here}
        )
        steps.hook(Step.OFFSETS_ADDED, batch.batch_id)
        steps.hook(Step.COMMITTING, batch.batch_id)
        transaction.commit()
        steps.hook(Step.COMMITTED, batch.batch_id)
        self._committed.update(batch.end)
        self._changelogs = changelogs
        self._last = (batch.query_id, batch.batch_id)

    def _cause(self, error: Exception) -> Exception:
        """Whoever is refused may just have been too slow: a coordinator that aborts raises the epoch as well."""
        transaction = self._transaction
        if not isinstance(error, Fenced) or transaction is None or not transaction.is_open:
            return error
        open_for_s = transaction.open_for_s
        try:
            by = transaction.abort()
        except FencepostError:
            return error
        if by is not AbortedBy.TIMEOUT:
            return error
        return timed_out(transaction.identity, open_for_s, self.settings.transaction_timeout_ms)

    def _undo(self, batch: MicroBatch, error: Exception) -> int:
        """Make certain that nothing of the attempt remains. Gives how many transactions that undid."""
        transaction = self._transaction
        if transaction is None or isinstance(error, Fenced):
            return 0
        if isinstance(error, OutcomeUnknown):
            self._run_id = ""  # fence and read again: that tells, and undoes it if it was not committed
            return 0
        was_open = transaction.is_open
        try:
            transaction.abort()
        except Fenced:
            self.close()
            raise
        except FencepostError as abort_error:
            logger.warning("%s: %s could not be aborted yet: %s", self.name, transaction.identity, abort_error)
            self._run_id = ""
        if was_open:
            progress.note_abort(self.name, batch.query_id)
        return int(was_open)

    # -- what is known -----------------------------------------------------------------------------------------------

    def _start(self, df: "DataFrame", batch: MicroBatch) -> None:
        """At the start of a query, and whenever something is in doubt: fence, then read what is committed."""
        if self._run_id == batch.run_id:
            return
        self._take_over()
        cluster, settings = self._open_cluster(), self.settings
        ledger.ensure(cluster)
        if self._job is None:
            self._job = WriteJob(df.sparkSession, replace(settings, client=cluster.settings), cluster)
        entry = ledger.read_entry(cluster, settings.pipeline)
        self._committed = dict(entry.offsets) if entry is not None else {}
        self._last = (entry.query_id, entry.batch_id) if entry is not None else None
        self._changelogs = dict(entry.changelogs) if entry is not None else {}
        self._read_committed({*batch.end, *batch.start})
        self._run_id = batch.run_id
        steps.hook(Step.FENCED, batch.batch_id)

    def _take_over(self) -> None:
        if self._transaction is not None:
            self._transaction.reclaim()  # not init: a successor would be thrown out
            return
        transaction = SharedTransaction(
            self._open_cluster(),
            self.settings.transactional_id,
            timeout_ms=self.settings.transaction_timeout_ms,
            protocol=self.settings.protocol,
        )
        transaction.init()
        self._transaction = transaction

    def _read_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """The group's word stands above the ledger's: it may have been set on purpose. Expired offsets are missing."""
        found = committed_offsets(self._open_cluster(), self.name, sorted(partitions))
        self._committed.update({where: entry.offset for where, entry in found.items()})

    def _decide(self, batch: MicroBatch) -> Decision:
        if unknown := [where for where in batch.end if where not in self._committed]:
            self._read_committed(unknown)
        return decide(batch, self._committed, self._last)

    def _topics_here(self, offsets: Iterable[TopicPartition]) -> set[str]:
        """Input topics of another cluster have no group here: the ledger alone keeps their offsets."""
        names = {where.topic for where in offsets}
        return set(self._open_cluster().refresh(names, missing_ok=True)) if names else set()

    def _open_cluster(self) -> Cluster:
        if self._cluster is None:
            cluster = Cluster(self.settings.client)
            cluster.refresh([])  # a wrong address is told at once; a broker that goes away later is waited for
            cluster.settings = replace(self.settings.client, bootstrap_patience_ms=PATIENCE_MS)
            self._cluster = cluster
        return self._cluster

    def _failed(self, batch: MicroBatch, reasons: list[str], error: Exception) -> BatchFailed:
        is_unknown = isinstance(error, OutcomeUnknown)
        outcome = "the next start will find out whether it is visible" if is_unknown else "nothing of it is visible"
        tries = "; then ".join(dict.fromkeys(reasons))
        return BatchFailed(
            f"pipeline {self.name!r}: batch {batch.batch_id} failed {len(reasons)} times, and {outcome}: {tries}"
        )
