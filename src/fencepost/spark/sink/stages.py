"""What executors do: rows to finished record batches, and record batches to Kafka.

`Encode` runs wherever the rows are, as many tasks as there are, before any transaction is open. Its blobs move to the
writer of their partition (a shuffle of blobs, not of rows). `Write` stamps and sends them. A small batch is spared
all of that (`small`).

A writer that fails says so in its result instead of raising: raising would have Spark start it again, in vain. One
that is started again is refused its permit if the first may have written, and raises; a first attempt that died before
that, while it encoded for instance, is repeated like any task.

An encoding task may be repeated, too, when what it made is lost, and need not make the same again: rows come in another
order, or go to other partitions. So every encoder leaves a mark for every writer, and every writer tells whose marks
it saw. Unless all saw the same, some rows may have been written twice and some not at all.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.admin import max_message_bytes
from fencepost.client.cluster import Cluster
from fencepost.client.encode import BLOB_SCHEMA, Blob, Encoder, TopicShape, blobs_from_arrow, blobs_to_arrow
from fencepost.client.settings import ClientSettings
from fencepost.client.writing import TransactionWriter, Written
from fencepost.errors import FencepostError, WriteFailed
from fencepost.spark.sink.permits import Ticket, ask
from fencepost.spark.workers import cluster_for
from fencepost.wire.compression import Compression
from fencepost.wire.terms import TopicPartition

#: What `Encode` gives to Spark; `writer` says which task of the next stage it goes to.
ENCODED_SCHEMA = BLOB_SCHEMA.append(pa.field("writer", pa.int32()))

#: In the place of a topic: what is no record batch.
MARK = ""


class Result(NamedTuple):
    """What a writer did to one partition, whose marks it saw, or why it failed; a row for the driver."""

    topic: str
    records: int = 0
    bytes: int = 0
    error: str = ""  #: the class of a FencepostError, empty when there is none
    message: str = ""


RESULT_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class EncodeSettings:
    client: ClientSettings
    topic: str | None
    shapes: Mapping[str, TopicShape]  #: of the topics that the driver has heard of; tasks look up others
    compression: Compression
    batch_bytes: int
    spread: int = 0  #: where rows without a key begin; other batches should begin elsewhere


@dataclass(frozen=True, slots=True)
class Encode:
    """Stage 1: rows in, blobs out."""

    settings: EncodeSettings
    writers: int

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        for blobs in RowEncoder(self.settings).blobs(rows):
            writers = [(zlib.crc32(blob.topic.encode()) + blob.partition) % self.writers for blob in blobs]
            yield _addressed(blobs, writers)
        task = _task()
        mark = Blob(MARK, task.partition, b"%d" % task.attempt_id, 0)
        yield _addressed([mark] * self.writers, range(self.writers))


@dataclass(frozen=True, slots=True)
class Write:
    """Stage 2: blobs in, a result for each partition out, and one that tells the marks."""

    client: ClientSettings
    ticket: Ticket

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        marks: list[str] = []
        yield from _written(self.client, self.ticket, self._blobs(rows, marks))
        yield _results([Result(MARK, message=",".join(sorted(marks)))])

    def _blobs(self, rows: Iterator[Any], marks: list[str]) -> Iterator[list[Blob]]:
        for batch in rows:
            found = blobs_from_arrow(batch)
            marks += [f"{blob.partition}={bytes(blob.data).decode()}" for blob in found if blob.topic == MARK]
            if blobs := [blob for blob in found if blob.topic != MARK]:
                yield blobs


@dataclass(slots=True)
class RowEncoder:
    """An encoder that gets to know topics as they appear in the rows."""

    settings: EncodeSettings
    cluster: Cluster | None = None  #: the worker's own unless given
    shapes: dict[str, TopicShape] = field(default_factory=dict)

    def blobs(self, rows: Iterator[Any]) -> Iterator[list[Blob]]:
        """Nothing is yielded empty."""
        settings = self.settings
        self.shapes.update(settings.shapes)
        encoder: Encoder | None = None
        for batch in rows:
            if not len(batch):
                continue
            new = [name for name in self._topics(batch) if name not in self.shapes]
            if new or encoder is None:
                if encoder is not None and (made := encoder.finish()):
                    yield made
                cluster = self.cluster or cluster_for(settings.client)
                self.shapes.update({name: shape_of(cluster, name) for name in new})
                encoder = Encoder(
                    self.shapes,
                    topic=settings.topic,
                    compression=settings.compression,
                    target_bytes=settings.batch_bytes,
                    spread=settings.spread + _task().partition,
                )
            if made := encoder.add(batch):
                yield made
        if encoder is not None and (made := encoder.finish()):
            yield made

    def _topics(self, batch: Any) -> list[str]:
        if self.settings.topic is not None:
            return [self.settings.topic]
        if "topic" not in batch.schema.names:
            raise WriteFailed("rows have no column 'topic', and no topic was given for all of them")
        names = batch.column("topic").unique()
        if names.null_count:
            raise WriteFailed("a row has no topic")
        return [str(name) for name in names.to_pylist()]


def shape_of(cluster: Cluster, topic: str) -> TopicShape:
    """What has to be known to encode for a topic, as it is now."""
    return TopicShape(len(cluster.refresh([topic])[topic].partitions), max_message_bytes(cluster, topic))


def _written(client: ClientSettings, ticket: Ticket, blobs: Iterator[list[Blob]]) -> Iterator[Any]:
    """Write everything, and give the results. Asks for the permit when there is something to write."""
    task = _task()
    writer: TransactionWriter | None = None
    failure: FencepostError | None = None
    try:
        for some in blobs:
            if writer is None:
                identity = ask(ticket, task.partition, task.name)
                writer = TransactionWriter(cluster_for(client), identity)
            for blob in some:
                writer.write(TopicPartition(blob.topic, blob.partition), blob.data)
        if writer is not None:
            writer.flush()
    except FencepostError as error:
        if writer is None:
            raise  # nothing has been written: Spark may well try again
        failure = error
    finally:
        if writer is not None:
            writer.close()
    if failure is not None:
        yield _results([Result("", error=type(failure).__name__, message=str(failure))])
    elif writer is not None:
        yield _results([result_of(where, done) for where, done in writer.written.items()])


def _addressed(blobs: Sequence[Blob], writers: Iterable[int]) -> Any:
    writer = pa.array(writers, pa.int32())
    return blobs_to_arrow(blobs).append_column(ENCODED_SCHEMA.field("writer"), writer)


def result_of(where: TopicPartition, done: Written) -> Result:
    return Result(where.topic, done.records, done.bytes)


def _results(results: list[Result]) -> Any:
    columns = [
        pa.array(column, kind.type) for column, kind in zip(zip(*results, strict=True), RESULT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RESULT_SCHEMA)


class _Task(NamedTuple):
    partition: int
    attempt_id: int  #: no other task of the application has it
    name: str


def _task() -> _Task:
    """Which task of Spark's this is."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return _Task(0, 0, "driver")
    name = f"{context.stageId()}.{context.partitionId()} (attempt {context.taskAttemptId()})"
    return _Task(context.partitionId(), context.taskAttemptId(), name)
