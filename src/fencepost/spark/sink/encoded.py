"""Record batches on their way from tasks to the one process that writes them, for Spark's standard writer API.

That API has no shuffle, so it cannot give each partition one writer. Its driver side runs in a process of its own. So
tasks make finished record batches and send them as commit messages, through the driver, to that process. This limits
how much can be written at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from fencepost.client.settings import ClientSettings
from fencepost.client.writing import TransactionWriter
from fencepost.spark.sink.dead_letters import DeadLetters, look_up, pipeline_name
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.sink.stages import EncodeSettings, RowEncoder
from fencepost.spark.workers import cluster_for
from fencepost.wire.terms import TopicPartition


class SentBlob(NamedTuple):
    """A finished record batch."""

    where: TopicPartition
    data: bytes


@dataclass
class Encoded(WriterCommitMessage):
    """A task's record batches."""

    blobs: list[SentBlob]

    @property
    def size(self) -> int:
        return sum(len(blob.data) for blob in self.blobs)


def encode_settings(
    settings: SinkSettings, client: ClientSettings | None = None, batch_id: int | None = None
) -> EncodeSettings:
    """`client` may be more patient than the sink's own; `batch_id` is that of a stream."""
    client, letters = client or settings.client, None
    if settings.dead_letters is not None:
        # Every task looks the topic up: nothing is written before the last task has ended.
        shape = look_up(cluster_for(client), settings.dead_letters)
        letters = DeadLetters(settings.dead_letters, shape, pipeline_name(settings.pipeline), batch_id)
    return EncodeSettings(
        client,
        settings.topic,
        {},
        settings.compression,
        settings.batch_bytes,
        spread=batch_id or 0,
        dead_letters=letters,
        formats=settings.formats,
    )


def encode(settings: EncodeSettings, rows: Iterator[Any], bytes_max: int, too_large: Exception) -> list[SentBlob]:
    """Raises `too_large` if there are more bytes."""
    found: list[SentBlob] = []
    size = 0
    for blobs in RowEncoder(settings).blobs(rows):
        size += sum(len(blob.data) for blob in blobs)
        if size > bytes_max:
            raise too_large
        found += [SentBlob(TopicPartition(blob.topic, blob.partition), bytes(blob.data)) for blob in blobs]
    return found


def all_blobs(messages: Iterable[WriterCommitMessage | None]) -> list[SentBlob]:
    """In the order of the tasks."""
    return [blob for message in messages if isinstance(message, Encoded) for blob in message.blobs]


def write_blobs(writer: TransactionWriter, blobs: Sequence[SentBlob]) -> None:
    for blob in blobs:
        writer.write(blob.where, blob.data)
