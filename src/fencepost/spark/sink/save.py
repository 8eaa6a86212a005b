"""`df.write.format("fencepost").save()`: a batch query in one transaction, through Spark's standard writer API.

All record batches go through the driver (`encoded`), which limits the size of a write. `fencepost.spark.write` has no
such limit.
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.client.cluster import Cluster
from fencepost.client.identity import MADE_UP_IDS
from fencepost.client.writing import TransactionWriter
from fencepost.errors import ConfigError, WriteFailed
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sink.columns import check_columns
from fencepost.spark.sink.encoded import Encoded, all_blobs, encode, encode_settings, write_blobs
from fencepost.spark.sink.plain import plain_transaction
from fencepost.spark.sink.settings import SinkSettings

TASK_BYTES_MAX = 64 << 20


class SaveWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a topic cannot be overwritten: use mode('append')")
        given = dict(options)
        name = given.pop("transactionalId", given.pop("transactionalid", f"{MADE_UP_IDS}{uuid.uuid4()}"))
        self._transactional_id = name
        self._settings = SinkSettings.of(name, None, None, given)
        settings = self._settings
        kinds = {field.name: field.dataType for field in schema}
        check_columns(kinds, settings.topic, settings.dead_letters, settings.formats)

    @one_line()
    def write(self, iterator: Iterator[Any]) -> Encoded:
        settings = self._settings
        too_large = WriteFailed(
            f"a task has more than {TASK_BYTES_MAX >> 20} MiB to write, too much to send through the driver: "
            "use fencepost.spark.write(df, ...), which has no such limit, or more partitions"
        )
        return Encoded(encode(encode_settings(settings), iterator, TASK_BYTES_MAX, too_large))

    @one_line()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write and commit. Runs in a process of its own, so it opens and closes everything itself."""
        blobs = all_blobs(messages)
        if not blobs:
            return
        settings = self._settings
        with (
            Cluster(settings.client) as cluster,
            plain_transaction(cluster, self._transactional_id, settings) as transaction,
            TransactionWriter(cluster, transaction.begin()) as writer,
        ):
            write_blobs(writer, blobs)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing has been written."""
