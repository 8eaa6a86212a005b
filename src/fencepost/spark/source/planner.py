"""A stream's offsets from batch to batch.

Lives in the process that Spark keeps for planning a stream, and owns its connection. Invariants: a position never goes
back within one topic. Start and end determine what a batch reads; for the first batch the end alone does
(`offsets_json`). If there is nothing new, the start is returned unchanged, because Spark compares texts.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.rights import Operation, wanted
from fencepost.spark.offsets_json import Positions, SourceOffset, parse_numbers, positions_as_dict
from fencepost.spark.source.admission import Gate, backlog, limited
from fencepost.spark.source.positions import (
    high_watermarks,
    replaced_topic,
    require_all,
    starting_positions,
    subscribed_partitions,
    warn_of_loss,
)
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.splitting import OffsetRange
from fencepost.spark.topic_identity import Identities, identity_of, replaced_topics
from fencepost.wire.terms import TopicPartition

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
        self._target_topics: Identities = {}  #: the identities of its topics
        self._seen: Positions = {}  #: the last known ends of all partitions
        self._given: Positions = {}  #: the end of the last batch

    @wanted(Operation.READ)
    def initial(self) -> SourceOffset:
        """Where a new query begins. The offset has `start` set, so that the first batch's end gets it, too."""
        partitions = subscribed_partitions(self._cluster, self._options)
        require_all(self._options, partitions)
        beginning = starting_positions(self._cluster, self._options, partitions)
        found = dict(beginning.positions)
        begin, end = earliest(self._cluster, partitions), high_watermarks(self._cluster, partitions)
        skipped: Positions = {}
        for where, offset in beginning.positions.items():
            first, last = begin[where], end[where]
            if not first <= offset <= last:
                self._warn(f"{where} should be read from offset {offset} on, but holds offsets {first} to {last}")
                skipped[where] = offset
        found |= {where: min(max(offset, begin[where]), end[where]) for where, offset in skipped.items()}
        return SourceOffset(found, found, self._topics(found), beginning.replaced, skipped)

    @wanted(Operation.READ)
    def freeze(self) -> None:
        """Fix the end of the query at the current ends of its partitions."""
        self._target = self._ends(subscribed_partitions(self._cluster, self._options))
        self._target_topics = self._topics(self._target)

    @wanted(Operation.READ)
    def next_end(self, start: SourceOffset, *, unlimited: bool = False) -> SourceOffset:
        """The end of the batch that begins at `start`; `start` itself if there is no batch."""
        options = self._options
        partitions = subscribed_partitions(self._cluster, options)
        topics = self._topics(partitions)
        if self._target is not None and replaced_topics(self._target_topics, topics):
            self.freeze()
        ends = self._target if self._target is not None else self._ends(partitions)
        self._seen, self._given = ends, start.offsets
        replaced = replaced_topics(start.topics, topics)
        for name, was in replaced.items():
            self._warn(replaced_topic(name, was, topics.get(name)))
        # Positions in the old topic mean nothing in the new topic of the same name.
        known = {where: offset for where, offset in start.offsets.items() if where.topic not in replaced}
        begin = {**self._first_of_new(known, ends), **known}
        ends = self._without_losses(begin, ends)
        waiting = sum(backlog(begin, ends).values())
        if ends == start.offsets and not replaced:
            return start
        if not unlimited:
            # An AvailableNow query would wait for ever: there will be no more.
            if options.min_offsets and self._target is None and not self._gate.opens(waiting, self._now_ms()):
                return start
            if options.max_offsets is not None:
                ends = limited(begin, ends, options.max_offsets)
        self._given = ends
        gone = {name: was for name, was in start.topics.items() if name not in topics}
        # Keep the identity of a deleted topic: a topic that is created with its name later is another one.
        topics = {**gone, **{name: topics[name] for name in sorted({where.topic for where in ends} & topics.keys())}}
        # If the start is where the query began, this ends its first batch.
        if start.is_initial:
            return SourceOffset(ends, begin, topics, {**start.replaced, **replaced}, start.skipped)
        return SourceOffset(ends, None, topics, replaced)

    def report(self) -> dict[str, Any]:
        """The ends of all partitions, and how far behind them the last batch ends, both in offsets.

        An offset may be a transaction marker or an aborted record, so this is an upper bound of what is left to read. 0
        is exact.
        """
        lag = {where: max(0, end - self._given[where]) for where, end in self._seen.items() if where in self._given}
        new = {where: end for where, end in self._seen.items() if where not in self._given}
        return {**positions_as_dict(self._seen), LAG_KEY: positions_as_dict({**lag, **new})}

    @wanted(Operation.READ)
    def ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        """The ranges from `start` to `end`. The end of a query's first batch has its own start."""
        if start == end:
            return []
        begin = end.start if start.is_initial else None
        if begin is None:
            replaced = replaced_topics(start.topics, end.topics)
            begin = {where: offset for where, offset in start.offsets.items() if where.topic not in replaced}
        ends = self._still_there(end)
        begin = {**self._first_of_new(begin, ends), **begin}
        return [
            OffsetRange(where, begin[where], offset, self._cluster.topic(where.topic).id)
            for where, offset in sorted(ends.items())
            if begin[where] < offset
        ]

    def close(self) -> None:
        self._cluster.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _ends(self, partitions: list[TopicPartition]) -> Positions:
        return latest(self._cluster, partitions, self._options.isolation)

    def _topics(self, partitions: Iterable[TopicPartition]) -> Identities:
        """The topics' identities, by the last metadata."""
        names = {where.topic for where in partitions}
        return {name: identity_of(self._cluster.topic(name)) for name in sorted(names)}

    def _still_there(self, end: SourceOffset) -> Positions:
        """Without partitions that were deleted after Spark logged the batch. That is an error or a warning."""
        ends = end.offsets
        known = self._cluster.refresh({where.topic for where in ends}, missing_ok=True) if ends else {}
        other = replaced_topics(end.topics, {name: identity_of(topic) for name, topic in known.items()})
        gone = sorted(
            where
            for where in ends
            if where.topic not in known or where.topic in other or where.partition not in known[where.topic].partitions
        )
        if gone:
            names = ", ".join(str(where) for where in gone)
            self._warn(f"{names}: deleted, with records of a batch that has not been read yet")
        return {where: offset for where, offset in ends.items() if where not in gone}

    def _first_of_new(self, start: Positions, ends: Positions) -> Positions:
        """Partitions that were created after the query began are read from their first record."""
        found = earliest(self._cluster, [where for where in ends if where not in start])
        for where, offset in found.items():
            if offset > 0:
                self._warn(f"{where} is new, and its first {offset} records were deleted before they were read")
        return found

    def _without_losses(self, begin: Positions, ends: Positions) -> Positions:
        """`ends` without those that would go back. Lost records are an error or a warning."""
        gone = sorted(where for where in begin if where not in ends)
        if gone:
            names = ", ".join(str(where) for where in gone)
            self._warn(f"{names}: gone, perhaps with unread records; the topic was deleted or is no longer subscribed")
        ends = self._not_backwards(begin, ends)
        ahead = [where for where, offset in ends.items() if begin[where] < offset]
        for where, offset in earliest(self._cluster, ahead).items():
            if begin[where] < offset:
                self._warn(
                    f"{where}: the records from offset {begin[where]} to {min(offset, ends[where])} were deleted, by "
                    f"retention for instance, before they were read; the partition begins at offset {offset} now"
                )
        return ends

    def _not_backwards(self, begin: Positions, ends: Positions) -> Positions:
        """A partition that ends before our position was created again, unless the rest is in open transactions."""
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
                    f"{where} was read up to offset {begin[where]} and ends at {high[where]} now; its topic was "
                    "deleted and created again, or its last records were lost"
                )
        return ends

    def _warn(self, what: str) -> None:
        warn_of_loss(self._options, what)


def lag_of(latest_offset: Mapping[str, Any] | str | None) -> Positions:
    """Each partition's lag, from a progress's `sources[...].latestOffset`. Empty if that has none."""
    found = json.loads(latest_offset) if isinstance(latest_offset, str) else latest_offset
    return parse_numbers(found[LAG_KEY]) if found and LAG_KEY in found else {}
