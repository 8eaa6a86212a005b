"""`df.write.format("fencepost").save()`: a batch query in one transaction, through Spark's own door.

Behind that door there is no shuffle, so no way to give each partition one writer; and the driver's side runs in a
process of its own. So the tasks make finished record batches, hand them to the driver, and it writes them all: one
writer, one transaction, opened when everything is ready. That bounds the size; `fencepost.spark.write` has no bound.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.client.cluster import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.errors import ConfigError, Fenced, FencepostError, OutcomeUnknown, WriteFailed
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sink.jobs import check_columns
from fencepost.spark.sink.settings import PREFIX, SinkSettings
from fencepost.spark.sink.stages import EncodeSettings, RowEncoder
from fencepost.wire.terms import TopicPartition

TASK_BYTES_MAX = 64 << 20


@dataclass
class Encoded(WriterCommitMessage):
    """A task's record batches."""

    blobs: list[tuple[str, int, bytes]]


class SaveWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a topic cannot be overwritten: use mode('append')")
        given = dict(options)
        name = given.pop("transactionalId", given.pop("transactionalid", f"{PREFIX}batch-{uuid.uuid4()}"))
        self._transactional_id = name
        self._settings = SinkSettings.of(name, None, None, given)
        check_columns({field.name: field.dataType.simpleString() for field in schema}, self._settings.topic)

    @one_line()
    def write(self, iterator: Iterator[Any]) -> Encoded:
        settings = self._settings
        encode = EncodeSettings(settings.client, settings.topic, {}, settings.compression, settings.batch_bytes)
        found: list[tuple[str, int, bytes]] = []
        size = 0
        for blobs in RowEncoder(encode).blobs(iterator):
            size += sum(len(blob.data) for blob in blobs)
            if size > TASK_BYTES_MAX:
                raise WriteFailed(
                    f"a task has more than {TASK_BYTES_MAX >> 20} MiB to write, which is too much to go through the "
                    "driver: use fencepost.spark.write(df, ...), which has no such bound, or more partitions"
                )
            found += [(blob.topic, blob.partition, bytes(blob.data)) for blob in blobs]
        return Encoded(found)

    @one_line()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write and commit. Runs in a process of its own, so it begins and ends everything itself."""
        blobs = [blob for message in messages if isinstance(message, Encoded) for blob in message.blobs]
        if not blobs:
            return
        with Cluster(self._settings.client) as cluster:
            transaction = SharedTransaction(
                cluster, self._transactional_id, timeout_ms=self._settings.transaction_timeout_ms
            )
            transaction.init()
            try:
                with TransactionWriter(cluster, transaction.begin()) as writer:
                    for topic, partition, data in blobs:
                        writer.write(TopicPartition(topic, partition), data)
                transaction.commit()
            except (OutcomeUnknown, Fenced):
                raise
            except FencepostError:
                transaction.abort()
                raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing has been written."""
