"""The running micro-batch as Spark knows it: its query, its number, its start and end offsets.

`foreachBatch` passes a DataFrame and a number. The offsets come from the query's checkpoint, where Spark writes them
before the batch begins: they are those of this very batch, also when Spark repeats it after a restart. A source that is
not Kafka has no offsets here: its position is only in the checkpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.errors import BatchRefused, ConfigError, Malformed
from fencepost.spark.checkpoint import Checkpoint, Ends
from fencepost.spark.ledger import Reached
from fencepost.spark.offsets_json import Positions, SourceOffset, parse
from fencepost.spark.sink.queries import RunningQuery
from fencepost.spark.topic_identity import Identities, Identity, is_other, replaced_topics
from fencepost.wire.terms import TopicPartition


@dataclass(frozen=True, slots=True)
class MicroBatch:
    query_id: str  #: of the checkpoint; survives restarts
    run_id: str  #: of this start of the query
    batch_id: int
    start: Mapping[TopicPartition, Reached]  #: without partitions that are new in this batch
    end: Mapping[TopicPartition, Reached]
    offsets_count: int | None = None  #: an upper bound of the input records; None if unknown
    topics: Mapping[str, Identity] = field(default_factory=dict)  #: as the sources gave them
    replaced: Mapping[str, Identity] = field(default_factory=dict)  #: former identities of topics created again
    skipped: Mapping[TopicPartition, int] = field(default_factory=dict)  #: where it should have begun; records are gone
    others: tuple[str, ...] = ()  #: sources that are not Kafka
    here: frozenset[str] = frozenset()  #: the topics that are on the sink's cluster, once known
    committing: frozenset[str] = frozenset()  #: groups that its sources commit to themselves
    ranges: tuple[tuple[SourceOffset, SourceOffset], ...] = ()  #: where each source's part begins and ends
    has_offsets: bool = True  #: False if `start` and `end` are empty because the sink cannot know them

    @property
    def moved(self) -> dict[TopicPartition, int]:
        """The end of each partition that this batch moves; the lowest, if several sources read it to different ends."""
        return {where: min(end) for where, end in self.end.items() if self.start.get(where) != end}


def read(query: RunningQuery, batch_id: int) -> MicroBatch:
    """The batch of this number as the query's checkpoint has it.

    Raises ConfigError if the query does not run it now: Spark writes a batch's offsets before it begins.
    """
    checkpoint = query.checkpoint
    ends = checkpoint.ends(batch_id)
    if ends is None or checkpoint.is_done(batch_id):
        state = "has not planned that batch" if ends is None else "has completed that batch"
        raise ConfigError(
            f"batch {batch_id} was passed to the writer, but query {query.query_id} {state}. Write a batch before the "
            "foreachBatch function returns, with the number that it got; join threads of your own"
        )
    return planned(checkpoint, ends, query.query_id, batch_id, query.run_id)


def planned(checkpoint: Checkpoint, ends: Ends, query_id: str, batch_id: int, run_id: str = "") -> MicroBatch:
    """A batch that Spark has planned, with these ends."""
    starts = checkpoint.ends(batch_id - 1) or {}
    found = _Ranges()
    for source, text in ends.items():
        try:
            end = parse(text)
        except Malformed:
            found.others.append(f"source {source} (at {text:.100})")
        else:
            found.add(_start_of(checkpoint, source, starts.get(source), end), end)
    return found.batch(query_id, run_id, batch_id)


def unknown(query: RunningQuery, batch_id: int) -> MicroBatch:
    """A batch without its offsets."""
    return MicroBatch(query.query_id, query.run_id, batch_id, start={}, end={})


def first_of_run(query: RunningQuery | None, batch_id: int) -> int:
    """The first batch of this run of the query, as far back as Spark remembers."""
    return min([batch_id, *(query.batches_told() if query is not None else [])])


def _start_of(checkpoint: Checkpoint, source: str, before: str | None, end: SourceOffset) -> SourceOffset:
    """Where the batch begins: at the end of the batch before.

    There is none for a source's first batch. Then our source has put it into the end offset, and Spark's own source has
    it in a file.
    """
    if before is not None:
        return parse(before)
    if end.start is not None:
        return SourceOffset(end.start, topics=end.topics)
    return parse(checkpoint.beginning(source) or "{}")


@dataclass(slots=True)
class _Ranges:
    """The offset ranges of all sources of one batch."""

    start: dict[TopicPartition, Reached] = field(default_factory=dict)
    end: dict[TopicPartition, Reached] = field(default_factory=dict)
    topics: Identities = field(default_factory=dict)
    replaced: Identities = field(default_factory=dict)
    skipped: Positions = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    committing: set[str] = field(default_factory=set)
    ranges: list[tuple[SourceOffset, SourceOffset]] = field(default_factory=list)
    count: int = 0
    has_new: bool = False  #: there are partitions without a known start

    def add(self, start: SourceOffset, end: SourceOffset) -> None:
        self.ranges.append((start, end))
        for name, identity in end.topics.items():
            if is_other(self.topics.setdefault(name, identity), identity):
                raise BatchRefused(
                    f"two sources of the query read two different topics named {name!r}, on two clusters for instance. "
                    "Nothing was written. Read each topic in a pipeline of its own"
                )
        self.replaced |= end.replaced
        if end.commits is not None:
            self.committing.add(end.commits)
        self.skipped |= end.skipped
        gone = replaced_topics(start.topics, end.topics)
        begin: Positions = {where: offset for where, offset in start.offsets.items() if where.topic not in gone}
        for where, offset in end.offsets.items():
            self.end[where] = self.end.get(where, frozenset()) | {offset}
            if where in begin:
                self.start[where] = self.start.get(where, frozenset()) | {begin[where]}
                self.count += offset - begin[where]
            else:
                self.has_new = True

    def batch(self, query_id: str, run_id: str, batch_id: int) -> MicroBatch:
        count = None if self.has_new or self.others or not self.end else self.count
        return MicroBatch(
            query_id=query_id,
            run_id=run_id,
            batch_id=batch_id,
            start=self.start,
            end=self.end,
            offsets_count=count,
            topics=self.topics,
            replaced=self.replaced,
            skipped=self.skipped,
            others=tuple(self.others),
            committing=frozenset(self.committing),
            ranges=tuple(self.ranges),
        )
