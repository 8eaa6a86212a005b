"""Why a reader stands still: what holds the last stable offset, whose it is, and who waits behind it.

Puts together what partitions (`stable`, `producers`), coordinators (`transactions`) and groups (`groups`) tell.

Fast by construction: a fixed number of requests per broker, whatever the number of partitions and groups. Records are
fetched only to count them, up to a limit.
"""

import difflib
import enum
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fencepost.client.admin import topic_configs
from fencepost.client.cluster import Cluster, TopicMetadata
from fencepost.client.replication import MIN_INSYNC
from fencepost.errors import ClientError, ErrorCode
from fencepost.observe.asking import Answers
from fencepost.observe.groups import Counted, GroupLag, GroupView, Place, lags_of, survey_groups
from fencepost.observe.holding import Held, Hold, find_holds, with_owners
from fencepost.observe.stable import Bounds, bounds_of
from fencepost.observe.transactions import Missing
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition

#: Ranges whose records are counted, and what may be fetched for that. Beyond, offsets are bounds.
COUNTS_MAX, COUNT_BYTES_MAX = 50, 8 << 20
#: With more partitions it is cheaper to ask groups for all their offsets: they tell none that they do not have.
ASKED_BY_NAME_MAX = 20


class Trouble(enum.StrEnum):
    """What else stops readers of a partition."""

    NO_LEADER = "no leader"
    SILENT = "leader does not answer"
    TOO_FEW_IN_SYNC = "too few in-sync replicas"  #: writers with acks=all are refused, so nothing new comes


class Verdict(enum.StrEnum):
    NO_TOPIC = "no such topic"
    HELD = "held"
    UNAVAILABLE = "unavailable"
    READ_ONLY = "too few in-sync replicas"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Stopped:
    where: TopicPartition
    trouble: Trouble
    text: str


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that has offsets in the asked partitions."""

    group: GroupView
    lags: tuple[GroupLag, ...]
    misses: int = 0  #: records behind held offsets that it will get as soon as nothing holds them
    is_exact: bool = True  #: else `misses` is an upper bound

    @property
    def is_waiting(self) -> bool:
        return any(each.held and each.place is not Place.BEYOND_STABLE for each in self.lags)

    @property
    def lag(self) -> int | None:
        """Records that it can read now; None if one partition's are unknown."""
        counts = [each.records for each in self.lags]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def is_lag_exact(self) -> bool:
        return all(each.counted is Counted.EXACT for each in self.lags)

    @property
    def lost(self) -> tuple[GroupLag, ...]:
        """Partitions in which its offset is out of range."""
        return tuple(each for each in self.lags if each.place in (Place.DELETED, Place.BEYOND_END))


@dataclass(frozen=True, slots=True)
class Explanation:
    topic: str | None  #: None for all topics
    partition: int | None
    now_ms: int
    verdict: Verdict
    holds: tuple[Hold, ...] = ()  #: the one that holds the most records first
    stopped: tuple[Stopped, ...] = ()
    readers: tuple[Reader, ...] = ()  #: those that wait first
    group: str | None = None  #: the only group that was asked for
    partitions: int = 0  #: how many were looked at
    similar: tuple[str, ...] = ()  #: topics with similar names, if there is no such topic
    missing: tuple[Missing, ...] = ()  #: what could not be asked


def why(cluster: Cluster, topic: str | None, partition: int | None = None, *, group: str | None = None) -> Explanation:
    """Of a partition, a topic, or (None) of all but internal topics; for one group, or for all."""
    now_ms = time.time_ns() // 1_000_000
    topics = cluster.refresh(None if topic is None else [topic], missing_ok=True)
    asked = [
        TopicPartition(name, index)
        for name in sorted(topics)
        if topic is not None or not topics[name].is_internal
        for index in topics[name].partitions
        if partition is None or index == partition
    ]
    if not asked and topic is not None:
        similar = (topic,) if topics else tuple(difflib.get_close_matches(topic, [*cluster.refresh()], n=3))
        return Explanation(topic, partition, now_ms, Verdict.NO_TOPIC, group=group, similar=similar)
    bounds = bounds_of(cluster, asked)
    found = find_holds(cluster, [each for each in bounds.found.values() if each.is_held], now_ms)
    stopped = _stopped(cluster, topics, asked, bounds)
    surveyed = survey_groups(cluster, partitions=asked if len(asked) <= ASKED_BY_NAME_MAX else None)
    readers = _readers(cluster, surveyed.groups, bounds.found, found.holds, group)
    return Explanation(
        topic,
        partition,
        now_ms,
        _verdict(found.holds, stopped),
        with_owners(found.holds, surveyed.groups, _offset_partitions(cluster)),
        tuple(stopped),
        tuple(sorted(readers, key=lambda each: (not each.is_waiting, -each.misses, each.group.group_id))),
        group,
        len(asked),
        missing=tuple(dict.fromkeys([*found.missing, *surveyed.missing])),
    )


