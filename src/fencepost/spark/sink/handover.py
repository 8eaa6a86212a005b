"""Encoders hand their record batches to the driver, which writes them while the encoders go on.

The other way (`stages`) has two stages of tasks: nothing is written before everything is encoded, and the cores wait
while one broker takes it all in. On one machine the record batches are in files anyway (`spool`), so the driver can
write them from there as soon as they are made, and there is one stage less to schedule.

The price: the transaction is open while rows are computed, and nothing that was handed over can be taken back. So this
way is taken only for a batch that will be over long before the transaction times out, judged by the batches before it
(`PaceGuess`). And if it fails for whatever reason, the batch is aborted and run again the other way, which finds out
what is wrong before it writes.

Invariants: the parts of a task are taken from one attempt only (`permits`), and written in the order in which they were
made. A job that returns has handed over as many parts as its tasks report, and all of them are acknowledged.
"""

import contextlib
import json
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from fencepost.client.cluster import Cluster
from fencepost.client.encode import Blob
from fencepost.client.identity import ProducerIdentity
from fencepost.client.writing import Acknowledged, TransactionWriter
from fencepost.errors import FencepostError, WriteFailed
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sink.permits import Ticket, ask
from fencepost.spark.sink.spool import Place, Spool, SpoolReader, SpoolWriter
from fencepost.spark.sink.stages import (
    EncodeSettings,
    ReportKind,
    RowEncoder,
    WriterReport,
    current_task,
    measured,
    reports_to_arrow,
)
from fencepost.wire.terms import TopicPartition

#: An encoder hands over when it has so much.
PART_BYTES = 2 << 20
#: The share of the transaction's timeout that a batch may be expected to take.
TIMEOUT_SHARE = 1 / 6


@dataclass(slots=True)
class PaceGuess:
    """How long a batch may take, by the largest batch so far, of several the last: a smaller one as long as that."""

    records: int = 0
    elapsed_s: float = 0.0

    def seconds(self, input_records: int | None) -> float | None:
        """None if that cannot be told."""
        if input_records is None or not self.records:
            return None
        return self.elapsed_s * max(1.0, input_records / self.records)

    def learn(self, input_records: int | None, elapsed_s: float) -> None:
        if input_records and input_records >= self.records:
            self.records, self.elapsed_s = input_records, elapsed_s


# -- executors ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandOverStage:
    """The only stage: rows in; out a report of what was handed over."""

    settings: EncodeSettings
    ticket: Ticket
    spool: Spool

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        encoder, task, sizes = RowEncoder(self.settings), current_task(), [0]
        with one_line(), contextlib.closing(SpoolWriter(self.spool, task.attempt_id)) as file:
            parts = _Parts(file)
            for blobs in encoder.blobs(measured(rows, sizes)):
                if (part := parts.add(blobs)) is not None:
                    self.hand_over(part)
            if (part := parts.end()) is not None:
                self.hand_over(part)
        text = encoder.marker(task.attempt_id, max(sizes))
        yield reports_to_arrow([WriterReport(ReportKind.HANDED, records=parts.count, writer=task.partition, text=text)])

    def hand_over(self, part: Place) -> None:
        """Raises WriteFailed if another attempt of the task has handed over, or the job is over."""
        task = current_task()
        ask(self.ticket, task.partition, task.name, part)


@dataclass(slots=True)
class _Parts:
    """The record batches of one task, and the lists of them that it hands over."""

    file: SpoolWriter
    count: int = 0
    _listed: list[tuple[str, int, Place]] = field(default_factory=list)
    _bytes: int = 0

    def add(self, blobs: list[Blob]) -> Place | None:
        """Where the list of the next part is, if these complete one."""
        for blob in blobs:
            place = self.file.append(blob.data)
            self._listed.append((blob.topic, blob.partition, place))
            self._bytes += place.size
        return self.end() if self._bytes >= PART_BYTES else None

    def end(self) -> Place | None:
        if not self._listed:
            return None
        place = self.file.append(json.dumps(self._listed).encode())
        self._listed, self._bytes = [], 0
        self.count += 1
        return place


# -- the driver --------------------------------------------------------------------------------------------------------


class Handover:
    """Writes what the encoders of one job hand over, in a thread of its own. The `with` block ends the thread."""

    def __init__(self, cluster: Cluster, spool: Spool) -> None:
        """Nobody else may use the cluster meanwhile."""
        self._cluster = cluster
        self._files = SpoolReader(spool)
        self._taken: queue.SimpleQueue[Place | None] = queue.SimpleQueue()
        self._parts: Counter[int] = Counter()  #: by task
        self._thread: threading.Thread | None = None
        self._writer: TransactionWriter | None = None
        self.error: FencepostError | None = None  #: why writing failed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        if error is not None:
            self.cancel()
        self._join()

    def take(self, identity: ProducerIdentity, task: int, part: Place) -> None:
        """Called by one thread at a time."""
        if self.error is not None:
            raise self.error
        if self._writer is None:
            self._writer = TransactionWriter(self._cluster, identity)
            self._thread = threading.Thread(target=self._run, args=(self._writer,), name="fencepost-handover")
            self._thread.daemon = True
            self._thread.start()
        self._parts[task] += 1
        self._taken.put(part)

    def cancel(self) -> None:
        """From any thread: write no more."""
        if self._writer is not None:
            self._writer.cancel()

    def finish(self, reports: list[WriterReport]) -> Mapping[TopicPartition, Acknowledged]:
        """Wait until everything is acknowledged. `reports` are those of all tasks."""
        self._join()
        if self.error is not None:
            raise self.error
        handed = {report.writer: report.records for report in reports if report.records}
        if handed != dict(self._parts):
            raise WriteFailed(f"tasks handed over {handed} parts, and {dict(self._parts)} were written")
        return {} if self._writer is None else self._writer.written

    def _join(self) -> None:
        if self._thread is not None:
            self._taken.put(None)
            self._thread.join()

    def _run(self, writer: TransactionWriter) -> None:
        try:
            while (part := self._taken.get()) is not None:
                listed = json.loads(bytes(self._files.read(part)))
                blobs = [(TopicPartition(topic, partition), Place(*place)) for topic, partition, place in listed]
                writer.expect(sorted({where for where, _ in blobs}))
                for where, place in blobs:
                    writer.write(where, self._files.read(place))
            writer.flush()
        except FencepostError as error:
            self.error = error
        except Exception as error:  # a bug of ours must not look like success
            self.error = WriteFailed(f"{type(error).__name__}: {error}")
        finally:
            writer.close()
