"""Spark's interfaces for readers: planning in the driver's helper processes, reading in the workers.

A reader is pickled into every task, so it holds only its options. Clusters and planners are made where they are used.
Every method that Spark calls reports our errors in one line (`plain_errors`).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Never

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from fencepost.client import reading
from fencepost.client.cluster import Cluster
from fencepost.client.rights import Operation, wanted
from fencepost.errors import FencepostError, OffsetsOutOfRange, TopicNotFound
from fencepost.spark.offsets_json import SourceOffset, parse
from fencepost.spark.plain_errors import one_line
from fencepost.spark.source import tables
from fencepost.spark.source.committing import OffsetCommitter
from fencepost.spark.source.planner import StreamPlanner
from fencepost.spark.source.positions import batch_ranges, warn_of_loss
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.splitting import OffsetRange, plan_tasks
from fencepost.spark.workers import cluster_for, patient

#: One Arrow batch on its way to the JVM.
ARROW_BATCH_BYTES = 4 << 20


class RangesPartition(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"RangesPartition({', '.join(f'{r.where}[{r.start}, {r.end})' for r in self.ranges)})"


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @one_line()
    def partitions(self) -> list[InputPartition]:
        with Cluster(self._options.client) as cluster:
            ranges = batch_ranges(cluster, self._options)
        # Spark takes an empty list for one partition without a value.
        return _partitions(ranges, self._options) or [RangesPartition([])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, partition)


class StreamReading(DataSourceStreamReader):
    """What the stream readers for all versions of Spark have in common. The rest is in `stream_reader_*`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._planner: StreamPlanner | None = None
        self._committer: OffsetCommitter | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_planner": None, "_committer": None}

    @one_line()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._tell(self._plan().initial())

    @one_line()
    def commit(self, end: dict[str, Any]) -> None:
        self._completed(parse(end))

    @one_line()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._completed(parse(start))
        return _partitions(self._ranges(parse(start), parse(end)), self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, partition)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None
        if self._committer is not None:
            self._committer.close()
            self._committer = None

    def _completed(self, end: SourceOffset) -> None:
        """Spark has completed the batch that ends here, or the query begins here."""
        options = self._options
        if not options.commits or options.group is None:
            return
        if self._committer is None:
            self._committer = OffsetCommitter(options.client, options.group)
        self._committer.completed(end)

    def _tell(self, offset: SourceOffset) -> dict[str, Any]:
        """An offset as Spark gets it."""
        group = self._options.group if self._options.commits else None
        return replace(offset, commits=group).as_dict()

    def _ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        return self._plan().ranges(start, end)

    def _plan(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = StreamPlanner(Cluster(self._options.client), self._options)
        return self._planner


class Refusing:
    """Replaces a stream reader that cannot be made, and raises the reason when Spark first calls it.

    An error raised earlier is lost: Spark's process for the stream then stops the reader that it did not get, and
    reports an UnboundLocalError.
    """

    def __init__(self, reason: FencepostError) -> None:
        self._reason = reason

    @one_line()
    def _refuse(self, *_given: Any, **_named: Any) -> Never:
        raise self._reason

    initialOffset = latestOffset = partitions = read = _refuse  # noqa: N815


def _partitions(ranges: list[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    tasks = plan_tasks(ranges, options.min_partitions, options.max_records_per_partition)
    return [RangesPartition(task) for task in tasks]


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """The records as Arrow batches."""
    if not isinstance(partition, RangesPartition):
        return
    if options.token is not None and partition.ranges:
        yield tables.rows(options.token, partition.ranges)
        return
    with one_line():
        for each in partition.ranges:
            yield from read_range(options, each, cluster_for(patient(options.client)))


def read_range(options: SourceOptions, given: OffsetRange, cluster: Cluster) -> Iterator[Any]:
    """The records of a range as Arrow batches with the columns of the source."""
    with wanted(Operation.READ):
        try:
            _require_same_topic(cluster, given)
            rows = options.rows
            for batch in reading.read_range(
                cluster,
                given.where,
                given.start,
                given.end,
                isolation=options.isolation,
                include_headers=options.include_headers,
                on_data_loss=options.on_data_loss,
                batch_bytes=ARROW_BATCH_BYTES,
                fetch_bytes=options.fetch_bytes,
            ):
                yield batch if rows is None else rows.convert(batch, given.where)
        except (OffsetsOutOfRange, TopicNotFound) as error:  # a deleted or recreated topic, even with SKIP
            warn_of_loss(options, str(error))


def _require_same_topic(cluster: Cluster, wanted: OffsetRange) -> None:
    """Raises OffsetsOutOfRange unless the topic is the one in which the range was planned."""
    name = wanted.where.topic
    if cluster.topic(name).id == wanted.topic_id:
        return  # if that is out of date, the leader refuses the id
    cluster.forget_topic(name)  # this worker's metadata may be older than the plan
    if cluster.topic(name).id != wanted.topic_id:
        raise OffsetsOutOfRange(f"topic {name!r} was deleted and created again after {wanted.where} was planned")
