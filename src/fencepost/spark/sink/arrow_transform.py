"""A user's function from rows to records as Arrow tables, run in the stage that encodes (`stages`).

For people who think in pyarrow, polars or duckdb. The function gets a table with the columns of the DataFrame, a part
of the micro-batch at a time, and returns tables with the columns of the sink. Spark only schedules.

Invariant: the function sees every row once per attempt, except those that the source could not decode
(`_corrupt_record`) if there is a topic for dead letters: they go there as they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.row_faults import CORRUPT
from fencepost.errors import WriteFailed
from fencepost.spark.record_types import HEADERS
from fencepost.spark.sink.columns import without_nulls
from fencepost.spark.sink.typed import is_corrupt
from fencepost.spark.source import tables
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.workers import Connect, of_worker, patient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: From a pyarrow Table to one or several: pyarrow's, or any that have Arrow's C interface, such as those of polars.
TransformArrow = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ArrowTransform:
    function: TransformArrow
    are_ranges: bool = False  #: rows name ranges of offsets that are read here (`source.tables`)
    splits: bool = False  #: whether rows that the source could not read go to the dead letters
    sources: Mapping[str, SourceOptions] = field(default_factory=dict)  #: of the ranges

    def records(
        self, rows: Iterable[Any], connect: Connect | None = None, read: Callable[[int], None] | None = None
    ) -> Iterator[Any]:
        """RecordBatches of the DataFrame's rows, to RecordBatches of records. Clusters are the worker's by default."""
        for batch in rows:
            for part in self._read(batch, connect or of_worker) if self.are_ranges else [batch]:
                if self.are_ranges and read is not None:
                    read(len(part))
                yield from self._records(pa.Table.from_batches([part]))

    def _read(self, batch: Any, connect: Connect) -> Iterator[Any]:
        from fencepost.spark.source.readers import read_range

        for options, given in tables.ranges_in(batch, self.sources):
            with connect(patient(options.client)) as cluster:
                yield from read_range(options, given, cluster)

    def _records(self, table: Any) -> Iterator[Any]:
        name = _unread_column(table.schema) if self.splits else None
        if name is not None:
            column = table.column(name).combine_chunks()
            if column.null_count < len(column):
                yield _unread(column.filter(column.is_valid()))
                table = table.filter(column.is_null())
            table = table.drop_columns([name])
        if len(table):
            yield from self._made(table)

    def _made(self, table: Any) -> Iterator[Any]:
        for made in _tables(self.function(table)):
            for batch in made.combine_chunks().to_batches():
                if len(batch):
                    yield batch


def _unread(column: Any) -> Any:
    """Rows that go to the dead letters: no topic, and what the source could not decode."""
    return pa.RecordBatch.from_arrays([pa.nulls(len(column), pa.string()), column], names=["topic", CORRUPT])


def input_rows(df: "DataFrame") -> "DataFrame":
    """The rows as the function gets them. A record without headers has none instead of null (`column_types`)."""
    if dict(df.dtypes).get("headers") != HEADERS:
        return df
    return df.selectExpr(
        *(f"{without_nulls(name)} AS {name}" if name == "headers" else f"`{name}`" for name in df.columns)
    )


def arrow_transform(df: "DataFrame", function: TransformArrow, dead_letters: str | None) -> ArrowTransform:
    """The function with what it needs to know of the DataFrame."""
    return ArrowTransform(function, df.dtypes == tables.DTYPES, dead_letters is not None, tables.registered())


def _unread_column(schema: Any) -> str | None:
    """The column of records that the source could not decode. It may have any name."""
    return next((field.name for field in schema if is_corrupt(field.type)), None)


def _tables(result: Any) -> Iterator[Any]:
    if result is None:
        return
    if isinstance(result, pa.RecordBatch | pa.Table) or hasattr(result, "__arrow_c_stream__"):
        yield pa.table(result)
    elif isinstance(result, Iterable) and not isinstance(result, str | bytes | dict):
        for part in result:
            yield from _tables(part)
    else:
        raise WriteFailed(
            f"transform_arrow returned {type(result).__name__}: it must return a pyarrow Table with the columns of the "
            "sink (topic, key, value …), or several"
        )
