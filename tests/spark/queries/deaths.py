"""Ends of runs, in this process: deaths that are played, queries that somebody stops, attempts that fail.

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
from tests.spark.queries.acts import Death, How
from tests.spark.sink.inprocess import Died, looking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

TIMEOUT_S = 60.0
DIED = "the pipeline died"

BatchFunction = Callable[["DataFrame", int], None]


@contextlib.contextmanager
def at(death: Death | None, end: Callable[[], None]) -> Iterator[None]:
    """`end` is called when a pipeline comes to the point of its death."""
    left = itertools.count(death.passes if death else 0, -1)

    def look(here: BatchStep | str) -> None:
        if death is not None and here == death.point and next(left) == 0:
            end()

    with looking(look):
        yield


@contextlib.contextmanager
def ending(death: Death | None, query: "Future[StreamingQuery] | None" = None) -> Iterator[list[Pipeline]]:
    """Queries that are started here end so. Gives the pipelines that were handed to Spark as they are."""
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

    def end() -> None:
        assert death is not None
        if death.how is How.STOPPED:
            assert query is not None
            _stop(query.result(TIMEOUT_S))
        elif death.how is How.REPEATED:
            is_unknown = death.point in (BatchStep.COMMITTING, BatchStep.COMMITTED)
            raise (OutcomeUnknown if is_unknown else WriteFailed)("as the test wants it")
        else:
            raise Died(str(death.point))

    DataStreamWriter.foreachBatch = mortal  # type: ignore[method-assign]
    try:
        with at(death, end):
            yield handed
    finally:
        DataStreamWriter.foreachBatch = foreach_batch  # type: ignore[method-assign]


def _stop(query: "StreamingQuery") -> None:
    """Goes on when Spark knows that the query is to stop."""
    threading.Thread(target=query.stop, daemon=True).start()
    wait_until(lambda: not query.isActive, "the query knows that it is to stop")
