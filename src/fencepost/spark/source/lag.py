"""How far a query is behind its topics, as the three metrics of Spark's own Kafka source.

Spark shows them in a progress as `sources[...].metrics`. A Python data source cannot fill that field: its stream in the
JVM (`PythonMicroBatchStream`) is not a `ReportsSourceMetrics`. But it can fill `latestOffset`, and the planner puts
each partition's lag there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.errors import Malformed
from fencepost.spark.source.planner import lag_of
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Lag:
    """In offsets. Transaction markers and aborted records count, so it is an upper bound of the records. 0 is exact."""

    partitions: Mapping[TopicPartition, int]  #: when the last batch was planned

    @property
    def min_offsets(self) -> int:
        return min(self.partitions.values())

    @property
    def max_offsets(self) -> int:
        return max(self.partitions.values())

    @property
    def avg_offsets(self) -> float:
        return self.total_offsets / len(self.partitions)

    @property
    def total_offsets(self) -> int:
        return sum(self.partitions.values())

    def metrics(self) -> dict[str, str]:
        """With the names and as text, like Spark's own Kafka source."""
        return {
            "minOffsetsBehindLatest": str(self.min_offsets),
            "maxOffsetsBehindLatest": str(self.max_offsets),
            "avgOffsetsBehindLatest": str(self.avg_offsets),
        }


def of_query(query: "StreamingQuery") -> Lag | None:
    """Over all `fencepost` sources; None if the last progress has none."""
    progress = query.lastProgress
    return None if progress is None else lag_in(progress)


def lag_in(progress: "StreamingQueryProgress") -> Lag | None:
    """The same of one progress."""
    found = [_of_source(source.latestOffset) for source in progress.sources]
    partitions = {where: behind for each in found for where, behind in each.items()}
    return Lag(partitions) if partitions else None


def _of_source(latest_offset: Any) -> Mapping[TopicPartition, int]:
    try:
        return lag_of(latest_offset)
    except (Malformed, ValueError, TypeError):
        return {}  # another kind of source
