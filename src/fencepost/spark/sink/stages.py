"""What executors do: rows to finished record batches, and record batches to Kafka.

`EncodeStage` runs where the rows are, in one task per input partition, before any transaction is open. Its blobs move
to the writer of their partition: a shuffle of blobs, not of rows, and on one machine of their places in a file
(`spool`). `WriteStage` stamps and sends them. A small batch skips both stages (`small`), and on one machine most others
skip the second (`handover`).

A writer that fails reports that as a row instead of raising. If it raised, Spark would start it again, and the second
attempt would be refused its permit and raise. A writer that fails before it has its permit raises: it has written
nothing, and Spark repeats it like any task.

Spark may also repeat an encoding task, when its output is lost. The second attempt can give other blobs: rows may come
in another order or go to other partitions. So every encoder sends its attempt marker to every writer, and every writer
reports the markers that it saw. If two writers saw different ones, some rows may have been written twice and some not
at all. With its marker an encoder sends how many of its rows are dead letters, so that they are counted once, and how
large rows are.
"""

import contextlib
import enum
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.cluster import Cluster
from fencepost.client.encode import BLOB_SCHEMA, Blob, Encoder, blobs_from_arrow, blobs_to_arrow, pieces
from fencepost.client.row_faults import OnFault, refuse
from fencepost.client.settings import ClientSettings
from fencepost.client.shapes import TopicShape, shape_of, shapes_of
from fencepost.client.writing import Acknowledged, TransactionWriter
from fencepost.errors import FencepostError, NotColumnar, WriteFailed
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sink.dead_letters import DeadLetterBox, DeadLetters
from fencepost.spark.sink.flat import nest
from fencepost.spark.sink.formats import NO_FORMATS, Formats
from fencepost.spark.sink.permits import Ticket, ask
from fencepost.spark.sink.spool import Spool, SpoolReader, SpoolWriter
from fencepost.spark.sink.typed import Converter
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
    HANDED = "handed"  #: how much an encoder has handed to the driver (`handover`)


class WriterReport(NamedTuple):
    """What a writer tells the driver, as a row."""

    kind: str
    topic: str = ""
    records: int = 0  #: of HANDED: the number of parts
    bytes: int = 0
    error: str = ""  #: of FAILED: the class of the FencepostError
    text: str = ""  #: of FAILED: the error's message; of MARKERS and HANDED: the markers
    writer: int = 0  #: of HANDED: the task


_ARROW_TYPES = {str: pa.string(), int: pa.int64()}
REPORT_SCHEMA = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in WriterReport.__annotations__.items()])


class Transform(Protocol):
    """Makes the records, in the stage that encodes them."""

    def records(
        self, rows: Iterable[Any], connect: Any | None = None, read: Callable[[int], None] | None = None
    ) -> Iterator[Any]:
        """From RecordBatches of the DataFrame's rows to RecordBatches of records.

        `connect` is how the cluster of a source is reached, by default that of the worker. `read` is told how many rows
        were read there.
        """


@dataclass(frozen=True, slots=True)
class EncodeSettings:
    client: ClientSettings
    topic: str | None
    shapes: Mapping[str, TopicShape]  #: of the topics that the driver knows; tasks look up others
    compression: Compression
    batch_bytes: int
    spread: int = 0  #: the first partition for rows without a key; each batch should have another
    dead_letters: DeadLetters | None = None  #: for rows that cannot be written; None: they fail the batch
    transform: "Transform | None" = None  #: makes records of the rows; None: the rows are records
    formats: Formats = NO_FORMATS  #: of keys and values
    zone: str | None = None  #: the session's, if the Arrow types of times name another


@dataclass(frozen=True, slots=True)
class EncodeStage:
    """Stage 1: rows in, blobs out."""

    settings: EncodeSettings
    writers: int
    spool: Spool | None = None  #: None: the blobs themselves are shuffled

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        encoder, task, sizes = RowEncoder(self.settings), current_task(), [0]
        with one_line():
            made = encoder.blobs(measured(rows, sizes))
            for blobs in made if self.spool is None else _places(made, self.spool, task.attempt_id):
                writers = [(zlib.crc32(blob.topic.encode()) + blob.partition) % self.writers for blob in blobs]
                yield _addressed(blobs, writers)
        text = encoder.marker(task.attempt_id, max(sizes))
        marker = Blob(MARKER, task.partition, text.encode(), 0)
        yield _addressed([marker] * self.writers, range(self.writers))


