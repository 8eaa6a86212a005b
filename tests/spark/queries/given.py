"""What a query is given: its sources by name, as streams or as batches of the same rows.

Invariant: a query that asks for nothing but rows is the same text for both, so that one can be compared with the other.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.queries.case import Kind, Source, Subscribed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

COLUMNS = "k string, n long, s long"
#: Rows of a rate source: in each second, or each batch.
RATE_ROWS = 6


@dataclass(frozen=True)
class Place:
    """Where the sources of a case are, and where its records go."""

    bootstrap: str
    pipeline: str
    home: Path
    topics: dict[str, tuple[str, ...]]  #: of each source
    outputs: Mapping[str, str]  #: topics by their labels
    other_bootstrap: str | None = None  #: if the sources are on another cluster than the outputs

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    @property
    def sources_bootstrap(self) -> str:
        """The cluster of the sources."""
        return self.other_bootstrap or self.bootstrap

    def files(self, source: str) -> Path:
        return self.home / f"files-{source}"


@dataclass(frozen=True)
class Given:
    """`given("a")` has the columns k string, n long, t timestamp."""

    spark: "SparkSession"
    _place: Place
    _sources: Mapping[str, Source]
    is_stream: bool

    def __call__(self, name: str) -> "DataFrame":
        source = self._sources[name]
        if source.kind in (Kind.RATE, Kind.RATE_BY_BATCH):
            return self._rate(source.kind)
        if source.kind is Kind.FILES:
            reader = self._reader().schema(COLUMNS)
            if self.is_stream:
                reader = reader.option("maxFilesPerTrigger", 1)
            rows = reader.json(str(self._place.files(name)))
        else:
            rows = self.records(name).selectExpr(f"inline(array(from_json(CAST(value AS STRING), '{COLUMNS}')))")
        return rows.where("k IS NOT NULL").selectExpr("k", "n", "timestamp_seconds(s) AS t")

    def records(self, name: str) -> "DataFrame":
        """Of a source with topics, as they are in them."""
        source = self._sources[name]
        topics = self._place.topics[source.same_as or name]
        reader = self._reader().format(source.kind.value if self.is_stream else Kind.FENCEPOST.value)
        reader = reader.option("kafka.bootstrap.servers", self._place.sources_bootstrap)
        reader = reader.option(source.subscribed.value, _subscription(source, topics))
        reader = reader.option("includeHeaders", source.options.get("includeHeaders", "false"))
        if not self.is_stream:
            return reader.load()
        starting = "earliest" if source.kind is Kind.KAFKA else "committed"
        options = {"startingOffsets": starting, "maxOffsetsPerTrigger": str(source.per_batch), **source.options}
        if options["startingOffsets"] == "committed":
            options["kafka.group.id"] = self._place.pipeline
        return reader.options(**options).load()

    def topic(self, label: str) -> str:
        return self._place.outputs[label]

    def table(self, text: str) -> "DataFrame":
        """A static table: `given.table("(VALUES ('a', 1) AS sizes(k, size))")`."""
        return self.spark.sql(f"SELECT * FROM {text}")

    def _reader(self) -> "DataFrameReader | DataStreamReader":
        return self.spark.readStream if self.is_stream else self.spark.read

    def _rate(self, kind: Kind) -> "DataFrame":
        if not self.is_stream:
            rows = self.spark.range(RATE_ROWS * self._rate_steps()).withColumnRenamed("id", "value")
        elif kind is Kind.RATE:
            rows = self.spark.readStream.format("rate").option("rowsPerSecond", RATE_ROWS).load()
        else:
            rows = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", RATE_ROWS).load()
        return rows.selectExpr("substr('abcd', 1 + CAST(value % 4 AS INT), 1) AS k", "value AS n", "timestamp(0) AS t")

    def _rate_steps(self) -> int:
        """How many seconds, or batches, the stream has had: what the checkpoint says of its last finished batch."""
        done = max(int(path.name) for path in (self._place.checkpoint / "commits").iterdir() if path.name.isdecimal())
        lines = (self._place.checkpoint / "offsets" / str(done)).read_text().splitlines()
        for offset in map(json.loads, lines[2:]):
            if isinstance(offset, int):
                return offset
            if "offset" in offset:
                return int(offset["offset"]) // RATE_ROWS
        raise AssertionError(f"no rate source in {lines}")


def _subscription(source: Source, topics: tuple[str, ...]) -> str:
    if source.subscribed is Subscribed.BY_NAME:
        return ",".join(topics)
    if source.subscribed is Subscribed.BY_PARTITION:
        return json.dumps({topic: list(range(source.partitions)) for topic in topics})
    return topics[0].rsplit("-", 1)[0] + "-.*"
