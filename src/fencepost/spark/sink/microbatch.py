"""What Spark says of the micro-batch that is being run: which query, which number, from where to where.

`foreachBatch` is told a DataFrame and a number. The rest is asked of the query in the JVM: the offsets with which Spark
runs this very batch, also when it repeats one after a restart. A source whose offsets are not Kafka's has none here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.client.cluster import TopicPartition
from fencepost.errors import BatchRefused, ConfigError, Malformed
from fencepost.spark.offsets_json import Positions, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID_PROPERTY = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class MicroBatch:
    query_id: str  #: of the checkpoint; survives restarts
    run_id: str  #: of this start of the query
    batch_id: int
    start: Mapping[TopicPartition, int]  #: without partitions that are new in this batch
    end: Mapping[TopicPartition, int]

    @property
    def moved(self) -> dict[TopicPartition, int]:
        """Where the partitions end that this batch reads something of."""
        return {where: end for where, end in self.end.items() if self.start.get(where) != end}

    @property
    def offsets_count(self) -> int | None:
        """How many offsets it covers, which is at least the number of its input records. None if nobody knows."""
        if not self.end or any(where not in self.start for where in self.end):
            return None
        return sum(end - self.start[where] for where, end in self.end.items())


def current(df: "DataFrame", batch_id: int) -> MicroBatch:
    """The batch that the calling thread runs. For use inside `foreachBatch`."""
    session: Any = df.sparkSession
    if not hasattr(session, "_jsparkSession"):
        raise ConfigError("the sink runs in the driver and needs its JVM: Spark Connect is not supported")
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if not query_id:
        raise ConfigError(
            "this function is for foreachBatch of a streaming query; for a batch use fencepost.spark.write"
        )
    query = _query(session, query_id)
    if query is None:
        raise ConfigError(f"query {query_id} is not running in this Spark session")
    context = query.getLatestExecutionContext()
    start: Positions = {}
    end: Positions = {}
    for source, offset in _pairs(context.endOffsets()):
        _add_source(source, context.startOffsets().get(source), offset.json(), start, end)
    return MicroBatch(query_id, query.runId().toString(), batch_id, start, end)


def is_stopping(df: "DataFrame", batch: MicroBatch) -> bool:
    """Whether somebody has stopped the query: what fails in its batch then fails because of that."""
    query = _query(df.sparkSession, batch.query_id)
    return query is None or not query.isActive()


def _query(session: Any, query_id: str) -> Any:
    from py4j.java_gateway import JavaClass

    # By its name alone: `_jvm.java.util.UUID` would ask the JVM about each package on the way, three milliseconds.
    uuid = JavaClass("java.util.UUID", session.sparkContext._gateway._gateway_client).fromString(query_id)
    return session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)


def _add_source(source: Any, given_start: Any, end_json: str, start: Positions, end: Positions) -> None:
    try:
        found = parse(end_json)
    except Malformed:
        return  # not a Kafka source: such a batch is known by its number alone
    if found.start is not None:
        begins: Positions = found.start
    else:
        # For its first batch Spark keeps no start; a Kafka source writes down where it began, and says so again.
        begins = parse((given_start.get() if given_start.isDefined() else source.initialOffset()).json()).offsets
    for where, position in found.offsets.items():
        if end.get(where, position) != position or start.get(where, begins.get(where)) != begins.get(where):
            raise BatchRefused(
                f"{where} is read by two sources of the query, which have come to different offsets: read a topic once "
                "and use that DataFrame twice"
            )
        end[where] = position
        if where in begins:
            start[where] = begins[where]


def _pairs(scala_map: Any) -> Iterator[tuple[Any, Any]]:
    iterator = scala_map.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        yield pair._1(), pair._2()
