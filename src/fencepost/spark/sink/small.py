"""A small batch: its rows come to the driver, and the driver writes them.

Of the time that a hundred records take, next to all is Spark's, for starting tasks and talking to Python workers. So
they go through as few of either as can be. Besides, everything is there before the transaction is opened.

What a batch will be like is not known before it has been run; that it is small is a guess from the batches before it.
So the first one after a start is never taken for small, and a batch that would be too much for the driver's memory is
done by tasks when the pipeline is started again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.client.cluster import Cluster
from fencepost.client.identity import ProducerIdentity
from fencepost.client.writing import TransactionWriter, Written
from fencepost.spark.sink.stages import EncodeSettings, RowEncoder
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Of what is expected to be written; the rows are several times that, as objects of the driver's.
BYTES_MAX = 1 << 20
#: Spark's bound for what a job gives to the driver; its error names the setting.
RESULT_BOUND = "spark.driver.maxResultSize"


@dataclass(slots=True)
class SizeGuess:
    """Whether a batch is small: by its input records, and by the most that any of them has come to so far."""

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
    """All rows as an Arrow table; None if they turn out to be more than Spark's driver takes."""
    try:
        return rows.toArrow()
    except Exception as error:
        if RESULT_BOUND in str(error):
            return None
        raise


def write_table(
    table: Any, settings: EncodeSettings, cluster: Cluster, begin: Callable[[], ProducerIdentity]
) -> dict[TopicPartition, Written]:
    """Write a table; `begin` opens the transaction, if there is something to write."""
    blobs = [blob for made in RowEncoder(settings, cluster).blobs(iter(table.to_batches())) for blob in made]
    if not blobs:
        return {}
    placed = [(TopicPartition(blob.topic, blob.partition), blob.data) for blob in blobs]
    with TransactionWriter(cluster, begin(), sorted({where for where, _ in placed})) as writer:
        for where, data in placed:
            writer.write(where, data)
    return writer.written
