"""What a start with a given checkpoint would do: run, skip or refuse, decided as the sink decides it.

The checkpoint names the query and its next batch. Spark has planned that batch if it died in the middle; otherwise the
batch begins where the last one ended, and its end is not known yet.
"""

import enum
from dataclasses import dataclass, replace
from pathlib import Path

from fencepost.errors import BatchRefused, Malformed
from fencepost.operate.standing import Standing
from fencepost.spark import checkpoint as checkpoints
from fencepost.spark.checkpoint import Checkpoint, Ends
from fencepost.spark.ledger import InCheckpoint, LedgerEntry
from fencepost.spark.offsets_json import SourceOffset, parse
from fencepost.spark.sink.decide import BatchDecision, check_checkpoint, check_topics, checkpoint_lost, decide
from fencepost.spark.sink.microbatch import MicroBatch, _Ranges


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
    last_planned = _last_planned(directory)
    if query_id is None or last_planned is None:
        return _new(standing.entry, query_id)
    is_planned = not found.is_done(last_planned)
    batch_id = last_planned if is_planned else last_planned + 1
    batch = _batch(found, query_id, batch_id, is_planned=is_planned)
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


def _last_planned(directory: Path) -> int | None:
    offsets = directory / "offsets"
    numbers = [int(path.name) for path in offsets.iterdir() if path.name.isdecimal()] if offsets.is_dir() else []
    return max(numbers, default=None)


def _batch(checkpoint: Checkpoint, query_id: str, batch_id: int, *, is_planned: bool) -> MicroBatch:
    before = checkpoint.ends(batch_id - 1)
    if before is None and batch_id > 0:
        raise Malformed(f"the checkpoint has lost its file offsets/{batch_id - 1}")
    ends = (checkpoint.ends(batch_id) if is_planned else before) or {}
    ranges = _Ranges()
    for source, text in ends.items():
        end = _parse(text)
        if end is None:
            ranges.others.append(f"source {source}")
            continue
        start = end if not is_planned else _start(checkpoint, source, before or {}, end)
        ranges.add(start, end if is_planned else SourceOffset(end.offsets, topics=end.topics))
    return ranges.batch(query_id, "", batch_id)


def _start(checkpoint: Checkpoint, source: str, before: Ends, end: SourceOffset) -> SourceOffset:
    """As the sink has it (`sink.microbatch`): from the batch before, the end itself, or Spark's own source's file."""
    if source in before:
        return parse(before[source])
    if end.start is not None:
        return SourceOffset(end.start, topics=end.topics)
    found = checkpoint.beginning(source)
    return SourceOffset({}) if found is None else parse(found)


def _parse(text: str) -> SourceOffset | None:
    try:
        return parse(text)
    except Malformed:
        return None
