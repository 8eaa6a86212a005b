"""How an attempt at a batch ends in Kafka: the ledger entry and the offsets join its transaction, then the commit.

Shared by both sinks: the one in the driver (`pipeline`) and the one behind Spark's standard writer API
(`stream_commit`). Invariant: the ledger entry and the offsets are in the transaction of the records that they stand
for.
"""

from fencepost.client.cluster import Cluster
from fencepost.client.transaction import AbortedBy, SharedTransaction, timed_out
from fencepost.client.writing import TransactionWriter
from fencepost.errors import Fenced, FencepostError, TransactionFailed
from fencepost.spark import ledger
from fencepost.spark.ledger import LedgerEntry
from fencepost.spark.sink import steps
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.sink.standing import Standing
from fencepost.spark.sink.steps import BatchStep


def commit(transaction: SharedTransaction, batch: MicroBatch, entry: LedgerEntry, standing: Standing) -> None:
    """Add the ledger entry and the offsets to the open transaction, and commit it."""
    write_ledger(standing.cluster, standing.pipeline, transaction, entry)
    transaction.add_offsets(standing.pipeline, standing.offsets_of(batch))
    steps.hook(BatchStep.OFFSETS_ADDED, batch.batch_id)
    steps.hook(BatchStep.COMMITTING, batch.batch_id)
    transaction.commit()
    standing.committed(entry)
    steps.hook(BatchStep.COMMITTED, batch.batch_id)


def write_ledger(cluster: Cluster, pipeline: str, transaction: SharedTransaction, entry: LedgerEntry) -> None:
    with TransactionWriter(cluster, transaction.identity) as writer:
        writer.write(ledger.place(pipeline), ledger.blob(pipeline, entry))


def cause_of(error: Exception, transaction: SharedTransaction | None, timeout_ms: int) -> Exception:
    """Fenced does not always mean that there is a successor.

    We may have been too slow: a coordinator that aborts after the timeout raises the epoch, too. Or the pipeline was
    idle for so long that the cluster has forgotten its id (`transactional.id.expiration.ms`).
    """
    if not isinstance(error, Fenced) or transaction is None or not transaction.is_open:
        return error
    open_for_s = transaction.open_for_s
    try:
        by = transaction.abort()
    except FencepostError:
        return error
    if by is AbortedBy.EXPIRY:
        return TransactionFailed(f"the cluster has forgotten {transaction.identity}, which was idle for too long")
    if by is not AbortedBy.TIMEOUT:
        return error
    return timed_out(transaction.identity, open_for_s, timeout_ms)
