"""Pipelines on a session of Spark Connect, whose `foreachBatch` runs in a Python process of the server.

That process looks for orders (`fencepost.lab.scenarios.orders`) at each step of a batch, and waits or dies as told.
"""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.lab.scenarios import spark_job
from fencepost.spark import batch_writer
from tests import logins
from tests.conftest import wait_until
from tests.spark import numbers_job
from tests.spark.connect.server import ConnectServer
from tests.spark.numbers_job import EVERYTHING, Plan, end_when_done

TIMEOUT_S = 240
#: For `foreachBatch`.
Function = Callable[[DataFrame, int], None]


class Obedient:
    """A function for `foreachBatch` that looks for orders. A copy of it goes to the server."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._is_first = True

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        if self._is_first:
            spark_job.obey()
            self._is_first = False
        self.function(df, batch_id)


class Runner:
    """Starts pipelines in a session, and orders what happens to their processes."""

    def __init__(self, server: ConnectServer) -> None:
        self.session = server.session()
        self.orders = server.orders
        self._queries: list[StreamingQuery] = []

    def start(
        self,
        plan: Plan,
        df: DataFrame | None = None,
        *,
        function: Function | None = None,
        output_mode: str = "append",
        **writer: Any,
    ) -> StreamingQuery:
        """`df` are the records, those of the plan unless given; `function` is called instead of a writer."""
        records = numbers_job.transform(numbers_job.read(self.session, plan), plan) if df is None else df
        if function is None:
            made = writer_of(plan, **writer)
            made.fence(self.session)
            function = made
        query = (
            records.writeStream.foreachBatch(Obedient(function))
            .outputMode(output_mode)
            .option("checkpointLocation", plan.checkpoint)
            .trigger(**({"processingTime": "50 milliseconds"} if plan.is_endless else EVERYTHING))
            .start()
        )
        self._queries.append(query)
        return query

    def run(self, plan: Plan, df: DataFrame | None = None, **more: Any) -> StreamingQuery:
        """To its end, without an error."""
        query = self.start(plan, df, **more)
        end_when_done(query)
        assert query.awaitTermination(TIMEOUT_S), "the query does not end"
        assert query.exception() is None
        return query

    def run_until_failed(self, plan: Plan, df: DataFrame | None = None, **more: Any) -> str:
        return failure_of(self.start(plan, df, **more))

    def wait_for_order(self, point: str) -> int:
        """Until the order is taken. Returns the process that took it."""
        return int(wait_until(lambda: self.orders.taken_by(point), f"a batch comes to {point}", TIMEOUT_S))

    def close(self) -> None:
        for query in self._queries:
            query.stop()
        self.orders.withdraw_all()
        self.session.stop()


def writer_of(plan: Plan, **changes: Any) -> Any:
    options = {**logins.sink(plan.bootstrap), **plan.options}
    given = {"pipeline": plan.pipeline, "bootstrap_servers": plan.bootstrap, "checkpoint": plan.checkpoint}
    return batch_writer(**{**given, "options": options, **changes})


def failure_of(query: StreamingQuery) -> str:
    """What a query failed with."""
    with pytest.raises(StreamingQueryException) as failed:
        assert not query.awaitTermination(TIMEOUT_S), "the query ended well"
    return str(failed.value)
