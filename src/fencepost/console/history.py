"""What transactions did lately, from their coordinators' own log: when each began, grew, was decided and ended.

The log (`__transaction_state`) is a topic that everybody with the right to read it can follow. It has every step with
its time, so durations and rates are exact, and a transaction of a millisecond is not missed.

Invariant: memory is bounded, by `KEPT` transactions that ended and `OPEN_MAX` that did not.
"""

import enum
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fencepost.client.cluster import Cluster
from fencepost.client.naming import pipeline_of
from fencepost.client.offsets import at_times, earliest, latest, partitions_of
from fencepost.client.scanning import read_records
from fencepost.coordinator.txn.model import decode, decode_key
from fencepost.coordinator.txn.states import TransactionState
from fencepost.errors import Malformed
from fencepost.wire.records import Record
from fencepost.wire.terms import TRANSACTION_STATE, TopicPartition

KEPT = 2_000
OPEN_MAX = 20_000
STEPS_MAX = 32  #: of one transaction; one that joins more partitions one by one keeps its first and last
#: What is read of the past when the console starts, and how many records of a partition's log at most.
LOOK_BACK_MS = 10 * 60_000
LOOK_BACK_RECORDS = 4_000
RATE_WINDOW_S = 60
#: A transaction's markers and its end in the log are at most so far apart.
MARKING_MS = 5_000