@dataclass(frozen=True, slots=True)
class WriteStage:
    """Stage 2: blobs in; out a report for each partition and one with the markers."""

    client: ClientSettings
    ticket: Ticket
    spool: Spool | None = None

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        markers: list[str] = []
        with one_line():
            yield from _written(self.client, self.ticket, self._blobs(rows, markers))
        yield reports_to_arrow([WriterReport(ReportKind.MARKERS, text=",".join(sorted(markers)))])

    def _blobs(self, rows: Iterator[Any], markers: list[str]) -> Iterator[list[Blob]]:
        spooled = None if self.spool is None else SpoolReader(self.spool)
        for batch in rows:
            found = blobs_from_arrow(batch)
            markers += [f"{blob.partition}={bytes(blob.data).decode()}" for blob in found if blob.topic == MARKER]
            if blobs := [blob for blob in found if blob.topic != MARKER]:
                yield blobs if spooled is None else [spooled.find(blob) for blob in blobs]


@dataclass(slots=True)
class RowEncoder:
    """An encoder that looks up topics as they appear in the rows."""

    settings: EncodeSettings
    cluster: Cluster | None = None  #: default: the worker's own
    shapes: dict[str, TopicShape] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)  #: topics that do not exist
    dead_letters: Counter[str] = field(default_factory=Counter)  #: how many there were, by reason
    rows_read: int = 0  #: of the source, if the transform reads it
    uncertain: str | None = None  #: why the transform has given up; then records are missing

    def blobs(self, rows: Iterator[Any]) -> Iterator[list[Blob]]:
        """Every list that it yields has blobs."""
        settings = self.settings
        self.shapes.update(settings.shapes)
        encoder: Encoder | None = None
        converter = Converter(settings.formats, settings.topic, settings.zone)
        given: Iterator[Any] = map(nest, rows)
        if settings.transform is not None:
            connect = Cluster if self.cluster is not None else None
            given = self._until_uncertain(settings.transform.records(given, connect, self._count))
        parts = (part for each in given if len(each) for part in converter.parts(each))
        for batch in (piece for part in parts for piece in pieces(part)):
            new = self._topics(batch) - self.shapes.keys() - self.missing
            if new or encoder is None:
                if encoder is not None and (made := encoder.finish()):
                    yield made
                self._look_up(new)
                encoder = Encoder(
                    self.shapes,
                    topic=settings.topic,
                    compression=settings.compression,
                    target_bytes=settings.batch_bytes,
                    spread=settings.spread + current_task().partition,
                    on_fault=self._on_fault(),
                )
            if made := encoder.add(batch):
                yield made
        if encoder is not None and (made := encoder.finish()):
            yield made

    def _count(self, rows: int) -> None:
        self.rows_read += rows

    def _until_uncertain(self, records: Iterator[Any]) -> Iterator[Any]:
        """A task that raises would be started again, and fill the log."""
        try:
            yield from records
        except NotColumnar as error:
            self.uncertain = str(error)

    def marker(self, attempt_id: int, row_bytes: int = 0) -> str:
        """An encoder's attempt marker: `17/312/0/` or `17/312/0/;too-large:3;query:1`."""
        counts = [f"{reason}:{count}" for reason, count in sorted(self.dead_letters.items())]
        return ";".join([f"{attempt_id}/{row_bytes}/{self.rows_read}/{quote(self.uncertain or '', safe='')}", *counts])

    def _topics(self, batch: Any) -> set[str]:
        if self.settings.topic is not None:
            return {self.settings.topic}
        if "topic" not in batch.schema.names:
            raise WriteFailed("the rows have no column 'topic', and no topic was given for all rows")
        return {str(name) for name in batch.column("topic").unique().to_pylist() if name is not None}

    def _look_up(self, names: AbstractSet[str]) -> None:
        """A topic that the user named must exist. One that a row names may not: then that is the row's fault."""
        if not names:
            return
        cluster = self.cluster or cluster_for(self.settings.client)
        if self.settings.topic is not None:
            self.shapes.update({name: shape_of(cluster, name) for name in names})
            return
        self.shapes.update(shapes_of(cluster, sorted(names)))
        self.missing |= names - self.shapes.keys()

    def _on_fault(self) -> OnFault:
        settings = self.settings
        if settings.dead_letters is None:
            return refuse
        return DeadLetterBox(
            settings.dead_letters,
            compression=settings.compression,
            target_bytes=settings.batch_bytes,
            spread=settings.spread + current_task().partition,
            counts=self.dead_letters,
        )


