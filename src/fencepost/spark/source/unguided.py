"""Planning a stream for Spark 4.0 and 4.1, which do not say where the query stands when they ask for its next end.

Spark 4.2 passes the query's position, a limit, and word of `trigger(availableNow=True)`. Earlier versions ask for the
newest offset, without arguments. So the position is kept here. It is known from

- Spark's first call after a restart, which plans the last logged batch again, or an empty one at its end;
- the last answer after that;
- the options, for a new query: nothing was planned before it asks for its first end. With `availableNow` a batch that
  must be repeated is planned after the first answer, so a query may look new here and is not. An answer without a limit
  is right then, too. Where a new query would begin does no harm in it: the start that Spark passes with a batch counts.

Spark takes the first answer for all that `availableNow` has to read, and does not say that this is the trigger. So the
first answer has no limit, unless the option `limitFirstBatch` says that the trigger is another one.
"""

from fencepost.spark.offsets_json import SourceOffset
from fencepost.spark.source.planner import StreamPlanner
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.splitting import OffsetRange


class UnguidedPlanner:
    def __init__(self, planner: StreamPlanner, options: SourceOptions) -> None:
        self._planner = planner
        self._position: SourceOffset | None = None
        self._is_limited = options.limit_first_batch

    def next_end(self) -> SourceOffset:
        start = self._position or self._planner.initial()  # an error here comes before Spark has logged anything
        self._position = self._planner.next_end(start, unlimited=not self._is_limited)
        self._is_limited = True
        return self._position

    def ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        if self._position is None:
            self._position = end
        return self._planner.ranges(start, end)