class Ending(enum.StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Step:
    time_ms: int
    state: str  #: Kafka's name
    partitions: int


@dataclass(frozen=True, slots=True)
class Story:
    """One transaction. `ended_ms` is None while it is open."""

    key: str
    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    steps: tuple[Step, ...]
    partitions: frozenset[TopicPartition]
    ending: Ending | None = None
    decided_ms: int | None = None
    ended_ms: int | None = None

    @property
    def pipeline(self) -> str | None:
        return pipeline_of(self.transactional_id)

    @property
    def duration_ms(self) -> int | None:
        return None if self.ended_ms is None else max(0, self.ended_ms - self.start_ms)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the transactions that ended in the last minute; percentiles of those that are kept."""

    commits_per_s: float
    aborts_per_s: float
    percentiles_ms: Mapping[str, int]
    counted: int


class History:
    def __init__(self) -> None:
        self.ended: deque[Story] = deque(maxlen=KEPT)
        self.open: OrderedDict[str, Story] = OrderedDict()

    def apply(self, record: Record) -> None:
        """One record of the log, in order."""
        transactional_id = decode_key(record.key or b"")
        if transactional_id is None:
            return
        if record.value is None:
            self.open.pop(transactional_id, None)
            return
        try:
            found = decode(transactional_id, record.value, record.offset)
        except Malformed:  # of a newer broker: the rest is still worth showing
            return
        if found.state is TransactionState.EMPTY:
            self.open.pop(transactional_id, None)
            return
        known = self.open.get(transactional_id)
        if known is None or known.start_ms != found.start_ms:
            if found.state not in (TransactionState.ONGOING, *_DECISIONS):
                return  # its beginning was before what we have read
            known = Story(
                f"{transactional_id}@{found.start_ms}",
                transactional_id,
                found.producer_id,
                found.producer_epoch,
                found.timeout_ms,
                found.start_ms,
                (),
                frozenset(),
            )
        # Apache Kafka decides on `updated_ms` of an end before it has written the markers; the record comes after them.
        time_ms = max(found.updated_ms, record.timestamp)
        self._advance(known, found.state, time_ms, found.partitions)

    def _advance(
        self, known: Story, state: TransactionState, time_ms: int, partitions: frozenset[TopicPartition]
    ) -> None:
        steps = (*known.steps, Step(time_ms, state.label, len(partitions)))
        if len(steps) > STEPS_MAX:
            steps = (*steps[: STEPS_MAX - 2], *steps[-2:])
        story = replace(known, steps=steps, partitions=known.partitions | partitions)
        if state in _DECISIONS:
            story = replace(story, ending=_DECISIONS[state], decided_ms=time_ms)
        if state in _ENDS:
            self.open.pop(known.transactional_id, None)
            self.ended.append(replace(story, ending=_ENDS[state], ended_ms=time_ms))
            return
        self.open[known.transactional_id] = story
        while len(self.open) > OPEN_MAX:
            self.open.popitem(last=False)

    def of(self, transactional_id: str) -> list[Story]:
        """Newest first."""
        found = [each for each in self.ended if each.transactional_id == transactional_id]
        if transactional_id in self.open:
            found.append(self.open[transactional_id])
        return found[::-1]

    def of_producer(self, producer_id: int, ended_ms: int | None) -> Story | None:
        """The transaction of a producer whose markers were written then; None for the one that it has open."""
        if ended_ms is None:
            return next((each for each in self.open.values() if each.producer_id == producer_id), None)
        near = [
            each
            for each in self.ended
            if each.producer_id == producer_id and abs((each.ended_ms or 0) - ended_ms) <= MARKING_MS
        ]
        return min(near, key=lambda each: abs((each.ended_ms or 0) - ended_ms), default=None)

    def last(self, count: int) -> tuple[list[Story], int | None]:
        """What is open and so many that ended; and since when all are among them, if there were more."""
        ended = list(self.ended)[-count:]
        since_ms = ended[0].ended_ms if len(self.ended) > len(ended) else None
        return [*ended, *list(self.open.values())[-count:]], since_ms

    def figures(self, now_ms: int) -> Figures:
        since = now_ms - RATE_WINDOW_S * 1000
        lately = [each for each in self.ended if (each.ended_ms or 0) >= since]
        commits = sum(each.ending is Ending.COMMITTED for each in lately)
        span_s = RATE_WINDOW_S
        if len(self.ended) == KEPT and lately and len(lately) == KEPT:  # more than are kept: over the time they span
            span_s = max(1, (now_ms - (lately[0].ended_ms or now_ms)) // 1000)
        durations = sorted(each.duration_ms for each in self.ended if each.duration_ms is not None)
        return Figures(commits / span_s, (len(lately) - commits) / span_s, percentiles(durations), len(durations))


_DECISIONS = {
    TransactionState.PREPARE_COMMIT: Ending.COMMITTED,
    TransactionState.PREPARE_ABORT: Ending.ABORTED,
}
_ENDS = {
    TransactionState.COMPLETE_COMMIT: Ending.COMMITTED,
    TransactionState.COMPLETE_ABORT: Ending.ABORTED,
}


def percentiles(ordered: list[int]) -> dict[str, int]:
    """Of a sorted list; empty if it is."""
    if not ordered:
        return {}
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in _SHARES.items()}


_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


class Follower:
    """Reads the log from where it was."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._positions: dict[TopicPartition, int] = {}

    def follow(self, cluster: Cluster, now_ms: int) -> int:
        """Returns how many records were new. Raises ClientError if the log cannot be read, or not all of it."""
        if not cluster.refresh([TRANSACTION_STATE], missing_ok=True):
            return 0  # no transaction has ever begun here
        places = partitions_of(cluster, [TRANSACTION_STATE])
        ends = latest(cluster, places)
        self._begin(cluster, [where for where in places if where not in self._positions], ends, now_ms)
        found: list[Record] = []
        for where in places:
            if ends[where] < self._positions[where]:  # it is another cluster's, or lost records
                self._positions[where] = ends[where]
            if ends[where] > self._positions[where]:
                found += read_records(cluster, where, self._positions[where], ends[where])
                self._positions[where] = ends[where]
        # Each id is in one partition, so this keeps the order of its own records.
        for record in sorted(found, key=lambda each: each.timestamp):
            self._history.apply(record)
        return len(found)

    def _begin(
        self, cluster: Cluster, places: Iterable[TopicPartition], ends: Mapping[TopicPartition, int], now_ms: int
    ) -> None:
        new = list(places)
        if not new:
            return
        begins = earliest(cluster, new)
        since = at_times(cluster, dict.fromkeys(new, now_ms - LOOK_BACK_MS))
        for where in new:
            begin = since[where]
            floor = max(begins[where], ends[where] - LOOK_BACK_RECORDS)
            self._positions[where] = ends[where] if begin is None else max(begin, floor)
