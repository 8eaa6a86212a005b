"""A stream's offsets from batch to batch.

Lives in the one process that Spark keeps for a stream's planning, and holds its connection. Invariants: an offset never
goes back; what a batch reads is determined by its start and its end alone, and by its end alone if that is the first
one (`offsets_json`); where there is nothing new the start is given back as it came, because Spark compares texts.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.client.cluster import Cluster, TopicPartition
from fencepost.spark.offsets_json import Positions, SourceOffset, parse_numbers, positions_as_dict
from fencepost.spark.source.admission import Gate, backlog, limited
from fencepost.spark.source.positions import (
    begin_of,
    data_loss,
    end_of,
    high_watermarks,
    require_all,
    starting_positions,
    subscribed_partitions,
)
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.splitting import OffsetRange

logger = logging.getLogger(__name__)

LAG_KEY = "@lag"


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class StreamPlanner:
    def __init__(self, cluster: Cluster, options: SourceOptions, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._cluster = cluster
        self._options = options
        self._now_ms = now_ms
        self._gate = Gate(options.min_offsets or 0, options.max_delay_ms)
        self._target: Positions | None = None  #: where an AvailableNow query ends
        self._seen: Positions = {}  #: the ends of all partitions when they were last asked for
        self._given: Positions = {}  #: the end of the batch that was given last

    def initial(self) -> SourceOffset:
        """Where a new query begins. It says so itself, so that an end made from it can."""
        partitions = subscribed_partitions(self._cluster, self._options)
        require_all(self._options, partitions)
        found = starting_positions(self._cluster, self._options, partitions)
        begin, end = begin_of(self._cluster, partitions), high_watermarks(self._cluster, partitions)
        for where, offset in found.items():
            first, last = begin[where], end[where]
            if not first <= offset <= last:
                self._warn(f"{where} is to be read from offset {offset} on, but holds offsets {first} to {last}")
                found[where] = min(max(offset, first), last)
        return SourceOffset(found, found)

    def freeze(self) -> None:
        """From now on there is nothing new: the query ends with what is there."""
        self._target = self._ends(subscribed_partitions(self._cluster, self._options))

    def next_end(self, start: SourceOffset, *, unlimited: bool = False) -> SourceOffset:
        """The end of the batch that begins at `start`; `start` itself when there is none."""
        options = self._options
        ends = self._target
        if ends is None:
            ends = self._ends(subscribed_partitions(self._cluster, options))
        self._seen, self._given = ends, start.offsets
        begin = {**self._first_of_new(start.offsets, ends), **start.offsets}
        ends = self._without_losses(begin, ends)
        waiting = sum(backlog(begin, ends).values())
        if ends == start.offsets:
            return start
        if not unlimited:
            # An AvailableNow query would wait in vain for more than there is.
            if options.min_offsets and self._target is None and not self._gate.opens(waiting, self._now_ms()):
                return start
            if options.max_offsets is not None:
                ends = limited(begin, ends, options.max_offsets)
        self._given = ends
        # Nothing has been read as long as the start is where the query began.
        is_first = start.start is not None and start.start == start.offsets
        return SourceOffset(ends, start.start if is_first else None)

    def report(self) -> dict[str, Any]:
        """The ends of all partitions, and how far behind them the last batch ends; both in offsets.

        An offset may be a transaction's marker or an aborted record, so it is the most that can be left to read; 0
        means that nothing is.
        """
        lag = {where: max(0, end - self._given[where]) for where, end in self._seen.items() if where in self._given}
        new = {where: end for where, end in self._seen.items() if where not in self._given}
        return {**positions_as_dict(self._seen), LAG_KEY: positions_as_dict({**lag, **new})}

    def ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        """What lies between: the end says where it began if the query began there."""
        if start == end:
            return []
        begin = start.offsets if end.start is None else end.start
        ends = self._still_there(end.offsets)
        new = [where for where in ends if where not in begin]
        begin = {**(begin_of(self._cluster, new) if new else {}), **begin}
        return [
            OffsetRange(where, begin[where], offset, self._cluster.topic(where.topic).id)
            for where, offset in sorted(ends.items())
            if begin[where] < offset
        ]

    def close(self) -> None:
        self._cluster.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _ends(self, partitions: list[TopicPartition]) -> Positions:
        return end_of(self._cluster, self._options, partitions) if partitions else {}

    def _still_there(self, ends: Positions) -> Positions:
        """Without partitions that were deleted after the batch was logged; that is an error or a warning."""
        known = self._cluster.refresh({where.topic for where in ends}, missing_ok=True) if ends else {}
        gone = sorted(w for w in ends if w.topic not in known or w.partition not in known[w.topic].partitions)
        if gone:
            names = ", ".join(str(where) for where in gone)
            self._warn(f"{names}: deleted, with records of a batch that is still to be read")
        return {where: offset for where, offset in ends.items() if where not in gone}

    def _first_of_new(self, start: Positions, ends: Positions) -> Positions:
        """Partitions that were made after the query began are read from their first record."""
        new = [where for where in ends if where not in start]
        return begin_of(self._cluster, new) if new else {}

    def _without_losses(self, begin: Positions, ends: Positions) -> Positions:
        """`ends` as they are safe to give; what is lost is an error or a warning."""
        gone = sorted(where for where in begin if where not in ends)
        if gone:
            names = ", ".join(str(where) for where in gone)
            self._warn(f"{names}: gone, with what was not read yet; the topic was deleted or is subscribed no more")
        ends = self._not_backwards(begin, ends)
        ahead = [where for where, offset in ends.items() if begin[where] < offset]
        first = begin_of(self._cluster, ahead) if ahead else {}
        for where, offset in first.items():
            if begin[where] < offset:
                self._warn(
                    f"{where}: the records from offset {begin[where]} to {min(offset, ends[where])} were deleted, by "
                    f"retention for instance, before they were read; it begins at offset {offset} now"
                )
        return ends

    def _not_backwards(self, begin: Positions, ends: Positions) -> Positions:
        """A partition that ends before the position was made anew, unless the rest is still in open transactions."""
        behind = [where for where, offset in ends.items() if offset < begin[where]]
        if not behind:
            return ends
        ends = dict(ends)
        high = high_watermarks(self._cluster, behind)
        for where in behind:
            if high[where] >= begin[where]:
                ends[where] = begin[where]
            else:
                self._warn(
                    f"{where}: it was read up to offset {begin[where]} and ends at {high[where]} now; its topic was "
                    "deleted and made anew, or its last records were lost"
                )
        return ends

    def _warn(self, what: str) -> None:
        logger.warning("%s", data_loss(self._options, what))


def lag_of(latest_offset: Mapping[str, Any] | str | None) -> Positions:
    """How far behind a query is, from a progress's `sources[...].latestOffset`. Empty where that says nothing."""
    found = json.loads(latest_offset) if isinstance(latest_offset, str) else latest_offset
    return parse_numbers(found[LAG_KEY]) if found and LAG_KEY in found else {}
