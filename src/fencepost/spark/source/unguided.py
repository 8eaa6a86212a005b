"""Planning a stream for Spark 4.0 and 4.1, which do not say where the query stands when they ask for its next end.

Spark 4.2 passes the query's position and a limit. Earlier versions ask for the newest offset, also right after a start,
and `trigger(availableNow=True)` takes the first answer for everything that there is. So:

- From the second answer on the position is known: it is the answer before. Limits apply as in 4.2.
- The first answer after a start is everything that there is, without a limit, unless a batch that is repeated has told
  the position before. Whether it belongs to a new query is not known either. So it also carries where a new query would
  begin (`@from`). If Spark then passes an initial offset as the start, that is used, and otherwise it is ignored.
- With the option `checkpointLocation` the position is read from the query's checkpoint, and the first answer is limited
  like all others.

Invariant: an answer never lies before the query's position, which may be unknown here. What was lost up to an answer is
found out when Spark passes both ends of the batch.
"""

from fencepost.errors import ConfigError, FencepostError, Malformed
from fencepost.spark import checkpoint
from fencepost.spark.checkpoint import Checkpoint
from fencepost.spark.offsets_json import SourceOffset, parse
from fencepost.spark.source.planner import StreamPlanner
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.splitting import OffsetRange


class UnguidedPlanner:
    def __init__(self, planner: StreamPlanner, options: SourceOptions) -> None:
        self._planner = planner
        self._checkpoint = options.checkpoint
        self._position: SourceOffset | None = None  #: None until an answer was given, or Spark told

    def next_end(self) -> SourceOffset:
        if self._position is None and self._checkpoint is not None:
            self._position = self._logged(checkpoint.local(self._checkpoint))
        if self._position is None:
            self._position = self._first_end()
        else:
            self._position = self._planner.next_end(self._position)
        return self._position

    def ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        if self._position is None:
            self._position = end
        self._planner.check_losses(start, end)
        return self._planner.ranges(start, end)

    def _first_end(self) -> SourceOffset:
        try:
            begin = self._planner.initial()
        except FencepostError:
            begin = SourceOffset({})  # if the query is new, Spark asks for its beginning next and gets the error
        end = self._planner.newest()
        return SourceOffset(end.offsets, begin.start, end.topics, begin.replaced, begin.skipped)

    def _logged(self, found: Checkpoint) -> SourceOffset | None:
        """Where the query's last logged batch ends; None if there is none. A new query begins as it is told to."""
        last = found.last_batch
        if last is None:
            return self._planner.initial()
        mine = self._planner.newest().offsets.keys()
        ends = []
        for text in (found.ends(last) or {}).values():
            try:
                ends.append(parse(text))
            except Malformed:
                continue  # another kind of source
        ours = [end for end in ends if end.offsets and not end.offsets.keys() - mine]
        if len(ours) > 1:
            raise ConfigError(
                "option 'checkpointLocation': several sources of the query read these topics, and the checkpoint does "
                "not say which position belongs to which. Drop the option"
            )
        return ours[0] if ours else None
