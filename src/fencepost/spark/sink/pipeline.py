"""One micro-batch from beginning to end, in the driver: fence, decide, run, commit; what to do if one of them fails.

======================================  ================================================================================
what happened                           what the pipeline does
======================================  ================================================================================
a task failed before it could write     Spark has retried it like any task; the query fails with the task's error
a writer failed, or was started twice   abort, take a new epoch, run the whole batch again, a few times with pauses
the commit was refused for certain      the same
a writer is stuck until the timeout     cancel the job, then the same, once
the query is stopped                    abort, and raise the error that Spark recognises as its own stop
the commit's outcome is unknown         never abort: reclaim the id, read the committed offsets; done, or run again
another producer has the id             stop at once and abort nothing: a successor is at work
the batch is already committed          write nothing. If Spark keeps state for the query, run its plan: the state's
                                        version follows the batch number
======================================  ================================================================================

Invariants: the id is fenced before committed offsets are read, so nobody older can change them afterwards. An epoch is
used for one attempt. What is committed is only learned from Kafka, or from a commit that Kafka acknowledged.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fencepost.client.cluster import Cluster
from fencepost.client.replication import Models
from fencepost.client.transaction import SharedTransaction
from fencepost.errors import (
    BatchFailed,
    BatchRefused,
    ConfigError,
    Fenced,
    FencepostError,
    InvariantBroken,
    NotColumnar,
    OutcomeUnknown,
    QueryStopped,
    TransactionTimedOut,
)
from fencepost.spark import ledger
from fencepost.spark.columnar.ranges import Columnar, ColumnarBatch
from fencepost.spark.ledger import LedgerEntry
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sessions import active_session, is_connect
from fencepost.spark.sink import active, microbatch, progress, queries, steps, stopping
from fencepost.spark.sink.arrow_transform import TransformArrow
from fencepost.spark.sink.batch import Batch, Write
from fencepost.spark.sink.columns import union_records
from fencepost.spark.sink.decide import BatchDecision, swallowed
from fencepost.spark.sink.ending import cause_of, commit, write_ledger
from fencepost.spark.sink.failures import AGAIN, AWAY, STOPPED, TIMEOUTS_MAX, batch_failed, pause_s
from fencepost.spark.sink.fencing import fence_by_task, take_over
from fencepost.spark.sink.jobs import JobResult, WriteJob, run_plan
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.sink.opening import Opening
from fencepost.spark.sink.progress import TransactionProgress
from fencepost.spark.sink.queries import Noted, RunningQuery
from fencepost.spark.sink.record_maker import RecordMaker, Transform
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.sink.standing import Standing, models
from fencepost.spark.sink.steps import BatchStep
from fencepost.spark.state.plan import State
from fencepost.spark.state.restoring import Restoring
from fencepost.spark.workers import patient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


class Pipeline:
    """What `batch_writer` returns. Pass it to `foreachBatch`, or use `batch` to write several DataFrames.

    One object serves one query at a time, over any number of its starts.
    """

    def __init__(
        self,
        settings: SinkSettings,
        transform: Transform | None = None,
        noted: Noted | None = None,
        transform_arrow: TransformArrow | None = None,
    ) -> None:
        self.settings = settings
        self.name = settings.pipeline
        self.noted = noted or Noted()
        self._maker = RecordMaker(settings, transform, transform_arrow)
        self._lock = threading.Lock()
        self._open_batch: MicroBatch | None = None  #: inside a block
        self._query: RunningQuery | None = None  #: that called last
        self._run_id = ""
        self._cluster: Cluster | None = None
        self._transaction: SharedTransaction | None = None
        self._job: WriteJob | None = None
        self._columnar: Columnar | None = None
        self._standing: Standing | None = None  #: valid while `_run_id` is that of the query
        self._restoring: Restoring | None = None
        self._done: tuple[str, int] | None = None  #: run id and number of the batch that ended last
        self._in_doubt: tuple[str, int] | None = None  #: of a batch whose commit has an unknown outcome

    def __getstate__(self) -> dict[str, Any]:
        """Spark Connect sends a copy to its server. Connections, and what was learned through them, stay here."""
        return {name: getattr(self, name) for name in ("settings", "noted", "_maker")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["settings"], noted=state["noted"])  # type: ignore[misc]
        self._maker = state["_maker"]

    def __call__(self, df: "DataFrame", batch_id: int) -> None:
        with self.batch(df, batch_id) as batch:
            batch.add(self._maker.records(df))

    def batch(self, df: "DataFrame", batch_id: int) -> Batch:
        """The micro-batch, to write several DataFrames in its one transaction::

            with writer.batch(df, batch_id) as batch:
                batch.write(invoices)
                batch.write(shipments, topic="shipments")

        `df` and `batch_id` are the arguments that `foreachBatch` passed. Everything is written and committed when the
        block ends. If the block raises, nothing is written.
        """
        return Batch(self, df, batch_id)

    def begin_batch(self, df: "DataFrame", batch_id: int) -> MicroBatch:
        """For `Batch` only, like `end_batch`. A pipeline has one batch at a time."""
        with one_line():
            return self._begin(df, batch_id)

    def _begin(self, df: "DataFrame", batch_id: int) -> MicroBatch:
        query = queries.calling(df, self.noted)
        with self._lock:
            try:
                found = microbatch.read(query, batch_id)
            except ConfigError:
                active.failed(self.settings, query.run_id, batch_id)
                if self._open_batch is None:  # otherwise another thread is using the transaction
                    self._query = query
                    self._note_failure(df, microbatch.unknown(query, batch_id))
                raise
            self._check_free(df, found)
            self._open_batch, self._query = found, query
        return found

    def _check_free(self, df: "DataFrame", found: MicroBatch) -> None:
        """Raises if another batch is open, or an earlier one failed."""
        unended = self._open_batch
        if unended is not None and unended.run_id == found.run_id:
            raise ConfigError(
                f"pipeline {self.name!r}: a batch is already open. Inside `with writer.batch(df, batch_id) as batch:` "
                "call batch.write(rows), not the writer"
            )
        if unended is not None and queries.is_active(df.sparkSession, unended.query_id):
            raise BatchRefused(active.in_use(self.settings, unended.query_id))
        failed = active.failed_before(self.settings, found.run_id, found.batch_id)
        if failed is not None:
            raise BatchRefused(swallowed(found, failed))

    def end_batch(self, batch: Batch, found: MicroBatch, *, has_failed: bool) -> None:
        active.failed(self.settings, found.run_id, found.batch_id)  # until it has succeeded
        try:
            with one_line(), stopping.batch():
                if has_failed:
                    self._note_failure(batch.df, found)
                    return
                self._do(batch, found)
            active.done(self.settings)
        finally:
            self._open_batch = None

    @property
    def takes_tables(self) -> bool:
        """Whether a function on Arrow tables makes the records."""
        return self._maker.transform_arrow is not None

    def prepare(self, df: "DataFrame") -> "DataFrame":
        """Check and select the columns once for the whole query, before it starts.

        Raises ConfigError if a column is missing or wrong.
        """
        return self._maker.prepare(df)

    def fence(self, session: "SparkSession | None" = None) -> None:
        """Take the id over before the query starts, which aborts what a dead predecessor left open (`fencing`).

        `session` is the one of this program unless given.
        """
        session = session or active_session()
        if session is not None and is_connect(session):
            fence_by_task(session, self.settings)
            return
        with self._lock:
            self._take_over()

    def close(self) -> None:
        """Close connections and the port. The next batch opens them again."""
        if self._job is not None:
            self._job.close()
        if self._columnar is not None:
            self._columnar.close()
        if self._cluster is not None:
            self._cluster.close()
        self._run_id, self._job, self._cluster, self._transaction = "", None, None, None

    # -- a batch -----------------------------------------------------------------------------------------------------

    def _do(self, given: Batch, batch: MicroBatch) -> None:
        df = given.df
        aborted = timeouts = 0
        reasons: list[str] = []
        while True:
            try:
                with stopping.interruptible(df.sparkSession):
                    if self._run_id != batch.run_id and not self._calling().is_active():
                        raise QueryStopped("the query was stopped")  # its successor may have the id already
                    standing = self._start(df, batch)
                batch = standing.locate(batch)
                if standing.decide(batch) is BatchDecision.RUN:
                    self._attempt(given, batch, standing, given.writes, aborted)
                elif missing := self._missing(given, batch, standing):
                    self._attempt(given, batch, standing, missing, aborted)
                else:
                    self._skip(df, batch, standing)
                self._done, self._in_doubt = (batch.run_id, batch.batch_id), None
                return
            except Exception as raised:
                error = cause_of(raised, self._transaction, self.settings.transaction_timeout_ms)
                aborted += self._undo(batch, error)
                if stopping.is_asked() or not self._calling().is_active():
                    self.close()
                    raise QueryStopped(STOPPED) from None
                if isinstance(error, NotColumnar) and self._columnar is not None:
                    logger.info("%s: batch %d is run on rows by Spark: %s", self.name, batch.batch_id, error)
                    self._columnar.refuse(batch.batch_id)
                    continue
                if not isinstance(error, AGAIN):
                    if not isinstance(error, (Fenced, BatchRefused)):
                        self._note_failure(df, batch)
                    self.close()
                    raise
                reasons.append(str(error))
                timeouts += isinstance(error, TransactionTimedOut)
                if len(reasons) >= self.settings.attempts_max or timeouts >= TIMEOUTS_MAX:
                    if not isinstance(error, AWAY):
                        self._note_failure(df, batch)
                    self.close()
                    raise batch_failed(self.name, batch.batch_id, reasons, error) from error
            wait_s = pause_s(len(reasons))
            logger.warning("%s: batch %d again in %.1f s: %s", self.name, batch.batch_id, wait_s, reasons[-1])
            with stopping.interruptible(df.sparkSession):
                time.sleep(wait_s)

    def _skip(self, df: "DataFrame", batch: MicroBatch, standing: Standing) -> None:
        """The batch is committed. Spark's state for it may not be, and running the plan commits it."""
        if not standing.is_last(batch):  # a new checkpoint, or one of another query: only the offsets tell
            logger.warning(
                "%s: batch %d of query %s ends where the pipeline stands already. Nothing is written",
                *(self.name, batch.batch_id, batch.query_id),
            )
        if standing.keeps_state:
            with stopping.interruptible(df.sparkSession):
                run_plan(df)
        progress.note(TransactionProgress(self.name, batch.query_id, batch.batch_id, was_skipped=True), df.sparkSession)

    def _missing(self, given: Batch, batch: MicroBatch, standing: Standing) -> Sequence[Write]:
        """The writes of a committed batch that are still missing: none, unless only a part of it was committed.

        Within one run of a query Spark asks for a batch once. So if the batch was committed in this run, the user's
        function calls the writer several times. The first call is committed and final. The ledger notes that other
        writes are missing.
        """
        last = standing.last
        if last is None or not standing.is_last(batch):
            return []
        this = (batch.run_id, batch.batch_id)
        if last.is_unfinished:
            if len(given.writes) > last.writes:
                return given.writes[last.writes :]
        elif this != self._done and (last.run_id != batch.run_id or this == self._in_doubt):
            return []
        else:
            self._amend_ledger(replace(last, is_unfinished=True))
        raise BatchRefused(
            f"pipeline {self.name!r}: the writer was called twice for batch {batch.batch_id}. The first call is "
            "committed, the second has written nothing. Write everything in one block, which is one transaction, in "
            "the same order: `with writer.batch(df, batch_id) as batch: batch.write(first); batch.write(second)`. The "
            "next start then writes what is missing of this batch"
        )

    def _amend_ledger(self, entry: LedgerEntry) -> None:
        """In a transaction of its own."""
        transaction, _ = self._opened()
        transaction.begin()
        write_ledger(self._open_cluster(), self.name, transaction, entry)
        transaction.commit()

    def _note_failure(self, df: "DataFrame", batch: MicroBatch) -> None:
        """Put it into the ledger that a batch failed, so that a later batch is refused. Not for cluster outages."""
        try:
            standing = self._start(df, batch)
            if not standing.is_last(batch):
                self._amend_ledger(standing.entry_of_failure(batch))
        except FencepostError as error:
            logger.warning("%s: the failure of batch %d is not in the ledger: %s", self.name, batch.batch_id, error)

    def _attempt(
        self, given: Batch, batch: MicroBatch, standing: Standing, writes: Sequence[Write], aborted: int
    ) -> None:
        """Write the batch and commit it. If it raises, nothing is visible, except perhaps after OutcomeUnknown."""
        transaction, job = self._opened()
        steps.hook(BatchStep.DECIDED, batch.batch_id)
        opening = Opening(transaction, lambda: steps.hook(BatchStep.WRITING, batch.batch_id))
        alike = Models(batch.here, self.settings.replication_factor)
        restoring = self._restoring = self._restoring or Restoring(given.df.sparkSession)
        directory = self.settings.state_directory
        state = State(self._open_cluster(), self.name, directory, standing.changelogs, alike, restoring)
        # With Spark's own state the size of the input says nothing about the output.
        rows_max = None if standing.keeps_state else batch.offsets_count
        written = JobResult()
        try:
            if writes:
                with stopping.interruptible(given.df.sparkSession), given.shared(writes):
                    columnar = self._columnar_batch(batch)
                    rows = given.df if columnar is not None else union_records([make(state) for make in writes])
                    arrow = self._maker.arrow(given.df)
                    is_free = self._maker.is_prepared and self._calling().runs_python() is False
                    written = job.run(
                        *(rows, rows_max, opening, batch.batch_id, state.topics, arrow),
                        is_free=is_free,
                        columnar=columnar,
                    )
            elif standing.keeps_state:
                with stopping.interruptible(given.df.sparkSession):
                    run_plan(given.df)
        finally:
            state.release()
            if state.changelogs and (restored := restoring.since_last()):
                progress.note_restored(self.name, batch.query_id, restored.seconds * 1000, restored.records)
        steps.hook(BatchStep.WRITTEN, batch.batch_id)
        if not written.records and not written.dead_letters and not batch.moved and not standing.mentions(batch):
            return  # nothing to write, and the ledger need not change
        identity = opening.begin()
        started_s = time.monotonic()
        commit(transaction, batch, standing.entry_of(batch, state.changelogs, len(given.writes)), standing)
        commit_ms = (time.monotonic() - started_s) * 1000
        if written.rows_read is not None:
            queries.note_rows(self._calling(), written.rows_read)
        progress.note(
            TransactionProgress(
                self.name,
                batch.query_id,
                batch.batch_id,
                producer_id=identity.producer_id,
                epoch=identity.epoch,
                records=written.records,
                dead_letters=written.dead_letters,
                bytes=written.bytes,
                aborted=aborted,
                write_ms=written.write_ms,
                commit_ms=commit_ms,
            ),
            given.df.sparkSession,
        )

    def _columnar_batch(self, batch: MicroBatch) -> ColumnarBatch | None:
        """The batch for evaluation on columns; None if Spark has to compute its rows."""
        if self._columnar is None and self._maker.columnar is not None:
            self._columnar = Columnar(self._maker.columnar)
        if self._columnar is None or len(batch.ranges) != 1 or batch.others:
            return None
        try:
            return self._columnar.batch(batch.batch_id, *batch.ranges[0])
        except FencepostError as error:  # Spark's task will find the same, and report it as that of a source
            logger.info("%s: batch %d is run on rows by Spark: %s", self.name, batch.batch_id, error)
            return None

    def _undo(self, batch: MicroBatch, error: Exception) -> int:
        """Make sure that nothing of the attempt remains. Returns the number of aborted transactions."""
        transaction = self._transaction
        if transaction is None or isinstance(error, Fenced):
            return 0
        if isinstance(error, OutcomeUnknown):
            self._run_id = ""  # fencing aborts it unless it was committed; then the committed offsets are read
            self._in_doubt = (batch.run_id, batch.batch_id)
            return 0
        was_open = transaction.is_open
        if (stopping.is_asked() or isinstance(error, QueryStopped)) and self._cluster is not None:
            self._cluster.close()  # a connection may have been interrupted in the middle of an answer
        try:
            transaction.abort()
        except Fenced:
            self.close()
            raise
        except FencepostError as abort_error:
            logger.warning("%s: cannot abort %s yet: %s", self.name, transaction.identity, abort_error)
            self._run_id = ""
        if was_open:
            progress.note_abort(self.name, batch.query_id)
        return int(was_open)

    # -- what is known -----------------------------------------------------------------------------------------------

    def _start(self, df: "DataFrame", batch: MicroBatch) -> Standing:
        """At the start of a query, and whenever an outcome is unknown: fence, then read what is committed."""
        if self._standing is not None and self._run_id == batch.run_id:
            return self._standing
        session = df.sparkSession
        active.begin(self.settings, batch.query_id, batch.run_id, lambda query: queries.is_active(session, query))
        active.tell(session, self.settings, batch.query_id, self.noted.checkpoint)
        self._take_over()
        cluster, settings = self._open_cluster(), self.settings
        ledger.ensure(cluster, models(cluster, settings, batch))
        if self._job is None:
            self._job = WriteJob(session, replace(settings, client=cluster.settings), cluster)
        self._standing = Standing.read(cluster, settings, self._calling(), batch)
        self._run_id = batch.run_id
        steps.hook(BatchStep.FENCED, batch.batch_id)
        return self._standing

    def _take_over(self) -> None:
        if self._transaction is not None:
            self._transaction.reclaim()  # not init, which would fence a successor
            return
        self._transaction = take_over(self._open_cluster(), self.settings)

    def _opened(self) -> tuple[SharedTransaction, WriteJob]:
        if self._transaction is None or self._job is None:
            raise BatchFailed("the pipeline was closed while a batch was under way")
        return self._transaction, self._job

    def _calling(self) -> RunningQuery:
        if self._query is None:
            raise InvariantBroken("a batch is under way without a query")
        return self._query

    def _open_cluster(self) -> Cluster:
        if self._cluster is None:
            cluster = Cluster(self.settings.client)
            cluster.refresh([])  # a wrong address fails at once; a broker that goes away later is waited for
            cluster.settings = patient(self.settings.client)
            self._cluster = cluster
        return self._cluster
