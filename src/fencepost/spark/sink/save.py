"""`df.write.format("fencepost").save()`: a batch query in one transaction, through Spark's standard writer API.

That API has no shuffle, so it cannot give each partition one writer. Its driver side runs in a process of its own. So
the tasks make finished record batches and send them to that process, which writes all of them in one transaction. This
limits the size of a write. `fencepost.spark.write` has no such limit.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.client.cluster import Cluster
from fencepost.client.identity import MADE_UP_IDS
from fencepost.client.writing import TransactionWriter
from fencepost.errors import ConfigError, WriteFailed
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sink.columns import check_columns
from fencepost.spark.sink.dead_letters import DeadLetters, look_up, pipeline_name
from fencepost.spark.sink.plain import plain_transaction
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.sink.stages import EncodeSettings, RowEncoder
from fencepost.spark.workers import cluster_for
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
        name = given.pop("transactionalId", given.pop("transactionalid", f"{MADE_UP_IDS}{uuid.uuid4()}"))
        self._transactional_id = name
        self._settings = SinkSettings.of(name, None, None, given)
        kinds = {field.name: field.dataType.simpleString() for field in schema}
        check_columns(kinds, self._settings.topic, self._settings.dead_letters)

    @one_line()
    def write(self, iterator: Iterator[Any]) -> Encoded:
        settings = self._settings
        encode = EncodeSettings(
            settings.client,
            settings.topic,
            {},
            settings.compression,
            settings.batch_bytes,
            dead_letters=_dead_letters(settings),
        )
        found: list[tuple[str, int, bytes]] = []
        size = 0
        for blobs in RowEncoder(encode).blobs(iterator):
            size += sum(len(blob.data) for blob in blobs)
            if size > TASK_BYTES_MAX:
                raise WriteFailed(
                    f"a task has more than {TASK_BYTES_MAX >> 20} MiB to write, too much to send through the driver: "
                    "use fencepost.spark.write(df, ...), which has no such limit, or more partitions"
                )
            found += [(blob.topic, blob.partition, bytes(blob.data)) for blob in blobs]
        return Encoded(found)

    @one_line()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write and commit. Runs in a process of its own, so it opens and closes everything itself."""
        blobs = [blob for message in messages if isinstance(message, Encoded) for blob in message.blobs]
        if not blobs:
            return
        settings = self._settings
        with (
            Cluster(settings.client) as cluster,
            plain_transaction(cluster, self._transactional_id, settings) as transaction,
            TransactionWriter(cluster, transaction.begin()) as writer,
        ):
            for topic, partition, data in blobs:
                writer.write(TopicPartition(topic, partition), data)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing has been written."""


def _dead_letters(settings: SinkSettings) -> DeadLetters | None:
    """Every task looks the topic up: nothing is written before the last task has ended."""
    if settings.dead_letters is None:
        return None
    shape = look_up(cluster_for(settings.client), settings.dead_letters)
    return DeadLetters(settings.dead_letters, shape, pipeline_name(settings.pipeline))
