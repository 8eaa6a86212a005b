"""What executors do: rows to finished record batches, and record batches to Kafka.

`EncodeStage` runs where the rows are, in one task per input partition, before any transaction is open. Its blobs move
to the writer of their partition: a shuffle of blobs, not of rows. `WriteStage` stamps and sends them. A small batch
skips both stages (`small`).

A writer that fails reports that as a row instead of raising. If it raised, Spark would start it again, and the second
attempt would be refused its permit and raise. A writer that fails before it has its permit raises: it has written
nothing, and Spark repeats it like any task.

Spark may also repeat an encoding task, when its output is lost. The second attempt can give other blobs: rows may come
in another order or go to other partitions. So every encoder sends its attempt marker to every writer, and every writer
reports the markers that it saw. If two writers saw different ones, some rows may have been written twice and some not
at all.
"""

import enum
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.admin import max_message_bytes
from fencepost.client.cluster import Cluster
from fencepost.client.encode import BLOB_SCHEMA, Blob, Encoder, TopicShape, blobs_from_arrow, blobs_to_arrow
from fencepost.client.rights import Operation, wanted
from fencepost.client.settings import ClientSettings
from fencepost.client.writing import Acknowledged, TransactionWriter
from fencepost.errors import FencepostError, WriteFailed
from fencepost.spark.sink.permits import Ticket, ask
from fencepost.spark.workers import cluster_for
from fencepost.wire.compression import Compression
from fencepost.wire.terms import TopicPartition

#: The output of `EncodeStage`; `writer` is the task of the next stage that a row goes to.
ENCODED_SCHEMA = BLOB_SCHEMA.append(pa.field("writer", pa.int32()))

#: In place of a blob's topic: the blob is an encoder's attempt marker.
MARKER = ""


class ReportKind(enum.StrEnum):
    WRITTEN = "written"  #: what one partition has acknowledged
    MARKERS = "markers"  #: the attempt markers that a writer saw
    FAILED = "failed"  #: why a writer failed


class WriterReport(NamedTuple):
    """What a writer tells the driver, as a row."""

    kind: str
    topic: str = ""
    records: int = 0
    bytes: int = 0
    error: str = ""  #: of FAILED: the class of the FencepostError
    text: str = ""  #: of FAILED: the error's message; of MARKERS: the markers


_ARROW_TYPES = {str: pa.string(), int: pa.int64()}
REPORT_SCHEMA = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in WriterReport.__annotations__.items()])


@dataclass(frozen=True, slots=True)
class EncodeSettings:
    client: ClientSettings
    topic: str | None
    shapes: Mapping[str, TopicShape]  #: of the topics that the driver knows; tasks look up others
    compression: Compression
    batch_bytes: int
    spread: int = 0  #: the first partition for rows without a key; each batch should have another


@dataclass(frozen=True, slots=True)
class EncodeStage:
    """Stage 1: rows in, blobs out."""

    settings: EncodeSettings
    writers: int

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        for blobs in RowEncoder(self.settings).blobs(rows):
            writers = [(zlib.crc32(blob.topic.encode()) + blob.partition) % self.writers for blob in blobs]
            yield _addressed(blobs, writers)
        task = _task()
        marker = Blob(MARKER, task.partition, b"%d" % task.attempt_id, 0)
        yield _addressed([marker] * self.writers, range(self.writers))


@dataclass(frozen=True, slots=True)
class WriteStage:
    """Stage 2: blobs in; out a report for each partition and one with the markers."""

    client: ClientSettings
    ticket: Ticket

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        markers: list[str] = []
        yield from _written(self.client, self.ticket, self._blobs(rows, markers))
        yield _reports([WriterReport(ReportKind.MARKERS, text=",".join(sorted(markers)))])

    def _blobs(self, rows: Iterator[Any], markers: list[str]) -> Iterator[list[Blob]]:
        for batch in rows:
            found = blobs_from_arrow(batch)
            markers += [f"{blob.partition}={bytes(blob.data).decode()}" for blob in found if blob.topic == MARKER]
            if blobs := [blob for blob in found if blob.topic != MARKER]:
                yield blobs


@dataclass(slots=True)
class RowEncoder:
    """An encoder that looks up topics as they appear in the rows."""

    settings: EncodeSettings
    cluster: Cluster | None = None  #: default: the worker's own
    shapes: dict[str, TopicShape] = field(default_factory=dict)

    def blobs(self, rows: Iterator[Any]) -> Iterator[list[Blob]]:
        """Every list that it yields has blobs."""
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
            raise WriteFailed("the rows have no column 'topic', and no topic was given for all rows")
        names = batch.column("topic").unique()
        if names.null_count:
            raise WriteFailed("a row's topic is null")
        return [str(name) for name in names.to_pylist()]


def shape_of(cluster: Cluster, topic: str) -> TopicShape:
    """What the encoder must know about a topic, as it is now."""
    with wanted(Operation.WRITE):
        return TopicShape(len(cluster.refresh([topic])[topic].partitions), max_message_bytes(cluster, topic))


def _written(client: ClientSettings, ticket: Ticket, blobs: Iterator[list[Blob]]) -> Iterator[Any]:
    """Write everything and report it. The permit is asked for when the first blob arrives."""
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
            raise  # nothing has been written, so Spark may try again
        failure = error
    finally:
        if writer is not None:
            writer.close()
    if failure is not None:
        yield _reports([WriterReport(ReportKind.FAILED, error=type(failure).__name__, text=str(failure))])
    elif writer is not None:
        yield _reports([report_of(where, done) for where, done in writer.written.items()])


def _addressed(blobs: Sequence[Blob], writers: Iterable[int]) -> Any:
    writer = pa.array(writers, pa.int32())
    return blobs_to_arrow(blobs).append_column(ENCODED_SCHEMA.field("writer"), writer)


def report_of(where: TopicPartition, done: Acknowledged) -> WriterReport:
    return WriterReport(ReportKind.WRITTEN, where.topic, done.records, done.bytes)


def _reports(reports: list[WriterReport]) -> Any:
    columns = [
        pa.array(values, column.type) for values, column in zip(zip(*reports, strict=True), REPORT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REPORT_SCHEMA)


class _Task(NamedTuple):
    partition: int
    attempt_id: int  #: no other task of the application has it
    name: str


def _task() -> _Task:
    """The Spark task that this process runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return _Task(0, 0, "driver")
    name = f"{context.stageId()}.{context.partitionId()} (attempt {context.taskAttemptId()})"
    return _Task(context.partitionId(), context.taskAttemptId(), name)
