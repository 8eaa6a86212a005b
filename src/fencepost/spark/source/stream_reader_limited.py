"""The stream reader for Spark 4.2 and later, which tells where the query stands and how much to read."""

from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from fencepost.spark.offsets_json import parse
from fencepost.spark.plain_errors import one_line
from fencepost.spark.source.readers import Refusing, StreamReading


class StreamReader(StreamReading, SupportsTriggerAvailableNow):
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tells Spark that there is a limit. `latestOffset` applies all of them, whichever is returned here."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    @one_line()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        known = parse(start)
        self._completed(known)
        end = self._plan().next_end(known, unlimited=isinstance(limit, ReadAllAvailable))
        return start if end is known else self._tell(end)

    @one_line()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._plan().freeze()

    @one_line()
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._plan().report()


class RefusedReader(Refusing, DataSourceStreamReader, SupportsTriggerAvailableNow):
    getDefaultReadLimit = prepareForTriggerAvailableNow = Refusing._refuse  # noqa: N815
