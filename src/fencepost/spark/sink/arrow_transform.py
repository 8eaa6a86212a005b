"""A user's function from rows to records as Arrow tables, run in the stage that encodes (`stages`).

For people who think in pyarrow, polars or duckdb. The function gets a table with the columns of the DataFrame, a part
of the micro-batch at a time, and returns tables with the columns of the sink. Spark only schedules.

Invariant: the function sees every good row once per attempt. Rows that the source could not decode (`_corrupt_record`)
never reach it: they go to the dead letters as they are.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.row_faults import CORRUPT
from fencepost.errors import ConfigError, WriteFailed
from fencepost.spark.sink.columns import HEADERS, UNREAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


WITHOUT_NULL_HEADERS = f"coalesce(headers, CAST(array() AS {HEADERS})) AS headers"
#: From a pyarrow Table to one or several: pyarrow's, or any that have Arrow's C interface, such as those of polars.
TransformArrow = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ArrowTransform:
    function: TransformArrow
    corrupt: str | None = None  #: the column of rows that could not be decoded, if there is one

    def records(self, rows: Iterable[Any]) -> Iterator[Any]:
        """RecordBatches of the DataFrame's rows, to RecordBatches of records."""
        for batch in rows:
            good = batch
            if self.corrupt is not None:
                column = batch.column(self.corrupt)
                if column.null_count < len(batch):
                    yield _unread(column.filter(column.is_valid()))
                good = batch.drop_columns([self.corrupt]).filter(column.is_null())
            if len(good):
                yield from self._made(pa.Table.from_batches([good]))

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
    names = [f"`{name}`" if name != "headers" else WITHOUT_NULL_HEADERS for name in df.columns]
    return df.selectExpr(*names)


def arrow_transform(df: "DataFrame", function: TransformArrow, dead_letters: str | None) -> ArrowTransform:
    """The function with what it needs to know of the DataFrame. Raises ConfigError if rows could get lost."""
    corrupt = next((name for name, kind in df.dtypes if kind == UNREAD), None)
    if corrupt is not None and dead_letters is None:
        raise ConfigError(
            f"the DataFrame has a column {corrupt!r}: its rows could not be decoded, and transform_arrow would not see "
            "them. Give the sink the option deadLetters, a topic to which they are written, or drop the column"
        )
    return ArrowTransform(function, corrupt)


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
