"""What to do with a batch: run it, skip it because it is committed, or refuse it. Pure.

Spark repeats a batch if it crashed between Kafka's commit and its own, because it does not know the outcome. Kafka
does. The ledger's last entry names the query and batch that were committed last:

=======================================  ===============================================================================
the last committed batch                 decision
=======================================  ===============================================================================
is this one                              it is committed: SKIP
is the one before, or an earlier one     it is not committed: RUN
is a later one of this query             the checkpoint is older than what Kafka holds: BatchRefused
is another query's, or there is none     the committed offsets decide: equal to the batch's start RUN, to its end SKIP
=======================================  ===============================================================================

The committed offsets must always agree: if the batch runs, they equal its start in every partition; if it is skipped,
they equal its end. A partition without a committed offset fits any start, and any batch that does not move it. If the
offsets do not fit, running could repeat or lose records, and the batch is refused. A batch that moves no offset is
identified by its number alone.

If a source skipped deleted records because it was told to (failOnDataLoss=false), the committed offset may also be the
position where it should have begun.

There may be other batches of the same query between the last committed one and this one. Spark counts a batch as done
when the user's function returns, so that function wrote nothing for them (`if df.isEmpty(): return`). Then this batch
may begin after the ledger's offsets. But if one of them failed with one of our errors, and the function swallowed the
error, its records are missing: BatchRefused. If the error ended the query, the function may skip that batch when Spark
repeats it.

If the pipeline was reset, the last entry is that of the reset, which has a query id of its own. Then the batches of the
query that wrote before it are refused, whatever their offsets: its checkpoint is of another past.

A sink that cannot read the query's checkpoint does not know a batch's offsets (`has_offsets`). Then the number alone
identifies the batch. If the ledger has offsets, such a batch is refused: they would stay behind.

A query with another id has another checkpoint. If the old checkpoint held something that Kafka does not hold (Spark's
own state, positions of other sources), it would be lost: BatchRefused.
"""

import enum
from collections.abc import Mapping
from datetime import UTC, datetime

from fencepost.errors import BatchRefused
from fencepost.spark.ledger import InCheckpoint, LedgerEntry, Reached, Reset
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.topic_identity import describe, replaced_topics
from fencepost.wire.terms import TopicPartition

SHOWN_MAX = 5
FROM_COMMITTED = (
    "start from the committed offsets: use an empty checkpoint directory, and startingOffsets=committed with the "
    "pipeline's name as kafka.group.id"
)

Committed = Mapping[TopicPartition, Reached]


class BatchDecision(enum.Enum):
    RUN = enum.auto()
    SKIP = enum.auto()


def decide(batch: MicroBatch, committed: Committed, last: LedgerEntry | None) -> BatchDecision:
    """`committed` are the pipeline's committed offsets in Kafka, `last` is its last ledger entry."""
    if last is not None and last.reset is not None and last.reset.query_id == batch.query_id:
        raise BatchRefused(_was_reset(batch, last, last.reset))
    if not batch.has_offsets and committed:
        raise BatchRefused(_unreadable(batch))
    passed = _passed_over(batch, last)
    fits_start = all(_fits_start(batch, where, committed.get(where), passed.get(where)) for where in batch.end)
    fits_end = all(_fits_end(batch, where, committed.get(where)) for where in batch.end)
    if last is not None and last.failed is not None:
        query_id, failed = last.failed
        if query_id == batch.query_id and failed < batch.batch_id:
            raise BatchRefused(swallowed(batch, failed))
    if last is not None and last.query_id == batch.query_id:
        if last.batch_id > batch.batch_id:
            raise BatchRefused(_gone_back(batch, last))
        was_done = last.batch_id == batch.batch_id
    else:
        was_done = fits_end and bool(batch.moved)
    if was_done and fits_end:
        return BatchDecision.SKIP
    if not was_done and fits_start:
        return BatchDecision.RUN
    raise BatchRefused(_explanation(batch, committed, was_done=was_done) + _after_reset(last))


def check_topics(batch: MicroBatch, last: LedgerEntry | None) -> frozenset[str]:
    """The topics that were created again since the ledger's entry, if a source was told to read on regardless.

    Raises BatchRefused for such a topic if no source was told so.
    """
    replaced = {} if last is None else replaced_topics(last.topics, batch.topics)
    for name, was in replaced.items():
        if batch.replaced.get(name) != was:
            raise BatchRefused(
                f"topic {name!r} was deleted and created again since the pipeline read it ({describe(was)}, now "
                f"{describe(batch.topics[name])}): the old offsets mean nothing in the new topic. Nothing was written. "
                "To read the new topic from its first record, start the source with failOnDataLoss=false, and if the "
                "checkpoint is new also with startingOffsets=committed; or give the pipeline another name"
            )
    return frozenset(replaced)


def check_checkpoint(batch: MicroBatch, kept: frozenset[InCheckpoint], last: LedgerEntry | None) -> str | None:
    """What is lost if this query continues, in words; None if nothing is. `kept` is what its own checkpoint holds."""
    if last is None or last.query_id == batch.query_id:
        return None
    if last.reset is not None and last.reset.query_id == batch.query_id:
        return None  # `decide` refuses the old checkpoint, and says why
    is_next = batch.batch_id == last.batch_id + 1
    if batch.batch_id > 0 and (is_next or (batch.batch_id == last.batch_id and batch.moved)):
        return None  # the checkpoint is not new: only the query's id was lost, and the offsets tell what is committed
    lost = kept if last.in_checkpoint is None else kept & last.in_checkpoint
    words = {
        InCheckpoint.STATE: "the state of Spark's own stateful operators",
        InCheckpoint.POSITIONS: f"the position of {', '.join(batch.others) or 'a source that is not Kafka'}",
    }
    return " and ".join(words[kind] for kind in sorted(lost, key=lambda kind: kind.value)) if lost else None


