"""The stream reader for Spark 4.0 and 4.1, which only ask for the newest offset: `unguided` says what follows."""

from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from fencepost.spark.offsets_json import SourceOffset
from fencepost.spark.plain_errors import one_line
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.readers import Refusing, StreamReading
from fencepost.spark.source.splitting import OffsetRange
from fencepost.spark.source.unguided import UnguidedPlanner


class StreamReader(StreamReading):
    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._unguided: UnguidedPlanner | None = None
        self._answer: SourceOffset | None = None  #: the last one

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_unguided": None, "_answer": None}

    @one_line()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        if self._answer is not None:
            self._completed(self._answer)  # Spark asks again when it has completed the batch that ends there
        self._answer = self._position().next_end()
        return self._tell(self._answer)

    def _ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        return self._position().ranges(start, end)

    def stop(self) -> None:
        super().stop()
        self._unguided = None

    def _position(self) -> UnguidedPlanner:
        if self._unguided is None:
            self._unguided = UnguidedPlanner(self._plan(), self._options)
        return self._unguided


class RefusedReader(Refusing, DataSourceStreamReader):
    """See `Refusing`."""
