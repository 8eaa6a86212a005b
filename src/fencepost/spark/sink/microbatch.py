"""The running micro-batch as Spark knows it: its query, its number, its start and end offsets.

`foreachBatch` passes a DataFrame and a number. The rest comes from the query in the JVM: the offsets of this very
batch, also when Spark repeats it after a restart. A source that is not Kafka has no offsets here: its position is only
in Spark's checkpoint.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.errors import BatchRefused, ConfigError, Malformed
from fencepost.spark.ledger import Reached
from fencepost.spark.offsets_json import Positions, SourceOffset, parse
from fencepost.spark.sink.inherited import NO_CONNECT, SourceSaid, each, sources_in
from fencepost.spark.topic_identity import Identities, Identity, is_other, replaced_topics
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_ID_PROPERTY = "sql.streaming.queryId"
#: In the text of every Spark operator with state.
STATE_IN_PLAN = "state info ["
FIELDS_SHOWN = 25


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

    @property
    def moved(self) -> dict[TopicPartition, int]:
        """The end of each partition that this batch moves; the lowest, if several sources read it to different ends."""
        return {where: min(end) for where, end in self.end.items() if self.start.get(where) != end}


def current(df: "DataFrame") -> MicroBatch:
    """The batch that the calling thread's query runs. For use inside `foreachBatch`."""
    session: Any = df.sparkSession
    if not hasattr(session, "_jsparkSession"):
        raise ConfigError(NO_CONNECT)
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if not query_id:
        raise ConfigError(
            "call this function from foreachBatch of a streaming query; for a batch query use fencepost.spark.write. A "
            "thread of your own that calls it must be a pyspark.InheritableThread"
        )
    query = _query(session, query_id)
    if query is None:
        raise ConfigError(f"query {query_id} is not running in this Spark session")
    context = query.getLatestExecutionContext()
    starts = context.startOffsets()
    found = _Ranges()
    for source, offset in _pairs(context.endOffsets()):
        try:
            end = parse(offset.json())
        except Malformed:
            found.others.append(str(source.toString()))
        else:
            found.add(_start_of(source, starts.get(source), end), end)
    return found.batch(query_id, query.runId().toString(), context.batchId())


def keeps_state(df: "DataFrame", batch: MicroBatch) -> bool:
    """Whether the query has stateful Spark operators, whose state is in its checkpoint."""
    query = _query(df.sparkSession, batch.query_id)
    return query is not None and _has_state(query.getLatestExecutionContext().executionPlan().executedPlan())


def _has_state(operator: Any) -> bool:
    """Operator by operator, because spark.sql.maxPlanStringLength truncates the text of a whole plan."""
    if STATE_IN_PLAN in operator.simpleString(FIELDS_SHOWN):
        return True
    return any(_has_state(child) for child in each(operator.children()))


def sources(df: "DataFrame", batch: MicroBatch) -> list[SourceSaid]:
    """The options of the query's `fencepost` sources."""
    query = _query(df.sparkSession, batch.query_id)
    return [] if query is None else sources_in(query.analyzedPlan())


def first_of_run(df: "DataFrame", batch: MicroBatch) -> int:
    """The first batch of this run of the query, as far back as Spark remembers."""
    query = _query(df.sparkSession, batch.query_id)
    told = [] if query is None else query.recentProgress()
    return min([batch.batch_id, *(int(progress.batchId()) for progress in told)])


def is_running(df: "DataFrame", query_id: str) -> bool:
    """Whether a query of this id runs in this Spark."""
    return running_query(df.sparkSession, query_id) is not None


def running_query(session: "SparkSession", query_id: str) -> Any | None:
    """The query of this id as the JVM has it, whichever session of this Spark runs it."""
    query = _query(session, query_id)
    return query if query is not None and query.isActive() else None


def _query(session: Any, query_id: str) -> Any:
    from py4j.java_gateway import JavaClass

    # `_jvm.java.util.UUID` would look up each package in the JVM, which takes three milliseconds.
    uuid = JavaClass("java.util.UUID", session.sparkContext._gateway._gateway_client).fromString(query_id)
    return session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)


def _start_of(source: Any, given: Any, end: SourceOffset) -> SourceOffset:
    """The batch's start as Spark gives it. Spark keeps none for a source's first batch.

    Then our source has put it into the end offset, and Spark's own source computes it again.
    """
    if given.isDefined():
        return parse(given.get().json())
    if end.start is not None:
        return SourceOffset(end.start, topics=end.topics)
    return parse(source.initialOffset().json())


@dataclass(slots=True)
class _Ranges:
    """The offset ranges of all sources of one batch."""

    start: dict[TopicPartition, Reached] = field(default_factory=dict)
    end: dict[TopicPartition, Reached] = field(default_factory=dict)
    topics: Identities = field(default_factory=dict)
    replaced: Identities = field(default_factory=dict)
    skipped: Positions = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    count: int = 0
    has_new: bool = False  #: there are partitions without a known start

    def add(self, start: SourceOffset, end: SourceOffset) -> None:
        for name, identity in end.topics.items():
            if is_other(self.topics.setdefault(name, identity), identity):
                raise BatchRefused(
                    f"two sources of the query read two different topics named {name!r}, on two clusters for instance. "
                    "Nothing was written. Read each topic in a pipeline of its own"
                )
        self.replaced |= end.replaced
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
        )


def _pairs(scala_map: Any) -> Iterator[tuple[Any, Any]]:
    for pair in each(scala_map):
        yield pair._1(), pair._2()
