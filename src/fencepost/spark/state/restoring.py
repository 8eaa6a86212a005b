"""How long tasks took to catch up with changelogs, told to the driver by an accumulator of Spark.

Spark Connect has no accumulators: there nobody is told. A task that Spark runs again counts again.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyspark.accumulators import AccumulatorParam

from fencepost.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession


class Restored(NamedTuple):
    seconds: float = 0.0
    records: int = 0


class _Sum(AccumulatorParam[Restored]):
    def zero(self, value: Restored) -> Restored:
        return Restored()

    def addInPlace(self, value1: Restored, value2: Restored) -> Restored:  # noqa: N802
        return Restored(value1.seconds + value2.seconds, value1.records + value2.records)


class Restoring:
    """The accumulator of one pipeline, made once: Spark never forgets one."""

    def __init__(self, session: "SparkSession") -> None:
        self.accumulator: Accumulator[Restored] | None = None
        self._told = Restored()
        if not is_connect(session):
            self.accumulator = session.sparkContext.accumulator(Restored(), _Sum())

    def since_last(self) -> Restored:
        """What was added since this was last asked."""
        if self.accumulator is None:
            return Restored()
        before, self._told = self._told, self.accumulator.value
        return Restored(self._told.seconds - before.seconds, self._told.records - before.records)
