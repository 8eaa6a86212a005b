"""Queries with state that Python functions keep, in Spark's state store. A batch cannot run them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.spark.queries.given import Given
from tests.spark.queries.queries import as_records, counted, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE = "c long, s long"
TOTALS = f"k string, {STATE}"
DAYS = f"k string, day long, {STATE}"
DAY_KEY = "concat_ws('/', k, day)"
DAY_MS = 86_400_000
Rows = Iterator[pd.DataFrame]


def add_up_by_key(key: tuple[str], chunks: Rows, state: GroupState) -> Rows:
    count, total = state.get if state.exists else (0, 0)
    for chunk in chunks:
        count, total = count + len(chunk), total + int(chunk["n"].sum())
    state.update((count, total))
    yield pd.DataFrame({"k": [key[0]], "c": [count], "s": [total]})


def totals_by_pandas(given: Given) -> "DataFrame":
    rows = given("a").select("k", "n").groupBy("k")
    return as_records(rows.applyInPandasWithState(add_up_by_key, TOTALS, STATE, "update", GroupStateTimeout.NoTimeout))


def totals_class() -> Any:
    """It is made late, because its base needs more packages than the other queries."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Totals(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.totals = handle.getValueState("totals", STATE)

        def handleInputRows(self, key: Any, rows: Rows, timerValues: Any) -> Rows:  # noqa: N802, N803
            count, total = (self.totals.get() if self.totals.exists() else None) or (0, 0)
            for chunk in rows:
                count, total = count + len(chunk), total + int(chunk["n"].sum())
            self.totals.update((count, total))
            yield pd.DataFrame({"k": [key[0]], "c": [count], "s": [total]})

        def close(self) -> None:
            pass

    return Totals


def totals_by_processor(given: Given) -> "DataFrame":
    rows = given("a").select("k", "n").groupBy("k")
    return as_records(rows.transformWithStateInPandas(totals_class()(), TOTALS, "Update", "None"))


# -- totals of a day, given when the watermark has left it -------------------------------------------------------------


def by_day(given: Given) -> "DataFrame":
    return timed(given).selectExpr("k", "unix_seconds(t) div 86400 AS day", "n", "t")


def days(given: Given) -> "DataFrame":
    return as_records(counted(by_day(given), "k", "day"), DAY_KEY)


def emit_when_timed_out(key: tuple[str, int], chunks: Rows, state: GroupState) -> Rows:
    if state.hasTimedOut:
        count, total = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "day": [key[1]], "c": [count], "s": [total]})
        return
    for _ in add_up_by_key((key[0],), chunks, state):  # it is only given when the day is over
        state.setTimeoutTimestamp(int(key[1] + 1) * DAY_MS)


def days_by_pandas(given: Given) -> "DataFrame":
    rows, timeout = by_day(given).groupBy("k", "day"), GroupStateTimeout.EventTimeTimeout
    return as_records(rows.applyInPandasWithState(emit_when_timed_out, DAYS, STATE, "append", timeout), DAY_KEY)


def days_by_processor(given: Given) -> "DataFrame":
    class Days(totals_class()):  # type: ignore[misc]
        """The same with a timer."""

        def handleInputRows(self, key: Any, rows: Rows, timerValues: Any) -> Rows:  # noqa: N802, N803
            for _ in super().handleInputRows(key, rows, timerValues):
                self.handle.registerTimer(int(key[1] + 1) * DAY_MS)
            yield from ()

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Rows:  # noqa: N802, N803
            count, total = self.totals.get() or (0, 0)
            self.totals.clear()
            yield pd.DataFrame({"k": [key[0]], "day": [key[1]], "c": [count], "s": [total]})

    rows = by_day(given).groupBy("k", "day")
    return as_records(rows.transformWithStateInPandas(Days(), DAYS, "Append", "EventTime"), DAY_KEY)
