"""A small batch: the driver collects its rows and writes them.

For a hundred records, Spark spends nearly all of the time on starting tasks and talking to Python workers. So a small
batch uses as few of both as possible. And all of its records are ready before the transaction is begun.

A batch's size is not known before it has run, so it is guessed from the batches before it. The first batch after a
start never counts as small. So a batch that is too large for the driver's memory is written by tasks after a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.client.cluster import Cluster
from fencepost.client.writing import Acknowledged, TransactionWriter
from fencepost.spark.sink.column_types import nullable
from fencepost.spark.sink.flat import nest
from fencepost.spark.sink.opening import Opening
from fencepost.spark.sink.stages import EncodeSettings, RowEncoder
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Of the expected output; the rows take several times as much of the driver's memory.
BYTES_MAX = 1 << 20
#: Spark's limit for the result of a job; its error names the setting.
RESULT_LIMIT = "spark.driver.maxResultSize"


@dataclass(slots=True)
class SizeGuess:
    """Whether a batch is small, by its input records and the largest output per input record so far."""

    records_max: int
    bytes_per_record: float | None = None  #: None before the first batch

    def is_small(self, input_records: int | None) -> bool:
        if input_records is None or input_records > self.records_max or self.bytes_per_record is None:
            return False
        return input_records * self.bytes_per_record <= BYTES_MAX

    def learn(self, input_records: int | None, written_bytes: int) -> None:
        if input_records:
            self.bytes_per_record = max(self.bytes_per_record or 0.0, written_bytes / input_records)


def collect(rows: "DataFrame") -> Any | None:
    """All rows as an Arrow table; None if they are more than Spark's driver accepts."""
    try:
        return nest(nullable(rows).toArrow())
    except Exception as error:
        if RESULT_LIMIT in str(error):
            return None
        raise


def write_table(
    table: Any, settings: EncodeSettings, cluster: Cluster, opening: Opening
) -> tuple[Mapping[TopicPartition, Acknowledged], str]:
    """Write a table, and begin the transaction if the table has rows. Returns the encoder's marker as well."""
    encoder = RowEncoder(settings, cluster)
    blobs = [blob for made in encoder.blobs(iter(table.to_batches())) for blob in made]
    if not blobs or encoder.uncertain is not None:
        return {}, encoder.marker(0)
    placed = [(TopicPartition(blob.topic, blob.partition), blob.data) for blob in blobs]
    with TransactionWriter(cluster, opening.begin(), sorted({where for where, _ in placed})) as writer:
        for where, data in placed:
            writer.write(where, data)
    return writer.written, encoder.marker(0)
