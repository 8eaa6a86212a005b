"""Tables instead of rows: each row of the DataFrame names a range of offsets, which `transform_arrow` reads as a table.

Spark turns every record into a row and back into Arrow on its way from the source to the sink, which costs more than
all the rest. Here only the name of a range passes through Spark, and the task that encodes the records reads it, in the
same stage as the task that would have read it otherwise.

Owns these rows, and the register of what they refer to. A row does not hold the options of the source, which may have
passwords: it holds a token, and the function that is sent to the tasks has the options behind the token.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.errors import ConfigError
from fencepost.spark.source.splitting import OffsetRange
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from fencepost.spark.source.read_options import SourceOptions

#: The option of the source: the token.
TABLES = "tables"
SCHEMA = "source STRING, topic STRING, partition INT, topicId BINARY, start BIGINT, end BIGINT"
#: The same as the dtypes of a DataFrame.
DTYPES = [
    ("source", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("topicId", "binary"),
    ("start", "bigint"),
    ("end", "bigint"),
]

#: The options by token, of the sources that this process made.
_sources: "dict[str, SourceOptions]" = {}


def register(options: "SourceOptions") -> str:
    """A token for sources with these options."""
    found = next((token for token, known in _sources.items() if known == options), None)
    if found is None:
        found = uuid.uuid4().hex
        _sources[found] = options
    return found


def registered() -> "Mapping[str, SourceOptions]":
    return dict(_sources)


def restore(sources: "Mapping[str, SourceOptions]") -> None:
    """What another process has registered."""
    _sources.update(sources)


def rows(token: str, ranges: Iterable[OffsetRange]) -> Any:
    """A RecordBatch of `SCHEMA`."""
    import pyarrow as pa  # type: ignore[import-untyped]

    kinds = [pa.string(), pa.string(), pa.int32(), pa.binary(), pa.int64(), pa.int64()]
    schema = pa.schema([(name, kind) for (name, _), kind in zip(DTYPES, kinds, strict=True)])
    values = [(token, each.where.topic, each.where.partition, each.topic_id, each.start, each.end) for each in ranges]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*values, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def ranges_in(batch: Any, sources: "Mapping[str, SourceOptions]") -> "Iterator[tuple[SourceOptions, OffsetRange]]":
    """What a RecordBatch of such rows names. Raises ConfigError for a source of another program."""
    for row in batch.to_pylist():
        options = sources.get(row["source"])
        if options is None:
            raise ConfigError(
                "these rows were made by fencepost.spark.read_tables in another program: call it in the program that "
                "calls write_stream or batch_writer"
            )
        where = TopicPartition(row["topic"], row["partition"])
        yield options, OffsetRange(where, row["start"], row["end"], row["topicId"])