def _verdict(holds: Collection[Hold], stopped: Iterable[Stopped]) -> Verdict:
    if holds:
        return Verdict.HELD
    troubles = {each.trouble for each in stopped}
    if troubles - {Trouble.TOO_FEW_IN_SYNC}:
        return Verdict.UNAVAILABLE
    return Verdict.READ_ONLY if troubles else Verdict.CLEAR


def _offset_partitions(cluster: Cluster) -> int:
    found = cluster.refresh([CONSUMER_OFFSETS], missing_ok=True, hidden_ok=True).get(CONSUMER_OFFSETS)
    return 0 if found is None else len(found.partitions)


def _stopped(
    cluster: Cluster,
    topics: Mapping[str, TopicMetadata],
    asked: Iterable[TopicPartition],
    bounds: Answers[TopicPartition, Bounds],
) -> list[Stopped]:
    found: list[Stopped] = []
    least: dict[str, int | None] = {}  #: min.insync.replicas of topics
    for where in asked:
        failure = bounds.failed.get(where) if where not in bounds.found else None
        known = topics[where.topic].partitions[where.partition]
        if failure is not None and failure.code is ErrorCode.LEADER_NOT_AVAILABLE:
            replicas = ", ".join(map(str, known.replicas))
            found.append(Stopped(where, Trouble.NO_LEADER, f"its replicas are on the brokers {replicas}"))
        elif failure is not None:
            found.append(Stopped(where, Trouble.SILENT, str(failure)))
        elif len(known.in_sync) < len(known.replicas):
            if where.topic not in least:
                least[where.topic] = _min_in_sync(cluster, where.topic)
            minimum = least[where.topic]
            if minimum is not None and len(known.in_sync) < minimum:
                text = f"{len(known.in_sync)} of {len(known.replicas)} in sync, {MIN_INSYNC} is {minimum}"
                found.append(Stopped(where, Trouble.TOO_FEW_IN_SYNC, text))
    return found


def _min_in_sync(cluster: Cluster, topic: str) -> int | None:
    """None if we may not know."""
    try:
        return int(topic_configs(cluster, topic, [MIN_INSYNC]).get(MIN_INSYNC) or 0) or None
    except ClientError:
        return None


def _readers(
    cluster: Cluster,
    groups: Sequence[GroupView],
    bounds: Mapping[TopicPartition, Bounds],
    holds: Iterable[Hold],
    only: str | None,
) -> list[Reader]:
    held = {each.bounds.where: each for hold in holds for each in hold.partitions}
    chosen = [each for each in groups if only is None or each.group_id == only]
    lags = lags_of(cluster, chosen, bounds, COUNT_BYTES_MAX, COUNTS_MAX)
    return [_reader(each, lags[each.group_id], held) for each in chosen if lags[each.group_id] or only is not None]


def _reader(group: GroupView, lags: Sequence[GroupLag], held: Mapping[TopicPartition, Held]) -> Reader:
    misses, is_exact = 0, True
    for lag in lags:
        if lag.where not in held or lag.place is Place.BEYOND_STABLE:
            continue
        backlog = held[lag.where].backlog
        misses += lag.held if backlog is None else backlog.waiting_max
        is_exact = is_exact and backlog is not None and backlog.is_exact
    return Reader(group, tuple(lags), misses, is_exact)