def _firsts(markers: str) -> list[list[str]]:
    """The first part of each encoder's marker: its attempt, bytes of a row, rows read, why it gave up."""
    return [marker.split(";")[0].split("/") for marker in filter(None, markers.split(","))]


def row_bytes_in(markers: str) -> int:
    """The size of a row in the Arrow batch with the largest, as the encoders of a writer's markers report."""
    return max((int(parts[1]) for parts in _firsts(markers)), default=0)


def rows_read_in(markers: str) -> int:
    """The rows that encoders have read from the source themselves."""
    return sum(int(parts[2]) for parts in _firsts(markers))


def uncertain_in(markers: str) -> str | None:
    """Why an encoder has given up."""
    return next((unquote(parts[3]) for parts in _firsts(markers) if parts[3]), None)


def dead_letters_in(markers: str) -> dict[str, int]:
    """The dead letters that the encoders of a writer's markers report."""
    sums: Counter[str] = Counter()
    for marker in filter(None, markers.split(",")):
        for reason, _, count in (each.partition(":") for each in marker.split(";")[1:]):
            sums[reason] += int(count)
    return dict(sums)


def _written(client: ClientSettings, ticket: Ticket, blobs: Iterator[list[Blob]]) -> Iterator[Any]:
    """Write everything and report it. The permit is asked for when the first blob arrives."""
    task = current_task()
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
        yield reports_to_arrow([WriterReport(ReportKind.FAILED, error=type(failure).__name__, text=str(failure))])
    elif writer is not None:
        yield reports_to_arrow([report_of(where, done) for where, done in writer.written.items()])


def measured(rows: Iterable[Any], sizes: list[int]) -> Iterator[Any]:
    """The same batches. Notes how large their rows are on average."""
    for batch in rows:
        if len(batch):
            sizes.append(batch.nbytes // len(batch))
        yield batch


def _places(made: Iterable[list[Blob]], spool: Spool, number: int) -> Iterator[list[Blob]]:
    """Put all blobs into a file; then their places, if there are any."""
    with contextlib.closing(SpoolWriter(spool, number)) as file:
        places = [file.add(blob) for blobs in made for blob in blobs]
    if places:
        yield places


def _addressed(blobs: Sequence[Blob], writers: Iterable[int]) -> Any:
    writer = pa.array(writers, pa.int32())
    return blobs_to_arrow(blobs).append_column(ENCODED_SCHEMA.field("writer"), writer)


def report_of(where: TopicPartition, done: Acknowledged) -> WriterReport:
    return WriterReport(ReportKind.WRITTEN, where.topic, done.records, done.bytes)


def reports_to_arrow(reports: list[WriterReport]) -> Any:
    columns = [
        pa.array(values, column.type) for values, column in zip(zip(*reports, strict=True), REPORT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REPORT_SCHEMA)


class _Task(NamedTuple):
    partition: int
    attempt_id: int  #: no other task of the application has it
    name: str


def current_task() -> _Task:
    """The Spark task that this process runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return _Task(0, 0, "driver")
    name = f"{context.stageId()}.{context.partitionId()} (attempt {context.taskAttemptId()})"
    return _Task(context.partitionId(), context.taskAttemptId(), name)