def checkpoint_lost(batch: MicroBatch, last: LedgerEntry, lost: str) -> str:
    if last.reset is not None:
        return (
            f"batch {batch.batch_id} of query {batch.query_id} begins with a new checkpoint, as it must after a reset "
            f"({_when_reset(last, last.reset)}), and {lost} was only in the old one. Nothing was written. To continue "
            "without what it held, set the sink's option failOnStateLoss to false for one start"
        )
    return (
        f"batch {batch.batch_id} of query {batch.query_id} begins with a new checkpoint, but {lost} is only in the old "
        f"checkpoint of query {last.query_id}. Nothing was written. Start with the old checkpoint directory. Or, to "
        "continue without what it holds, set the sink's option failOnStateLoss to false for one start, or give the "
        "pipeline another name"
    )


def _passed_over(batch: MicroBatch, last: LedgerEntry | None) -> Committed:
    """The ledger's offsets, if batches have ended since then without writing anything."""
    if last is None or last.query_id != batch.query_id or last.batch_id + 1 >= batch.batch_id:
        return {}
    return last.reached


def swallowed(batch: MicroBatch, failed: int) -> str:
    return (
        f"batch {failed} of query {batch.query_id} failed and was not written, but the query continued with batch "
        f"{batch.batch_id}: the foreachBatch function swallowed the error. Nothing was written. Let the writer's "
        f"errors end the query. Then {FROM_COMMITTED}. Or, if that batch needs no output, keep "
        "the checkpoint and give the pipeline another name"
    )


def _fits_start(
    batch: MicroBatch, where: TopicPartition, committed: Reached | None, passed: Reached | None = None
) -> bool:
    start = batch.start.get(where)
    if committed is None or committed == start:
        return True
    if where in batch.skipped and committed == {batch.skipped[where]}:
        return True  # the source should have begun there; the records that are left begin at `start`
    return committed == passed and start is not None and max(committed) <= min(start)


def _fits_end(batch: MicroBatch, where: TopicPartition, committed: Reached | None) -> bool:
    end = batch.end[where]
    return committed == end or (committed is None and batch.start.get(where) == end)


def _gone_back(batch: MicroBatch, last: LedgerEntry) -> str:
    return (
        f"batch {batch.batch_id} of query {batch.query_id} is older than batch {last.batch_id}, which the pipeline has "
        "committed: the checkpoint was restored from a copy or lost files. Nothing was written. To continue, "
        f"{FROM_COMMITTED}"
    )


def _was_reset(batch: MicroBatch, last: LedgerEntry, reset: Reset) -> str:
    return (
        f"the pipeline was reset ({_when_reset(last, reset)}), and batch {batch.batch_id} of query {batch.query_id} "
        f"comes from the checkpoint that was used before. Nothing was written. To continue, {FROM_COMMITTED}"
    )


def _after_reset(last: LedgerEntry | None) -> str:
    """What follows an explanation, if the pipeline has committed no batch since a reset."""
    if last is None or last.reset is None:
        return ""
    return f". The pipeline was reset ({_when_reset(last, last.reset)}) and has committed no batch since"


def _when_reset(last: LedgerEntry, reset: Reset) -> str:
    when = datetime.fromtimestamp(last.time_ms / 1000, UTC)
    return f"to {reset.to}, at {when:%Y-%m-%d %H:%M:%S} UTC, after batch {reset.batch_id} of query {reset.query_id}"


def _unreadable(batch: MicroBatch) -> str:
    return (
        f"batch {batch.batch_id} of query {batch.query_id}: the pipeline has committed offsets, but the sink cannot "
        "read this batch's offsets, which are in the query's checkpoint. Nothing was written. Name the checkpoint with "
        "the writer's option checkpointLocation, on a file system that Python on the driver's machine can read; or "
        "write with fencepost.spark.write_stream; or give the pipeline another name"
    )


def _explanation(batch: MicroBatch, committed: Committed, *, was_done: bool) -> str:
    fits = _fits_end if was_done else _fits_start
    odd = [where for where in sorted(batch.end) if not fits(batch, where, committed.get(where))]
    seen = [
        f"{where}: the batch is {_text(batch.start.get(where))} to {_text(batch.end[where])}, committed is "
        f"{_text(committed.get(where))}"
        for where in odd[:SHOWN_MAX]
    ]
    more = f" and {len(odd) - SHOWN_MAX} more partitions" if len(odd) > SHOWN_MAX else ""
    places = f"{'; '.join(seen)}{more}"
    if was_done:
        return (
            f"batch {batch.batch_id} of query {batch.query_id} has been committed, but with other offsets: {places}. "
            f"Nothing was written. If the checkpoint has lost the batch's offsets, {FROM_COMMITTED}. If somebody "
            "changed the consumer group's offsets, set them back"
        )
    behind = any(max(committed[where]) < min(batch.start.get(where, frozenset({0}))) for where in odd)
    what = "skip" if behind else "repeat"
    return (
        f"batch {batch.batch_id} of query {batch.query_id} does not continue where the pipeline stopped, and would "
        f"{what} records: {places}. Nothing was written. If this checkpoint is new or belongs to another pipeline, "
        f"{FROM_COMMITTED}. If this is a new pipeline, give it a name of its own"
    )


def _text(reached: Reached | None) -> str:
    return "?" if not reached else " and ".join(str(offset) for offset in sorted(reached))
