"""What Spark finds under `format("fencepost")`: the schema of its own Kafka source, readers, and the batch writer."""

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from fencepost.errors import ConfigError
from fencepost.spark.options import Options
from fencepost.spark.source.read_options import ReadKind, includes_headers, parse_options

NAME = "fencepost"
SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
SCHEMA_WITH_HEADERS = f"{SCHEMA}, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


class FencepostDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA_WITH_HEADERS if includes_headers(Options(self.options)) else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from fencepost.spark.source.readers import BatchReader

        self._check(schema)
        return BatchReader(parse_options(Options(self.options), ReadKind.BATCH))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from fencepost.spark.source.readers import StreamReader

        self._check(schema)
        return StreamReader(parse_options(Options(self.options), ReadKind.STREAM))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from fencepost.spark.sink.save import SaveWriter

        return SaveWriter(self.options, schema, overwrite=overwrite)

    def _check(self, schema: StructType) -> None:
        """A schema of the user's would not change what comes out of Kafka."""
        names = [field.split()[0] for field in SCHEMA.split(", ")]
        names += ["headers"] if includes_headers(Options(self.options)) else []
        if schema.fieldNames() != names:
            raise ConfigError("a Kafka source has a fixed schema and cannot be set with a custom one")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.options),)
