"""What to do with a batch: run it, skip it because it has been done, or refuse it. Pure.

Spark repeats a batch when it does not know whether it was done: after a crash between Kafka's commit and Spark's own.
Kafka knows. For each partition of the input the committed offset is compared with where the batch begins and ends:

==============================  ========================================================================
committed, in every partition   then
==============================  ========================================================================
where the batch begins          it has not been done: RUN
where the batch ends            it has been done: SKIP
nothing yet                     no batch of this pipeline has read it: fits a beginning
both (no offset moves)          the ledger's last query and batch tell: the same, SKIP; another, RUN
anything else                   running could repeat records or leave some out: BatchRefused
==============================  ========================================================================
"""

import enum
from collections.abc import Mapping

from fencepost.client.cluster import TopicPartition
from fencepost.errors import BatchRefused
from fencepost.spark.sink.microbatch import MicroBatch

SHOWN_MAX = 5


class Decision(enum.Enum):
    RUN = enum.auto()
    SKIP = enum.auto()


def decide(batch: MicroBatch, committed: Mapping[TopicPartition, int], last: tuple[str, int] | None) -> Decision:
    """`committed` is what Kafka holds for the pipeline, `last` the query and batch of its last transaction."""
    begins = all(_fits_start(batch, where, committed.get(where)) for where in batch.end)
    ends = all(_fits_end(batch, where, committed.get(where)) for where in batch.end)
    if begins and ends:
        return Decision.SKIP if last == (batch.query_id, batch.batch_id) else Decision.RUN
    if begins:
        return Decision.RUN
    if ends:
        return Decision.SKIP
    raise BatchRefused(_explanation(batch, committed))


def _fits_start(batch: MicroBatch, where: TopicPartition, committed: int | None) -> bool:
    return committed is None or committed == batch.start.get(where)


def _fits_end(batch: MicroBatch, where: TopicPartition, committed: int | None) -> bool:
    end = batch.end[where]
    return committed == end or (committed is None and batch.start.get(where) == end)


def _explanation(batch: MicroBatch, committed: Mapping[TopicPartition, int]) -> str:
    odd = [where for where in sorted(batch.end) if not _fits_start(batch, where, committed.get(where))]
    seen = [
        f"{where}: the batch is {batch.start.get(where, '?')} to {batch.end[where]}, committed is {committed[where]}"
        for where in odd[:SHOWN_MAX]
    ]
    more = f" and {len(odd) - SHOWN_MAX} more partitions" if len(odd) > SHOWN_MAX else ""
    behind = any(committed[where] < batch.end[where] and committed[where] < batch.start.get(where, 0) for where in odd)
    what = "leave out" if behind else "repeat"
    return (
        f"batch {batch.batch_id} of query {batch.query_id} does not continue where the pipeline stopped, and would "
        f"{what} records: {'; '.join(seen)}{more}. Nothing was written. If this checkpoint is new or another "
        "pipeline's, start from what is committed: an empty checkpoint directory and startingOffsets=committed with "
        "the pipeline's name as kafka.group.id. If it is a new pipeline, give it a name of its own."
    )
