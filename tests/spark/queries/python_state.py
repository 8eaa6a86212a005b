"""Queries with state that Python functions keep, in Spark's state store. A batch cannot run them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.spark.queries.given import Given
from tests.spark.queries.queries import DELAY, as_records, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOTALS = "k string, c long, s long"
Rows = Iterator[pd.DataFrame]


def add_up_by_key(key: tuple[str], chunks: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    count, total = state.get if state.exists else (0, 0)
    for chunk in chunks:
        count, total = count + len(chunk), total + int(chunk["n"].sum())
    state.update((count, total))
    yield pd.DataFrame({"k": [key[0]], "c": [count], "s": [total]})


def totals_by_pandas(given: Given) -> "DataFrame":
    rows = given("a").select("k", "n").groupBy("k")
    done = rows.applyInPandasWithState(add_up_by_key, TOTALS, "c long, s long", "update", GroupStateTimeout.NoTimeout)
    return as_records(done)


def totals_by_processor(given: Given) -> "DataFrame":
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Totals(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.totals = handle.getValueState("totals", "c long, s long")

        def handleInputRows(self, key: Any, rows: Rows, timerValues: Any) -> Rows:  # noqa: N802, N803
            count, total = (self.totals.get() if self.totals.exists() else None) or (0, 0)
            for chunk in rows:
                count, total = count + len(chunk), total + int(chunk["n"].sum())
            self.totals.update((count, total))
            yield pd.DataFrame({"k": [key[0]], "c": [count], "s": [total]})

        def close(self) -> None:
            pass

    rows = given("a").select("k", "n").groupBy("k")
    return as_records(rows.transformWithStateInPandas(Totals(), TOTALS, "Update", "None"))


def emit_when_timed_out(
    key: tuple[str, int], chunks: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Counts a key's rows of a day, and gives the totals when the watermark has left that day."""
    count, total = state.get if state.exists else (0, 0)
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "day": [key[1]], "c": [count], "s": [total]})
        return
    for chunk in chunks:
        count, total = count + len(chunk), total + int(chunk["n"].sum())
    state.update((count, total))
    state.setTimeoutTimestamp(int(key[1] + 1) * DAY_MS)


def by_day(given: Given) -> "DataFrame":
    return given("a").withWatermark("t", DELAY).selectExpr("k", "unix_seconds(t) div 86400 AS day", "n", "t")


DAY_MS = 86_400_000
DAYS = "k string, day long, c long, s long"
DAY_KEY = "concat_ws('/', k, day)"


def days_by_pandas(given: Given) -> "DataFrame":
    rows = by_day(given).groupBy("k", "day")
    return as_records(
        rows.applyInPandasWithState(
            emit_when_timed_out, DAYS, "c long, s long", "append", GroupStateTimeout.EventTimeTimeout
        ),
        DAY_KEY,
    )


def days_by_processor(given: Given) -> "DataFrame":
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Days(StatefulProcessor):
        """The same with a timer."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.totals = handle.getValueState("totals", "c long, s long")

        def handleInputRows(self, key: Any, rows: Rows, timerValues: Any) -> Rows:  # noqa: N802, N803
            count, total = (self.totals.get() if self.totals.exists() else None) or (0, 0)
            for chunk in rows:
                count, total = count + len(chunk), total + int(chunk["n"].sum())
            self.totals.update((count, total))
            self.handle.registerTimer(int(key[1] + 1) * DAY_MS)
            yield from ()

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Rows:  # noqa: N802, N803
            count, total = self.totals.get() or (0, 0)
            self.totals.clear()
            yield pd.DataFrame({"k": [key[0]], "day": [key[1]], "c": [count], "s": [total]})

        def close(self) -> None:
            pass

    rows = by_day(given).groupBy("k", "day")
    return as_records(rows.transformWithStateInPandas(Days(), DAYS, "Append", "EventTime"), DAY_KEY)


def days(given: Given) -> "DataFrame":
    return as_records(counted(by_day(given), "k", "day"), DAY_KEY)
