"""One micro-batch of `writeStream.format("fencepost")` from its finished record batches to its commit.

Spark calls this in a Python process on the driver's machine, which may serve one batch or many. Nothing is kept between
batches: each one takes over the transactional id, then reads what is committed, then decides. What happens if something
fails is as in `pipeline`: abort and try again; after an unknown outcome never abort, but reclaim the id and read again.

Why a batch is never written twice, whatever process is late: Kafka orders all takeovers of the id (InitProducerId).
Each aborts the open transaction of the one before, and from then on refuses it. So between a takeover and its commit
nobody else has committed, and what was read after the takeover is still true at the commit. Take an old process that
wakes up beside its successor, with the same batch or an older one:

- before the successor's takeover, it commits or is aborted; the successor reads which, and skips or writes the batch;
- after the successor's commit, it finds the batch in the ledger, or a later one, and writes nothing;
- in between, it takes the id away. The successor is fenced and its query stops with an error; the old process finds
  that the batch is not committed and writes it, once. The restarted query skips it.

Taking over costs an epoch per batch. The coordinator gives a new producer id after 32,766 of them.
"""

import logging
import time
from collections.abc import Sequence

from fencepost.client.cluster import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.errors import BatchRefused, Fenced, FencepostError, OutcomeUnknown, TransactionTimedOut
from fencepost.spark import ledger
from fencepost.spark.sink import steps
from fencepost.spark.sink.decide import BatchDecision
from fencepost.spark.sink.encoded import SentBlob, write_blobs
from fencepost.spark.sink.ending import cause_of, commit
from fencepost.spark.sink.failures import AGAIN, TIMEOUTS_MAX, batch_failed, pause_s
from fencepost.spark.sink.fencing import take_over
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.sink.queries import RunningQuery
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.sink.standing import Standing, models
from fencepost.spark.sink.steps import BatchStep

logger = logging.getLogger(__name__)


def commit_batch(
    cluster: Cluster, settings: SinkSettings, query: RunningQuery, batch: MicroBatch, blobs: Sequence[SentBlob]
) -> None:
    """Returns when the batch is committed, now or before. If it raises, the error says what is visible."""
    name, timeouts = settings.pipeline, 0
    reasons: list[str] = []
    transaction: SharedTransaction | None = None
    while True:
        try:
            if transaction is None:
                transaction = take_over(cluster, settings)
            else:
                transaction.reclaim()  # not init, which would fence a successor
            ledger.ensure(cluster, models(cluster, settings, batch))
            _attempt(transaction, Standing.read(cluster, settings, query, batch), batch, blobs)
            return
        except Exception as raised:
            error = cause_of(raised, transaction, settings.transaction_timeout_ms)
            _undo(name, transaction, error)
            if not isinstance(error, AGAIN):
                raise
            reasons.append(str(error))
            timeouts += isinstance(error, TransactionTimedOut)
            if len(reasons) >= settings.attempts_max or timeouts >= TIMEOUTS_MAX:
                raise batch_failed(name, batch.batch_id, reasons, error) from error
        wait_s = pause_s(len(reasons))
        logger.warning("%s: batch %d again in %.1f s: %s", name, batch.batch_id, wait_s, reasons[-1])
        time.sleep(wait_s)


def _attempt(transaction: SharedTransaction, standing: Standing, batch: MicroBatch, blobs: Sequence[SentBlob]) -> None:
    batch = standing.locate(batch)
    steps.hook(BatchStep.FENCED, batch.batch_id)
    if standing.decide(batch) is BatchDecision.SKIP:
        _check_skipped(batch, standing)
        return
    steps.hook(BatchStep.DECIDED, batch.batch_id)
    if not blobs and not batch.moved and not standing.mentions(batch):
        return  # nothing to write, and the ledger need not change
    identity = transaction.begin()
    steps.hook(BatchStep.WRITING, batch.batch_id)
    with TransactionWriter(standing.cluster, identity, sorted({blob.where for blob in blobs})) as writer:
        write_blobs(writer, blobs)
    steps.hook(BatchStep.WRITTEN, batch.batch_id)
    commit(transaction, batch, standing.entry_of(batch, {}, 1), standing)


def _check_skipped(batch: MicroBatch, standing: Standing) -> None:
    """The batch is committed: all of it, unless a foreachBatch function wrote only a part."""
    last = standing.last
    if last is not None and last.is_unfinished and standing.is_last(batch):
        raise BatchRefused(
            f"pipeline {standing.pipeline!r}: batch {batch.batch_id} was written in part, by a function for "
            "foreachBatch that called its writer twice. Nothing was written now. Start once with that function, with "
            "all writes in one block, then with this writer"
        )
    logger.warning("%s: batch %d is committed already. Nothing is written", standing.pipeline, batch.batch_id)


def _undo(pipeline: str, transaction: SharedTransaction | None, error: Exception) -> None:
    """Make sure that nothing of the attempt remains. After an unknown outcome, reclaiming the id does that."""
    if transaction is None or isinstance(error, (Fenced, OutcomeUnknown)):
        return
    try:
        transaction.abort()
    except Fenced:
        raise
    except FencepostError as abort_error:
        logger.warning("%s: cannot abort %s yet: %s", pipeline, transaction.identity, abort_error)
