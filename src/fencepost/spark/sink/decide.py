"""What to do with a batch: run it, skip it because it has been done, or refuse it. Pure.

Spark repeats a batch when it does not know whether it was done: after a crash between Kafka's commit and Spark's own.
Kafka knows. The ledger's last entry says which batch of which query was committed last:

=======================================  ===============================================================================
the last committed batch                 then
=======================================  ===============================================================================
is this one                              it has been done: SKIP
is the one before, or an earlier one     it has not been done: RUN
is a later one of this query             the checkpoint is older than what Kafka holds: BatchRefused
is another query's, or there is none     the committed offsets decide: at the batch's start RUN, at its end SKIP
=======================================  ===============================================================================

In every case the committed offsets must agree: those of each partition are the batch's start if it is run, and its end
if it is skipped (a partition without any fits a start, and a batch that does not move it). If not, running could repeat
records or leave some out, and the batch is refused. A batch that moves no offset is known by its number alone.

A source that was told to go on although records are gone says where it should have begun; that is compared then.

Between the last committed batch and this one there may be others of the same query. Spark counts a batch as done when
the user's function has returned. So that function has written nothing for them (`if df.isEmpty(): return`), and what
they read has been dealt with: then the batch may begin later than the ledger says. If it is known that one of them
ended with an error of ours, which the function has swallowed, its records are missing: BatchRefused. Not so if the
error ended the query, and the function left the batch out when Spark repeated it.

A query with another id has another checkpoint. If its predecessor kept something in its checkpoint that Kafka does not
hold (Spark's own state, positions of other sources), going on would go on without it: BatchRefused.
"""

import enum
from collections.abc import Mapping

from fencepost.errors import BatchRefused
from fencepost.spark.ledger import InCheckpoint, LedgerEntry, Reached
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.topic_identity import describe, replaced_topics
from fencepost.wire.terms import TopicPartition

SHOWN_MAX = 5

Committed = Mapping[TopicPartition, Reached]


class Decision(enum.Enum):
    RUN = enum.auto()
    SKIP = enum.auto()


def decide(batch: MicroBatch, committed: Committed, last: LedgerEntry | None) -> Decision:
    """`committed` is how far the pipeline has come by what Kafka holds, `last` its last entry in the ledger."""
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
        return Decision.SKIP
    if not was_done and fits_start:
        return Decision.RUN
    raise BatchRefused(_explanation(batch, committed, was_done=was_done))


def check_topics(batch: MicroBatch, last: LedgerEntry | None) -> frozenset[str]:
    """The topics that are others than those of the ledger, where the source says that reading goes on regardless.

    BatchRefused for one of which no source says so.
    """
    replaced = {} if last is None else replaced_topics(last.topics, batch.topics)
    for name, was in replaced.items():
        if batch.replaced.get(name) != was:
            raise BatchRefused(
                f"topic {name!r} was deleted and created again since the pipeline read it ({describe(was)}, now "
                f"{describe(batch.topics[name])}): how far the old one was read says nothing about the new one. "
                "Nothing was written. To go on with the new topic from its first record, start the source with "
                "failOnDataLoss=false, and if the checkpoint is new with startingOffsets=committed; or give the "
                "pipeline another name"
            )
    return frozenset(replaced)


def check_checkpoint(batch: MicroBatch, kept: frozenset[InCheckpoint], last: LedgerEntry | None) -> str | None:
    """What is lost if this query goes on, in words; None if nothing is. `kept` is what its own checkpoint holds."""
    if last is None or last.query_id == batch.query_id:
        return None
    if batch.batch_id > 0 and batch.batch_id in (last.batch_id, last.batch_id + 1):
        return None  # the checkpoint is not new: it has lost nothing but the query's id
    lost = kept if last.in_checkpoint is None else kept & last.in_checkpoint
    words = {
        InCheckpoint.STATE: "the state of Spark's own stateful operators",
        InCheckpoint.POSITIONS: f"the position of {', '.join(batch.others) or 'a source that is not Kafka'}",
    }
    return " and ".join(words[kind] for kind in sorted(lost, key=lambda kind: kind.value)) if lost else None


def checkpoint_lost(batch: MicroBatch, last: LedgerEntry, lost: str) -> str:
    return (
        f"batch {batch.batch_id} of query {batch.query_id} begins with a new checkpoint, and {lost} is in the old one "
        f"alone, that of query {last.query_id}. Nothing was written. Start with the old checkpoint directory; or, to "
        "go on without what it holds, set the sink's option failOnStateLoss to false for one start, or give the "
        "pipeline another name"
    )


def _passed_over(batch: MicroBatch, last: LedgerEntry | None) -> Committed:
    """Where the ledger left off, if batches have ended since then without having been written."""
    if last is None or last.query_id != batch.query_id or last.batch_id + 1 >= batch.batch_id:
        return {}
    return last.reached


def swallowed(batch: MicroBatch, failed: int) -> str:
    return (
        f"batch {failed} of query {batch.query_id} failed and was not written, and the query went on to batch "
        f"{batch.batch_id}: the function of foreachBatch has swallowed the error. Nothing was written. Let errors of "
        "the writer end the query; and start from what is committed: an empty checkpoint directory and "
        "startingOffsets=committed with the pipeline's name as kafka.group.id. Or, if nothing of that batch is to be "
        "written, keep the checkpoint and give the pipeline another name"
    )


def _fits_start(
    batch: MicroBatch, where: TopicPartition, committed: Reached | None, passed: Reached | None = None
) -> bool:
    start = batch.start.get(where)
    if committed is None or committed == start:
        return True
    if where in batch.skipped and committed == {batch.skipped[where]}:
        return True  # the source knows that it should have begun there, and what is left begins at `start`
    return committed == passed and start is not None and max(committed) <= min(start)


def _fits_end(batch: MicroBatch, where: TopicPartition, committed: Reached | None) -> bool:
    end = batch.end[where]
    return committed == end or (committed is None and batch.start.get(where) == end)


def _gone_back(batch: MicroBatch, last: LedgerEntry) -> str:
    return (
        f"batch {batch.batch_id} of query {batch.query_id} is older than batch {last.batch_id}, which the pipeline has "
        "committed: the checkpoint was restored from a copy or lost files. Nothing was written. Start from what is "
        "committed: an empty checkpoint directory and startingOffsets=committed with the pipeline's name as "
        "kafka.group.id"
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
            "Nothing was written. Either the checkpoint has lost the batch's offsets, then start from what is "
            "committed (an empty checkpoint directory and startingOffsets=committed with the pipeline's name as "
            "kafka.group.id); or the offsets of the consumer group were changed, then set them back"
        )
    behind = any(max(committed[where]) < min(batch.start.get(where, frozenset({0}))) for where in odd)
    what = "leave out" if behind else "repeat"
    return (
        f"batch {batch.batch_id} of query {batch.query_id} does not continue where the pipeline stopped, and would "
        f"{what} records: {places}. Nothing was written. If this checkpoint is new or another pipeline's, start from "
        "what is committed: an empty checkpoint directory and startingOffsets=committed with the pipeline's name as "
        "kafka.group.id. If it is a new pipeline, give it a name of its own."
    )


def _text(reached: Reached | None) -> str:
    return "?" if not reached else " and ".join(str(offset) for offset in sorted(reached))
