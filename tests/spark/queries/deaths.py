"""Ends of runs, in this process: deaths that are played, and queries that somebody stops.

A pipeline that dies raises what nothing in it catches: nothing is undone, nobody is told, and what was open stays open.
Spark hears of it as of any error in a `foreachBatch`.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pyspark.sql.streaming.readwriter import DataStreamWriter

from fencepost.errors import OutcomeUnknown, WriteFailed
from fencepost.spark.sink.pipeline import Pipeline
from fencepost.spark.sink.steps import BatchStep
from tests.conftest import wait_until
from tests.spark.queries.case import Death
from tests.spark.sink.inprocess import Died, dying_at, looking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

TIMEOUT_S = 60.0
DIED = "the pipeline died"

BatchFunction = Callable[["DataFrame", int], None]


@contextlib.contextmanager
def stopping(death: Death, query: "Future[StreamingQuery]") -> Iterator[None]:
    """The query is stopped at that point, and goes on there when Spark knows that it is to stop."""
    left = itertools.count(death.passes, -1)

    def look(here: BatchStep | str) -> None:
        if here == death.point and next(left) == 0:
            started = query.result(TIMEOUT_S)
            threading.Thread(target=started.stop, daemon=True).start()
            wait_until(lambda: not started.isActive, "the query knows that it is to stop")

    with looking(look):
        yield


@contextlib.contextmanager
def repeating(death: Death) -> Iterator[None]:
    """The attempt fails at that point; where a commit may be under way or done, nobody knows its outcome."""
    left = itertools.count(death.passes, -1)
    error = OutcomeUnknown if death.point in (BatchStep.COMMITTING, BatchStep.COMMITTED) else WriteFailed

    def look(here: BatchStep | str) -> None:
        if here == death.point and next(left) == 0:
            raise error("as the test wants it")

    with looking(look):
        yield


@contextlib.contextmanager
def dying(death: Death | None) -> Iterator[list[Pipeline]]:
    """Queries that are started here die so. Gives the pipelines that were handed to Spark as they are."""
    handed: list[Pipeline] = []
    foreach_batch = DataStreamWriter.foreachBatch

    def mortal(self: DataStreamWriter, func: BatchFunction) -> DataStreamWriter:
        if isinstance(func, Pipeline):
            handed.append(func)

        def call(df: "DataFrame", batch_id: int) -> None:
            try:
                func(df, batch_id)
            except Died:
                raise RuntimeError(DIED) from None

        return foreach_batch(self, call)

    DataStreamWriter.foreachBatch = mortal  # type: ignore[method-assign]
    try:
        with contextlib.nullcontext() if death is None else dying_at(death.point, passes=death.passes):
            yield handed
    finally:
        DataStreamWriter.foreachBatch = foreach_batch  # type: ignore[method-assign]
