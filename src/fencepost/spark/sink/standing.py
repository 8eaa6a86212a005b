"""How far a pipeline has come, by what Kafka holds, and what that means for a batch.

There are three inputs: the ledger's last entry, the consumer group's offsets, and the topics' identities. They are read
once at the start of a query, after its id was fenced. From then on only our own commits change them.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from fencepost.client.cluster import Cluster
from fencepost.client.groups import NO_OFFSET, CommittedOffset, committed_offsets
from fencepost.client.replication import Models
from fencepost.client.rights import Operation, wanted
from fencepost.errors import BatchRefused, ConfigError
from fencepost.spark import ledger
from fencepost.spark.ledger import ChangelogEntry, InCheckpoint, LedgerEntry, Reached
from fencepost.spark.sink import active, microbatch
from fencepost.spark.sink.decide import BatchDecision, check_checkpoint, check_topics, checkpoint_lost, decide
from fencepost.spark.sink.inherited import check_pipeline, is_elsewhere
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.sink.queries import RunningQuery
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.topic_identity import identities, is_other
from fencepost.wire.terms import TopicPartition

logger = logging.getLogger(__name__)


def models(cluster: Cluster, settings: SinkSettings, batch: MicroBatch) -> Models:
    """What the sink's own topics are replicated like: the topics that this batch reads from the sink's cluster."""
    found = identities(cluster, {where.topic for where in batch.end}, hidden_ok=True)
    here = [name for name, identity in found.items() if not is_other(batch.topics.get(name), identity)]
    return Models(here, settings.replication_factor)


@dataclass(slots=True)
class Standing:
    cluster: Cluster
    pipeline: str
    query: RunningQuery
    in_checkpoint: frozenset[InCheckpoint] = frozenset()  #: what this query keeps only in Spark's checkpoint
    is_state_unknown: bool = False  #: whether Spark's state is among it will be known when a batch has run
    reads_elsewhere: bool = False  #: no source reads from the sink's cluster
    last: LedgerEntry | None = None
    _committed: dict[TopicPartition, Reached] = field(default_factory=dict)
    _asked: set[TopicPartition] = field(default_factory=set)  #: partitions whose group offsets have been read

    @classmethod
    def read(cls, cluster: Cluster, settings: SinkSettings, query: RunningQuery, batch: MicroBatch) -> Self:
        """Raises BatchRefused if this batch's query cannot continue the pipeline."""
        sources = query.sources()
        elsewhere = not batch.others and is_elsewhere(",".join(map(str, settings.client.bootstrap)), sources)
        try:
            check_pipeline(settings.pipeline, sources)
        except ConfigError as error:  # allowed here: one function may write for several pipelines
            logger.warning("%s. Without its checkpoint this query will not continue where the sink stopped", error)
        keeps_state = query.keeps_state()
        # If nobody knows whether the query keeps state, it is taken to keep some: refusing is safe.
        kinds = {InCheckpoint.STATE: keeps_state in (True, None), InCheckpoint.POSITIONS: bool(batch.others)}
        kept = frozenset(kind for kind, is_kept in kinds.items() if is_kept)
        certain = kept if keeps_state is not None else kept - {InCheckpoint.STATE}
        last = ledger.read_entry(cluster, settings.pipeline)
        if last is None:
            # A function that writes for several pipelines has written for the others already.
            known = ledger.pipelines_of(cluster, batch.query_id, batch.batch_id)
            for other in sorted(known - active.pipelines_of(batch.run_id)):
                raise BatchRefused(
                    f"batch {batch.batch_id} of query {batch.query_id} was written for pipeline {other!r} and would be "
                    f"written again for {settings.pipeline!r}. Nothing was written. Start once with the old name, then "
                    "with the new one; or give the new pipeline a checkpoint of its own. If the query writes for both, "
                    "call the writer of the old pipeline first"
                )
            return cls(cluster, settings.pipeline, query, certain, keeps_state is None, elsewhere)
        first = microbatch.first_of_run(query, batch.batch_id) if last.failed is not None else 0
        if last.failed is not None and first <= last.failed[1] < batch.batch_id:
            # Spark has repeated that batch in this run, and the function left it out: an error would be in `active`.
            last = replace(last, failed=None)
        lost = check_checkpoint(batch, kept, last)
        if lost is not None and settings.fail_on_state_loss:
            raise BatchRefused(checkpoint_lost(batch, last, lost))
        if lost is not None:
            logger.warning("%s: continuing without %s (failOnStateLoss is false)", settings.pipeline, lost)
        return cls(cluster, settings.pipeline, query, certain, keeps_state is None, elsewhere, last, last.reached)

    @property
    def keeps_state(self) -> bool:
        """Whether Spark keeps state for the query. If nobody knew when it started, its checkpoint tells later."""
        if self.is_state_unknown and self.query.keeps_state():
            self.in_checkpoint |= {InCheckpoint.STATE}
            self.is_state_unknown = False
        return InCheckpoint.STATE in self.in_checkpoint

    @property
    def changelogs(self) -> Mapping[str, ChangelogEntry]:
        return {} if self.last is None else self.last.changelogs

    def is_last(self, batch: MicroBatch) -> bool:
        """Whether this batch was committed last, all of it or a part."""
        return self.last is not None and (self.last.query_id, self.last.batch_id) == (batch.query_id, batch.batch_id)

    def mentions(self, batch: MicroBatch) -> bool:
        """Whether the last ledger entry is about this batch (a part is missing, or it failed) and must be replaced."""
        this = (batch.query_id, batch.batch_id)
        return self.last is not None and (self.is_last(batch) or self.last.failed == this)

    def locate(self, batch: MicroBatch) -> MicroBatch:
        """The batch with the identity of every topic, and with the topics that are on this cluster.

        Spark's own source does not give identities: a topic whose name exists here counts as this cluster's. The group
        has no offsets for topics of another cluster, which may have the same names. Theirs are only in the ledger.
        """
        names = {where.topic for where in batch.end}
        with wanted(Operation.READ):  # the group's offsets of a topic may be committed by those who may read it
            found = identities(self.cluster, names, hidden_ok=self.reads_elsewhere)
        here = frozenset(name for name, identity in found.items() if not is_other(batch.topics.get(name), identity))
        return replace(batch, topics={**found, **batch.topics}, here=here)

    def decide(self, batch: MicroBatch) -> BatchDecision:
        """`batch` comes from `locate`."""
        if self.pipeline in batch.committing and batch.here:
            raise BatchRefused(
                f"the source commits offsets to group {self.pipeline!r} (its option commitOffsets), which is also the "
                "sink's pipeline: the sink commits them, in its transaction. Nothing was written. Drop the option"
            )
        replaced = check_topics(batch, self.last)
        self._committed = {where: each for where, each in self._committed.items() if where.topic not in replaced}
        self._ask_group(where for where in batch.end if where.topic in batch.here - replaced)
        return decide(batch, self._committed, self.last)

    def _ask_group(self, partitions: Iterable[TopicPartition]) -> None:
        """The group's offsets override the ledger's: a user may have set them. Expired offsets are missing."""
        new = sorted(set(partitions) - self._asked)
        if not new:
            return
        for where, found in committed_offsets(self.cluster, self.pipeline, new).items():
            if min(self._committed.get(where, frozenset({NO_OFFSET}))) != found.offset:
                self._committed[where] = frozenset({found.offset})
        self._asked.update(new)

    def entry_of(self, batch: MicroBatch, changelogs: Mapping[str, ChangelogEntry], writes: int) -> LedgerEntry:
        """The ledger entry for this batch, with all of its `writes` committed."""
        reached = {**self._committed, **batch.end}
        in_checkpoint = self.in_checkpoint | ({InCheckpoint.STATE} if self.keeps_state else frozenset())
        return LedgerEntry(
            query_id=batch.query_id,
            run_id=batch.run_id,
            batch_id=batch.batch_id,
            offsets={where: min(each) for where, each in reached.items()},
            ahead={where: each for where, each in reached.items() if len(each) > 1},
            topics={**(self.last.topics if self.last is not None else {}), **batch.topics},
            changelogs={**self.changelogs, **changelogs},
            in_checkpoint=in_checkpoint,
            writes=writes,
        )

    def entry_of_failure(self, batch: MicroBatch) -> LedgerEntry:
        """The ledger entry that says that this batch failed."""
        last = self.last or LedgerEntry(batch.query_id, -1, {}, run_id=batch.run_id)
        before = [last.failed] if last.failed is not None and last.failed[0] == batch.query_id else []
        return replace(last, failed=min([(batch.query_id, batch.batch_id), *before]))

    def offsets_of(self, batch: MicroBatch) -> dict[TopicPartition, CommittedOffset]:
        """The group's offsets to commit with this batch."""
        note = ledger.note(batch.query_id, batch.batch_id)
        return {w: CommittedOffset(end, note) for w, end in batch.moved.items() if w.topic in batch.here}

    def committed(self, entry: LedgerEntry) -> None:
        """Kafka has acknowledged the transaction with this entry."""
        self.last, self._committed = entry, entry.reached
