"""The shop from beginning to end: topics, purchases, pipeline, verification.

Owns the order of the steps and the threads: purchases are written in a thread of their own while Spark starts. Every
step can be repeated, so the next run continues one that was killed anywhere. Invariant: the first Ctrl-C ends a run
cleanly, the second at once.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.client.groups import committed_offsets
from fencepost.client.offsets import earliest, latest, partitions_of
from fencepost.errors import FencepostError
from fencepost.shop import DEAD_LETTERS, INVOICES, PIPELINE, PURCHASES, TOPICS
from fencepost.shop.display import Display, Figures, rows_of
from fencepost.shop.failures import explain
from fencepost.shop.interrupts import Interrupts
from fencepost.shop.pipeline import start
from fencepost.shop.verify import Report, Verifier
from fencepost.shop.writing import Made, PurchaseWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from fencepost.spark.sink.progress import TransactionProgress

TICK_S = 0.1


class ShopFailed(FencepostError):
    """The pipeline stopped. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ShopPlan:
    """What to do, and where."""

    kafka: Mapping[str, str] = field(repr=False)  #: the settings of a client, by Kafka's names
    checkpoint: Path
    log_file: Path
    purchases: int = 200_000
    master: str = "local[*]"
    partitions: int = 4
    batch: int = 50_000  #: maximum purchases per transaction
    seed: int | None = None
    follow_per_second: int = 0  #: if not 0, add this many purchases per second until Ctrl-C


def run(plan: ShopPlan, display: Display) -> Report:
    """Do all steps. The report says whether the result is right. Raises if it could not be checked.

    Raises KeyboardInterrupt after Ctrl-C, when everything has been stopped. The next run continues.
    """
    figures = Figures(wanted=plan.purchases, phase="starting")
    with Interrupts() as interrupts, Cluster(plan.kafka) as cluster, display.watching(figures):
        create_topics(cluster, {name: NewTopic(plan.partitions) for name in TOPICS})
        writing = _Writing(plan, figures)
        with _spark(plan, figures, writing, interrupts) as spark:
            if not interrupts.have_come:
                figures.to_process = min(_waiting(cluster), figures.written)  # transaction markers have offsets, too
                _process(plan, spark, figures, interrupts)
        if interrupts.have_come and not plan.follow_per_second:
            raise KeyboardInterrupt
        figures.phase = "verifying"
        with Verifier(plan.kafka) as verifier:
            report = verifier.look(is_final=True)
    display.table(rows_of(report, figures))
    return report


# -- purchases and Spark, side by side ---------------------------------------------------------------------------------


class _Writing(threading.Thread):
    """Writes the purchases that are missing. `finish` raises its error."""

    def __init__(self, plan: ShopPlan, figures: Figures, per_second: int = 0) -> None:
        super().__init__(name="shop-purchases", daemon=True)
        self._plan = plan
        self._figures = figures
        self._per_second = per_second
        self._cluster = Cluster(plan.kafka)
        self._writer = PurchaseWriter(self._cluster)
        self._error: Exception | None = None

    def open(self) -> None:
        """Fence an earlier writer, and look up how many purchases it has written."""
        self._figures.written = self._writer.open(self._plan.seed).purchases
        self._figures.wanted = max(self._figures.wanted, self._figures.written)

    def run(self) -> None:
        figures = self._figures
        try:
            with self._cluster:
                already = figures.written
                started_s, before, before_s = time.monotonic(), figures.written_here, figures.write_s

                def on_progress(made: Made) -> None:
                    figures.written, figures.written_here = made.purchases, before + made.purchases - already
                    figures.write_s = before_s + time.monotonic() - started_s

                if self._per_second:
                    self._writer.trickle(self._per_second, on_progress)
                else:
                    self._writer.write_up_to(self._plan.purchases, on_progress)
        except Exception as error:
            self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def finish(self, interrupts: Interrupts) -> None:
        """Wait for its end. Ctrl-C ends it after the current transaction."""
        while self.is_alive():
            self.join(TICK_S)
            if interrupts.have_come:
                self._writer.stop()
        self.check()

    def stop_and_join(self) -> None:
        self._writer.stop()
        if self.ident is not None:
            self.join()


