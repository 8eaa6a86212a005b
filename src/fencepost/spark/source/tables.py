"""Whole tables instead of rows: each row of the DataFrame is one Arrow table of records, as bytes.

For `transform_arrow`. Spark turns every record into a row and back into Arrow on its way from the source to the sink,
which costs more than all the rest. A table passes through it in one piece. Owns how a table is packed and unpacked.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.errors import ConfigError
from fencepost.spark.source.typed import TypedRows
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: The option: the columns of the tables, as the JSON of a Spark schema.
TABLES = "tables"
SCHEMA = "table BINARY, records INT"
#: The same as the dtypes of a DataFrame.
DTYPES = [("table", "binary"), ("records", "int")]


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Packs what was read, or what `rows` makes of it."""

    rows: TypedRows | None

    def convert(self, batch: Any, where: TopicPartition) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped]

        made = batch if self.rows is None else self.rows.convert(batch, where)
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, made.schema) as stream:
            stream.write_batch(made)
        data = out.getvalue()
        offsets = pa.array([0, data.size], pa.int32()).buffers()[1]
        table = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
        return pa.RecordBatch.from_arrays([table, pa.array([len(made)], pa.int32())], names=["table", "records"])


def inner_schema(text: str) -> "StructType":
    """The columns of the tables, from the option."""
    from pyspark.sql.types import StructType

    try:
        return StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"option {TABLES!r} is for fencepost.spark.read_tables: {error}") from None


def unpacked(batch: Any) -> Iterator[Any]:
    """The tables of a RecordBatch of such rows, without a copy."""
    import pyarrow as pa

    for value in batch.column("table"):
        yield pa.ipc.open_stream(value.as_buffer()).read_all()
