"""`format("fencepost")` for Spark: the schema of Spark's own Kafka source, the readers, and the writers."""

from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from fencepost.errors import FencepostError
from fencepost.spark.options import Options, refuse_visible_key
from fencepost.spark.plain_errors import one_line
from fencepost.spark.source.read_options import (
    ReadKind,
    SourceOptions,
    check_options,
    includes_headers,
    parse_options,
)
from fencepost.spark.source.tables import SCHEMA as TABLES_SCHEMA
from fencepost.spark.source.tables import TABLES
from fencepost.spark.source.typed import HEADERS, narrowed, parse_typing, schema_text, typed_rows

NAME = "fencepost"


class FencepostDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    @one_line()
    def schema(self) -> str:
        """Called by `load()`. Raises for wrong options here if possible, rather than when the query runs."""
        refuse_visible_key(self._given)
        check_options(self._given)
        if TABLES in self._given:
            return TABLES_SCHEMA
        return schema_text(parse_typing(self._given), include_headers=includes_headers(self._given))

    @one_line()
    def reader(self, schema: StructType) -> DataSourceReader:
        from fencepost.spark.source.readers import BatchReader

        return BatchReader(self._parse(ReadKind.BATCH, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        readers = _stream_readers()
        found: DataSourceStreamReader
        try:
            found = readers.StreamReader(self._parse(ReadKind.STREAM, schema))
        except FencepostError as error:
            found = readers.RefusedReader(error)
        return found

    @one_line()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from fencepost.spark.sink.save import SaveWriter

        refuse_visible_key(self._given)
        return SaveWriter(self.options, schema, overwrite=overwrite)

    @one_line()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """`overwrite` is the output mode complete: each batch appends the whole result, as with Spark's sink."""
        from fencepost.spark.sink.stream_save import StreamWriter

        refuse_visible_key(self._given)
        return StreamWriter(self.options, schema)

    @property
    def _given(self) -> Options:
        return Options(self.options)

    def _parse(self, kind: ReadKind, schema: StructType) -> SourceOptions:
        """`schema` is ours, or what the user gave with `.schema(...)`."""
        if (token := self._given.text(TABLES)) is not None:
            return replace(parse_options(self._given, kind), token=token)
        return reading_options(self._given, kind, schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.options),)


def reading_options(
    given: Options, kind: ReadKind, schema: StructType, used: frozenset[str] | None = None
) -> SourceOptions:
    """The options of a source that reads these columns. `used` are those that are needed, if that is known."""
    typing = parse_typing(given)
    if used is not None:
        typing, schema = narrowed(typing, schema, used)
    rows = typed_rows(typing, schema)
    return replace(parse_options(given, kind), rows=rows, include_headers=HEADERS in schema.fieldNames())


def _stream_readers() -> Any:
    """The module with the stream readers for this version of Spark."""
    try:
        from fencepost.spark.source import stream_reader_limited as readers
    except ImportError:  # before Spark 4.2
        from fencepost.spark.source import stream_reader_unguided as readers  # type: ignore[no-redef]
    return readers