@contextlib.contextmanager
def _spark(plan: ShopPlan, figures: Figures, writing: _Writing, interrupts: Interrupts) -> Iterator["SparkSession"]:
    from fencepost.spark.session import session

    figures.phase = "starting Spark"
    plan.log_file.parent.mkdir(parents=True, exist_ok=True)
    writing.open()
    writing.start()
    try:
        spark = session("fencepost shop", plan.master, log_file=plan.log_file)
        try:
            interrupts.take_back()  # Spark has installed its own handler, which cancels running jobs
            interrupts.hold()
            figures.phase = "writing purchases"
            writing.finish(interrupts)
            yield spark
        finally:
            figures.phase = "stopping Spark"
            spark.stop()
    finally:
        writing.stop_and_join()


# -- the pipeline ------------------------------------------------------------------------------------------------------


def _waiting(cluster: Cluster) -> int:
    """Offsets from the pipeline's committed offsets to the end: purchases, and a marker per transaction."""
    partitions = partitions_of(cluster, [PURCHASES])
    starts, ends = earliest(cluster, partitions), latest(cluster, partitions)
    committed = committed_offsets(cluster, PIPELINE, partitions)
    return sum(ends[p] - (committed[p].offset if p in committed else starts[p]) for p in partitions)


def _process(plan: ShopPlan, spark: "SparkSession", figures: Figures, interrupts: Interrupts) -> None:
    """Run the query until it is done or Ctrl-C comes."""
    from fencepost.spark import subscribe

    figures.phase = "processing"
    started_s = time.monotonic()

    def on_transaction(done: "TransactionProgress") -> None:
        figures.processed += done.records.get(INVOICES, 0) + done.records.get(DEAD_LETTERS, 0)
        figures.committed += not done.was_skipped
        figures.process_s = time.monotonic() - started_s

    with contextlib.ExitStack() as listening, _explained(plan):
        listening.callback(subscribe(on_transaction))
        trigger = {"processingTime": "1 second"} if plan.follow_per_second else {"availableNow": True}
        query = start(spark, plan.kafka, str(plan.checkpoint), trigger=trigger, purchases_per_batch=plan.batch)
        try:
            if plan.follow_per_second:
                _follow(plan, query, figures, interrupts)
            else:
                _await(query, figures, lambda: interrupts.have_come)
                figures.to_process = figures.processed
        finally:
            query.stop()  # before Spark stops; otherwise the query ends with a stack trace


def _await(query: "StreamingQuery", figures: Figures, is_over: Callable[[], bool]) -> None:
    """Wait until the query ends, fails, or `is_over`."""
    from fencepost.spark import progress

    while not is_over() and query.isActive:
        time.sleep(TICK_S)
        figures.aborted = found.aborted if (found := progress(query)) else figures.aborted
    if (error := query.exception()) is not None:
        raise error


def _follow(plan: ShopPlan, query: "StreamingQuery", figures: Figures, interrupts: Interrupts) -> None:
    """Add purchases until Ctrl-C, then process all that have been added."""
    trickle = _Writing(plan, figures, plan.follow_per_second)
    trickle.open()
    figures.phase, figures.wanted, figures.to_process = "following, Ctrl-C to stop", 0, 0
    trickle.start()

    def is_over() -> bool:
        trickle.check()
        return interrupts.have_come

    try:
        _await(query, figures, is_over)
    finally:
        trickle.stop_and_join()
    figures.phase = "processing what is left"
    interrupts.release()
    query.processAllAvailable()


@contextlib.contextmanager
def _explained(plan: ShopPlan) -> Iterator[None]:
    """Spark's errors as one message."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise ShopFailed(f"{explain(error)} (Spark's log: {plan.log_file})") from error
