"""The ranges of offsets of a micro-batch, read and evaluated in the process that encodes the records.

A task gets the numbers of ranges as its rows. Owns the driver's connection to the source's cluster.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.cluster import Cluster
from fencepost.spark.columnar.plan import ColumnarQuery
from fencepost.spark.offsets_json import SourceOffset
from fencepost.spark.source.planner import StreamPlanner
from fencepost.spark.source.splitting import OffsetRange, plan_tasks
from fencepost.spark.workers import cluster_for, patient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: Parts of a batch with fewer rows and bytes are put together.
ROWS_MIN, BYTES_MIN = 2_000, 1 << 20


class ColumnarBatch:
    """A micro-batch: `EncodeSettings.transform`, which makes its records. Tasks get a copy without the cluster."""

    def __init__(self, query: ColumnarQuery, tasks: list[list[OffsetRange]], cluster: Cluster | None = None) -> None:
        """`cluster` is the driver's connection to the source."""
        self.tasks = tasks
        self._query = query
        self._cluster = cluster

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnarBatch, (self._query, self.tasks)

    def rows(self, session: "SparkSession") -> "DataFrame":
        """A row for each task, with its number."""
        return session.range(0, len(self.tasks), 1, len(self.tasks))

    def table(self) -> Any:
        """The same for the driver."""
        return pa.table({"id": pa.array(range(len(self.tasks)), pa.int64())})

    def records(
        self, rows: Iterable[Any], connect: Any | None = None, read: Callable[[int], None] | None = None
    ) -> Iterator[Any]:
        """RecordBatches with numbers of tasks, to RecordBatches of records. `read` is told of the rows that were read.

        Raises NotColumnar.
        """
        numbers = (number for batch in rows for number in batch.column(0).to_pylist())
        for table in _merged(self._tables(each for number in numbers for each in self.tasks[number])):
            if read is not None:
                read(len(table))
            found = self._query.program.run(table)
            del table
            if len(found):
                yield found
            del found

    def _tables(self, ranges: Iterable[OffsetRange]) -> Iterator[Any]:
        from fencepost.spark.source.readers import read_range

        source = self._query.source
        cluster = self._cluster or cluster_for(patient(source.client))
        for each in ranges:
            yield from read_range(source, each, cluster)


def _merged(tables: Iterable[Any]) -> Iterator[Any]:
    """Small RecordBatches together: a step of the program costs the same for one row and for a thousand."""
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        del table  # or it would be in memory while the next one is read
        if sum(map(len, waiting)) >= ROWS_MIN or sum(each.nbytes for each in waiting) >= BYTES_MIN:
            yield from _together(waiting)
            waiting = []
    if waiting:
        yield from _together(waiting)


def _together(parts: list[Any]) -> Iterator[Any]:
    if len(parts) == 1:
        yield parts.pop()
    else:
        yield from pa.Table.from_batches(parts).combine_chunks().to_batches()


class Columnar:
    """A running query: the batches that are evaluated on columns, until too many of them were uncertain."""

    UNCERTAIN_MAX = 3

    def __init__(self, query: ColumnarQuery) -> None:
        self._query = query
        self._uncertain: set[int] = set()  #: the numbers of batches that Spark had to run
        self._cluster: Cluster | None = None

    def batch(self, batch_id: int, start: SourceOffset, end: SourceOffset) -> ColumnarBatch | None:
        """None if Spark has to run it."""
        if batch_id in self._uncertain or len(self._uncertain) >= self.UNCERTAIN_MAX:
            return None
        source = self._query.source
        if self._cluster is None:
            self._cluster = Cluster(source.client)
        ranges = StreamPlanner(self._cluster, source).ranges(start, end)
        tasks = plan_tasks(ranges, source.min_partitions, source.max_records_per_partition)
        return ColumnarBatch(self._query, tasks, self._cluster)

    def refuse(self, batch_id: int) -> None:
        """The result of this batch is uncertain."""
        self._uncertain.add(batch_id)

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
