"""The Spark job that writes a DataFrame in a transaction: checks its columns and puts its stages together.

Invariant: a job that returns has written every row of the DataFrame, and each partition had one writer. A job that
raises WriteFailed may have written some rows.
"""

import logging
import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import fencepost.errors
from fencepost.client.cluster import Cluster
from fencepost.client.shapes import TopicShape, shape_of
from fencepost.client.transaction import timed_out
from fencepost.errors import BatchFailed, FencepostError, NotColumnar, WriteFailed
from fencepost.spark.arrow_types import spark_type
from fencepost.spark.columnar.ranges import ColumnarBatch
from fencepost.spark.environment import explain, is_worker
from fencepost.spark.sessions import is_connect, parallelism, setting
from fencepost.spark.shuffle import repartition_by_id
from fencepost.spark.sink import spool
from fencepost.spark.sink.arrow_batches import ArrowBatches, can_be_checked, checked, is_about_size
from fencepost.spark.sink.arrow_transform import ArrowTransform
from fencepost.spark.sink.columns import has_topic
from fencepost.spark.sink.dead_letters import DeadLetters, look_up, pipeline_name
from fencepost.spark.sink.deadline import JobDeadline
from fencepost.spark.sink.flat import flatten
from fencepost.spark.sink.handover import TIMEOUT_SHARE, Handover, HandOverStage, PaceGuess
from fencepost.spark.sink.opening import Opening
from fencepost.spark.sink.permits import PermitDesk, Ticket
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.sink.small import SizeGuess, collect, write_table
from fencepost.spark.sink.spool import Spool, SpoolDirectory
from fencepost.spark.sink.stages import (
    ENCODED_SCHEMA,
    REPORT_SCHEMA,
    EncodeSettings,
    EncodeStage,
    ReportKind,
    Transform,
    WriterReport,
    WriteStage,
    dead_letters_in,
    report_of,
    row_bytes_in,
    rows_read_in,
    uncertain_in,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
ZONE = "spark.sql.session.timeZone"
#: Topics are looked up again after this long, as Kafka's clients do.
SHAPE_AGE_MAX_S = 60.0

#: Reports with the markers of encoders.
_WITH_MARKERS = (ReportKind.MARKERS, ReportKind.HANDED)
#: One of our errors in Spark's message about a failed task.
_OURS = re.compile(r"fencepost\.errors\.(\w+): (.*)")


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job wrote."""

    records: dict[str, int] = field(default_factory=dict)  #: by topic, without dead letters
    dead_letters: Mapping[str, int] = field(default_factory=dict)  #: by reason
    bytes: int = 0
    write_ms: float = 0.0
    rows_read: int | None = None  #: of the source; None if Spark has read them


class WriteJob:
    """Runs such jobs for one sink, and caches the shapes of its topics."""

    def __init__(self, session: "SparkSession", settings: SinkSettings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster
        self._shapes: dict[str, TopicShape] = {}
        self._dead_letters: DeadLetters | None = None
        self._shapes_asked_s = 0.0
        self._guess = SizeGuess(settings.small_batch_records)
        self._jobs = 0
        self._transform: Transform | None = None  #: of the job that runs
        self._parallelism = parallelism(session)
        if (setting(session, "spark.speculation") or "false").lower() == "true":
            logger.warning(
                "spark.speculation is on. A second copy of a writing task is refused, and Spark counts that as a "
                "failure of the task (spark.task.maxFailures). Turn it off for this query"
            )
        bind_host, host = _addresses(session, settings.permit_host)
        self._desk = PermitDesk(bind_host, host, settings.permit_port)
        self._spool = spool.directory_for(session)
        self._batches = ArrowBatches(session)
        self._pace = PaceGuess()
        self._hands_over = False  #: whether the driver writes what the tasks of the job encode, while they run
        self._must_encode_first = False  #: an attempt has failed, and none has succeeded since
        self._handing = Cluster(cluster.settings)  #: of the thread that writes what is handed over

    def close(self) -> None:
        self._desk.shut()
        self._handing.close()
        if self._spool is not None:
            self._spool.close()

    def run(
        self,
        rows: "DataFrame",
        rows_max: int | None,
        opening: Opening,
        batch_id: int | None = None,
        changelogs: Iterable[str] = (),
        transform: ArrowTransform | None = None,
        *,
        is_free: bool = False,
        columnar: ColumnarBatch | None = None,
    ) -> JobResult:
        """Write all rows, as `select_columns` gives them, or what `transform` makes of them.

        `rows_max` is an upper bound of the input rows, if known. The transaction is begun when there is a record.
        `changelogs` are topics whose records cannot be dead letters. `is_free`: nothing else in the rows' plan sends
        rows to Python (`arrow_batches`). With `columnar` the same records are made without Spark computing the rows. It
        raises NotColumnar if that is not certain.
        """
        self._jobs += 1
        self._transform = transform or columnar
        started_s = time.monotonic()
        self._hands_over = self._may_hand_over(rows_max)
        try:
            self._dead_letters = self._dead_letters_of(batch_id, frozenset(changelogs))
            is_small = self._guess.is_small(rows_max)
            if columnar is not None:
                reports: list[WriterReport] | None = self._run_columnar(columnar, rows, opening, is_small=is_small)
            else:
                reports = self._run_here(rows, opening) if is_small else None
            if reports is None:
                reports = self._run_quickly(rows, opening) if is_free else self._run_tasks(rows, opening)
            written = self._sum(reports, opening.elapsed_ms)
        except Exception:
            self._shapes.clear()
            self._must_encode_first = True
            raise
        self._must_encode_first = False
        self._guess.learn(rows_max, written.bytes)
        self._pace.learn(rows_max, time.monotonic() - started_s)
        return written

    def _may_hand_over(self, rows_max: int | None) -> bool:
        """Whether the driver may write while rows are computed."""
        seconds = self._pace.seconds(rows_max)
        if self._spool is None or self._must_encode_first or seconds is None:
            return False
        return seconds <= TIMEOUT_SHARE * self._settings.transaction_timeout_ms / 1000

    def _run_here(self, rows: "DataFrame", opening: Opening) -> list[WriterReport] | None:
        """In the driver, without tasks of ours. None if there are too many rows for that; nothing is written then."""
        with _nothing_written(opening):
            table = collect(rows)
        if table is None:
            return None
        return self._write_here(table, replace(self._encode_settings(rows), zone=_zone_of(table, rows)), opening)

    def _write_here(self, table: Any, settings: EncodeSettings, opening: Opening) -> list[WriterReport]:
        with _nothing_written(opening):
            done, marker = write_table(table, settings, self._cluster, opening)
        return [
            WriterReport(ReportKind.MARKERS, text=marker),
            *(report_of(where, each) for where, each in done.items()),
        ]

    def _run_columnar(
        self, columnar: ColumnarBatch, rows: "DataFrame", opening: Opening, *, is_small: bool
    ) -> list[WriterReport]:
        """What Spark would make of the rows, made of the ranges that they would be read from."""
        if not columnar.tasks:
            return []
        if is_small:
            return self._write_here(columnar.table(), self._encode_settings(rows), opening)
        return self._run_tasks(columnar.rows(rows.sparkSession), opening)

    def _run_quickly(self, rows: "DataFrame", opening: Opening) -> list[WriterReport]:
        """By tasks, with batches for Python that are bounded in the cheapest way (`arrow_batches`)."""
        batches, flat = self._batches, flatten(rows)
        reports = None
        if batches.are_by_rows and can_be_checked(flat):
            try:
                with batches.settings(rows.sparkSession):
                    reports = self._run_tasks(checked(flat), opening)
            except Exception as error:
                if opening.identity is not None or not is_about_size(error):
                    raise
                logger.info("a row is large: the batch is run again, with batches for Python that are bounded in bytes")
                batches.forbid()
        reports = reports or self._run_tasks(flat, opening)
        batches.learn(max((row_bytes_in(each.text) for each in reports if each.kind in _WITH_MARKERS), default=0))
        return reports

    def _run_tasks(self, rows: "DataFrame", opening: Opening) -> list[WriterReport]:
        """All cores encode. The driver writes meanwhile, or as many tasks as there are partitions do afterwards."""
        spool = self._spool
        if self._hands_over and spool is not None:
            return self._run_handing_over(rows, opening, spool)
        with nullcontext() if spool is None else spool.job() as files, self._serving(rows, opening) as ticket:
            found = self._plan(rows, ticket, files).collect()
        return [WriterReport(*row) for row in found]

    def _run_handing_over(self, rows: "DataFrame", opening: Opening, spool: SpoolDirectory) -> list[WriterReport]:
        with (
            spool.job() as files,
            Handover(self._handing, files) as handover,
            self._serving(rows, opening, handover) as ticket,
        ):
            stage = HandOverStage(self._encode_settings(rows), ticket, files)
            handing = flatten(rows).mapInArrow(stage, spark_type(REPORT_SCHEMA))
            reports = [WriterReport(*row) for row in handing.collect()]
            written = handover.finish(reports)
        return [*reports, *(report_of(where, done) for where, done in written.items())]

    @contextmanager
    def _serving(self, rows: "DataFrame", opening: Opening, handover: Handover | None = None) -> Iterator[Ticket]:
        """Around a job whose tasks ask for permits: until the transaction's timeout, and with errors that say why."""
        timeout_ms = self._settings.transaction_timeout_ms
        then, take = (None, None) if handover is None else (handover.cancel, handover.take)
        deadline = JobDeadline(rows.sparkSession, timeout_ms / 1000, then)
        opening.then.append(deadline.start)
        ticket = self._desk.open(opening.begin, take)
        try:
            with deadline:
                yield ticket
        except Exception as error:
            granted = self._desk.close()
            if deadline.has_passed and opening.identity is not None:
                raise timed_out(opening.identity, opening.elapsed_ms / 1000, timeout_ms) from error
            if self._desk.error is not None:
                raise self._desk.error from error
            if handover is not None and handover.error is not None:
                raise handover.error from error
            if granted:
                raise WriteFailed(f"a writing task failed: {_first_line(error)}") from error
            raise _before_writing(error) from error.__cause__
        finally:
            self._desk.close()
            opening.then.remove(deadline.start)

    def _plan(self, rows: "DataFrame", ticket: Ticket, files: Spool | None) -> "DataFrame":
        settings = self._encode_settings(rows)
        writers = self._writers()
        blobs = flatten(rows).mapInArrow(EncodeStage(settings, writers, files), spark_type(ENCODED_SCHEMA))
        placed = repartition_by_id(blobs, writers, "writer").drop("writer")
        return placed.mapInArrow(WriteStage(self._settings.client, ticket, files), spark_type(REPORT_SCHEMA))

    def _encode_settings(self, rows: "DataFrame") -> EncodeSettings:
        settings, shapes = self._settings, self._known_shapes()
        # Changes of state and several writes have a column with topics of their own.
        has_topics = self._transform is None and settings.topic is not None and has_topic(rows)
        topic = None if has_topics else settings.topic
        return EncodeSettings(
            settings.client,
            topic,
            shapes,
            settings.compression,
            settings.batch_bytes,
            self._jobs,
            self._dead_letters,
            self._transform,
            settings.formats,
            rows.sparkSession.conf.get(ZONE) if isinstance(self._transform, ColumnarBatch) else None,
        )

    def _dead_letters_of(self, batch_id: int | None, changelogs: frozenset[str]) -> DeadLetters | None:
        topic = self._settings.dead_letters
        if topic is None:
            return None
        self._known_shapes()
        known = self._dead_letters
        shape = known.shape if known is not None else look_up(self._cluster, topic)
        return DeadLetters(topic, shape, pipeline_name(self._settings.pipeline), batch_id, changelogs)

    def _writers(self) -> int:
        partitions = sum(shape.partitions for shape in self._shapes.values())
        return max(1, min(self._parallelism, partitions or self._parallelism))

    def _known_shapes(self) -> dict[str, TopicShape]:
        if time.monotonic() - self._shapes_asked_s > SHAPE_AGE_MAX_S:
            names = set(self._shapes) | ({self._settings.topic} if self._settings.topic else set())
            self._shapes.clear()
            self._dead_letters = None
            self._learn(names)
            self._shapes_asked_s = time.monotonic()
        return dict(self._shapes)

    def _learn(self, names: set[str]) -> None:
        self._shapes.update({name: shape_of(self._cluster, name) for name in sorted(names)})

    def _sum(self, reports: Sequence[WriterReport], write_ms: float) -> JobResult:
        for report in reports:
            if report.kind == ReportKind.FAILED:
                raise _as_error(report.error, report.text)
        for report in reports:
            if report.kind in _WITH_MARKERS and (reason := uncertain_in(report.text)) is not None:
                raise NotColumnar(reason)
        markers = {report.text for report in reports if report.kind == ReportKind.MARKERS}
        if len(markers) > 1:
            raise WriteFailed("Spark lost record batches and encoded them again while they were being written")
        records: dict[str, int] = {}
        for report in reports:
            if report.kind == ReportKind.WRITTEN:
                records[report.topic] = records.get(report.topic, 0) + report.records
        self._learn(set(records) - set(self._shapes))
        handed = ",".join(report.text for report in reports if report.kind == ReportKind.HANDED)
        told = handed or next(iter(markers), "")
        dead_letters = dead_letters_in(told)
        if dead_letters and (topic := self._settings.dead_letters) is not None:
            records[topic] -= sum(dead_letters.values())
            records = {name: count for name, count in records.items() if count}
        rows_read = rows_read_in(told) if isinstance(self._transform, ColumnarBatch) else None
        return JobResult(records, dead_letters, sum(report.bytes for report in reports), write_ms, rows_read)


def _addresses(session: Any, permit_host: str | None) -> tuple[str, str]:
    """Where this process listens, and where executors reach it."""
    if is_connect(session) and not is_worker():  # a client, which may be far from the driver
        host = permit_host or _address_towards(session.client.host)
        return ("" if permit_host else host), host
    host = permit_host or setting(session, "spark.driver.host") or LOOPBACK
    return setting(session, "spark.driver.bindAddress") or host, host


def _zone_of(table: Any, rows: "DataFrame") -> str | None:
    """The session's time zone, if it matters: a table that the driver collects has times of UTC."""
    if not any(hasattr(kind, "num_fields") and kind.num_fields for kind in table.schema.types):
        return None
    return rows.sparkSession.conf.get(ZONE)


def _address_towards(host: str) -> str:
    """The address of this machine that packets to the host come from."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 1))  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return LOOPBACK


def run_plan(df: "DataFrame") -> None:
    """Compute all rows and drop them, so that Spark's stateful operators commit their state."""
    df.write.format("noop").mode("overwrite").save()


def _as_error(name: str, message: str) -> FencepostError:
    """A task's error with its own class."""
    kind = getattr(fencepost.errors, name, None)
    if isinstance(kind, type) and issubclass(kind, FencepostError) and kind.__init__ is FencepostError.__init__:
        return kind(message)
    return WriteFailed(f"{name}: {message}")


@contextmanager
def _nothing_written(opening: Opening) -> Iterator[None]:
    """Around what happens before the first record is written: an error there is the batch's, not the transaction's."""
    try:
        yield
    except Exception as error:
        if opening.identity is not None:
            raise
        raise _before_writing(error) from error.__cause__


def _before_writing(error: Exception) -> Exception:
    """What to raise for an error of a job that has written nothing."""
    if isinstance(error, WriteFailed):
        return BatchFailed(str(error))  # another attempt would fail the same way
    return error if isinstance(error, FencepostError) else known_error(error) or error


def known_error(error: Exception) -> FencepostError | None:
    """One of our errors that a task raised, taken from Spark's message."""
    found = _OURS.search(str(error))
    if found is None:
        return explain(error)
    known = _as_error(found[1], found[2].strip())
    return BatchFailed(str(known)) if isinstance(known, WriteFailed) else known


def _first_line(error: Exception) -> str:
    known = known_error(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return str(known) if known is not None else (lines[0] if lines else repr(error))
