"""What a start with a given checkpoint would do: run, skip or refuse, decided as the sink decides it.

The checkpoint names the query and its next batch. Spark has planned that batch if it died in the middle; otherwise the
batch begins where the last one ended, and its end is not known yet.
"""

import enum
from dataclasses import dataclass, replace
from pathlib import Path

from fencepost.errors import BatchRefused
from fencepost.operate.standing import Standing
from fencepost.spark import checkpoint as checkpoints
from fencepost.spark.checkpoint import Checkpoint
from fencepost.spark.ledger import InCheckpoint, LedgerEntry
from fencepost.spark.sink.decide import BatchDecision, check_checkpoint, check_topics, checkpoint_lost, decide
from fencepost.spark.sink.microbatch import MicroBatch, planned


class Outcome(enum.StrEnum):
    RUN = "run"  #: the batch is written
    SKIP = "skip"  #: it is committed already, and is not written again
    REFUSE = "refuse"  #: the start fails, and nothing is written


@dataclass(frozen=True, slots=True)
class NextStart:
    outcome: Outcome
    why: str
    query_id: str | None = None  #: None if the checkpoint is new
    batch_id: int = 0


def foresee(standing: Standing, directory: Path) -> NextStart:
    """Raises Malformed or Unsupported if the checkpoint cannot be read."""
    found = checkpoints.local(directory)
    query_id = found.query_id
    last_planned = found.last_batch
    if query_id is None or last_planned is None:
        return _new(standing.entry, query_id)
    batch = planned(found, found.ends(last_planned) or {}, query_id, last_planned)
    is_planned = not found.is_done(last_planned)
    if not is_planned:  # all that is known of the next one
        batch = replace(batch, batch_id=last_planned + 1, start=batch.end, replaced={}, skipped={})
    batch_id = batch.batch_id
    batch = replace(batch, topics={**standing.identities, **batch.topics})
    try:
        decision = _decide(standing, batch, found)
    except BatchRefused as refused:
        return NextStart(Outcome.REFUSE, str(refused), query_id, batch_id)
    if decision is BatchDecision.SKIP:
        why = "Kafka has committed the batch, Spark did not get to know it. It is not written again"
        return NextStart(Outcome.SKIP, why, query_id, batch_id)
    why = "the batch was planned and is not committed" if is_planned else "it begins at the committed offsets"
    return NextStart(Outcome.RUN, why, query_id, batch_id)


def _decide(standing: Standing, batch: MicroBatch, checkpoint: Checkpoint) -> BatchDecision:
    """As `sink.standing` does it. Raises BatchRefused."""
    last = standing.entry
    kinds = {InCheckpoint.STATE: checkpoint.has_state, InCheckpoint.POSITIONS: bool(batch.others)}
    lost = check_checkpoint(batch, frozenset(kind for kind, is_kept in kinds.items() if is_kept), last)
    if lost is not None and last is not None:
        raise BatchRefused(checkpoint_lost(batch, last, lost))
    replaced = check_topics(batch, last)
    committed = {where: each for where, each in standing.committed.items() if where.topic not in replaced}
    return decide(batch, committed, last)


def _new(last: LedgerEntry | None, query_id: str | None) -> NextStart:
    """A directory without a planned batch."""
    if last is None:
        return NextStart(Outcome.RUN, "a new pipeline with a new checkpoint", query_id)
    start = "a new checkpoint: with the source's option pipeline the query begins at the committed offsets"
    if InCheckpoint.STATE in (last.in_checkpoint or ()):
        start += (
            ". But the pipeline's last query kept state of Spark's own operators in its checkpoint. If this one does, "
            "it is refused, unless the sink's option failOnStateLoss is false"
        )
    if InCheckpoint.POSITIONS in (last.in_checkpoint or ()):
        start += (
            ". But the position of a source that is not Kafka was only in the old checkpoint. If this query has such a "
            "source, it is refused, unless the sink's option failOnStateLoss is false"
        )
    return NextStart(Outcome.RUN, start, query_id)
