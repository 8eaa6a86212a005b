"""Pipelines run by the Spark of this process. They may die at any step, as it looks from outside.

A pipeline that dies here raises an exception that nothing in it catches. What it had open stays open.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.client.connection import Connection, Pending
from fencepost.client.registration import END_TXN
from fencepost.spark import batch_writer
from fencepost.spark.sink import steps
from fencepost.spark.sink.pipeline import Pipeline
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.conftest import wait_until
from tests.spark import numbers_job
from tests.spark.numbers_job import EVERYTHING, Plan, end_when_done

TIMEOUT_S = 240.0
ENDTXN_SENT = "ENDTXN_SENT"


class Died(BaseException):
    """Nothing catches it: the pipeline undoes nothing and tells nobody."""


class InProcess:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._pipelines: list[Pipeline] = []
        self._queries: list[StreamingQuery] = []

    def writer(self, plan: Plan, **changes: Any) -> Pipeline:
        """A writer for the plan's pipeline. It is closed after the test."""
        given = {"pipeline": plan.pipeline, "bootstrap_servers": plan.bootstrap, "options": plan.options, **changes}
        options = {**logins.sink(plan.bootstrap), **given["options"]}
        self._pipelines.append(batch_writer(**{**given, "options": options}))
        return self._pipelines[-1]

    def numbers(self, plan: Plan) -> DataFrame:
        """The plan's numbers as records for its left topic."""
        return _to_left(numbers_job.read(self.spark, plan), plan)

    def rate(self, plan: Plan) -> DataFrame:
        """Ten numbers in each batch, from a source without Kafka offsets, as records for the plan's left topic."""
        return _to_left(self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load(), plan)

    def start(
        self,
        plan: Plan,
        df: DataFrame | None = None,
        *,
        trigger: dict[str, Any] | None = None,
        pipeline: Pipeline | None = None,
        function: Callable[[DataFrame, int], None] | None = None,
        output_mode: str = "append",
        is_prepared: bool = False,
        **writer: Any,
    ) -> StreamingQuery:
        """`df` are the records, those of the plan unless given; `function` is called instead of `pipeline`.

        `is_prepared`: as `write_stream` does it, so that the query may be evaluated on columns.
        """
        records = numbers_job.transform(numbers_job.read(self.spark, plan), plan) if df is None else df
        if pipeline is None:
            pipeline = self.writer(plan, **writer)
            records = pipeline.prepare(records) if is_prepared else records
            pipeline.fence()
        query = (
            records.writeStream.foreachBatch(_mortal(function or pipeline))
            .outputMode(output_mode)
            .option("checkpointLocation", plan.checkpoint)
            .trigger(**(trigger or EVERYTHING))
            .start()
        )
        self._queries.append(query)
        return query

    def run(self, plan: Plan, df: DataFrame | None = None, **more: Any) -> StreamingQuery:
        """To its end, without an error."""
        query = self.start(plan, df, **more)
        if "trigger" not in more:
            end_when_done(query)
        assert query.awaitTermination(int(TIMEOUT_S)), "the query does not end"
        return query

    def run_until_failed(self, plan: Plan, df: DataFrame | None = None, **more: Any) -> str:
        return self.wait_until_failed(self.start(plan, df, **more))

    def wait_until_failed(self, query: StreamingQuery) -> str:
        """What the query failed with."""
        with pytest.raises(StreamingQueryException) as failed:
            assert not query.awaitTermination(int(TIMEOUT_S)), "the query ended well"
        return str(failed.value)

    def close(self) -> None:
        for query in self._queries:
            with contextlib.suppress(StreamingQueryException):
                query.stop()
        for pipeline in self._pipelines:
            pipeline.close()


def _to_left(rows: DataFrame, plan: Plan) -> DataFrame:
    return rows.selectExpr(f"'{plan.left}' AS topic", "CAST(value AS STRING) AS value")


def _mortal(function: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    def call(df: DataFrame, batch_id: int) -> None:
        try:
            function(df, batch_id)
        except Died:
            raise RuntimeError("the pipeline died") from None

    return call


@contextlib.contextmanager
def dying_at(point: BatchStep | str, *, passes: int = 0) -> Iterator[None]:
    """Pipelines of this process die when they come to a point once more than `passes` times."""
    left = itertools.count(passes, -1)

    def look(here: BatchStep | str) -> None:
        if here == point and next(left) == 0:
            raise Died(str(point))

    with looking(look):
        yield


class Gate:
    """Lets `passes` pipelines pass a point, and holds up the next one until it is opened."""

    def __init__(self, point: BatchStep | str, *, passes: int = 0) -> None:
        self._point = point
        self._left = passes
        self._reached, self._opened = threading.Event(), threading.Event()

    def look(self, here: BatchStep | str) -> None:
        if here != self._point or self._reached.is_set():
            return
        self._left -= 1
        if self._left < 0:
            self._reached.set()
            assert self._opened.wait(TIMEOUT_S)

    def wait_until_reached(self, query: StreamingQuery) -> None:
        wait_until(lambda: self._reached.is_set() or not query.isActive, f"{self._point} is reached", TIMEOUT_S)
        assert self._reached.is_set(), query.exception()

    def open(self) -> None:
        self._opened.set()


@contextlib.contextmanager
def looking(look: Callable[[BatchStep | str], None]) -> Iterator[None]:
    """`look` is called at each step of any pipeline here, and when a commit has been sent and not answered."""
    receive, hook = Connection.receive, steps.hook

    def receive_and_look(self: Connection, pending: Pending, **more: Any) -> Any:
        if pending.api_key == END_TXN:
            look(ENDTXN_SENT)
        return receive(self, pending, **more)

    steps.hook = lambda step, _batch: look(step)
    Connection.receive = receive_and_look  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        steps.hook, Connection.receive = hook, receive  # type: ignore[method-assign]
