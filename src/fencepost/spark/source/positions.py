"""Which partitions are read, and where reading begins and ends in each.

Everything here asks the cluster and keeps no state. The user's options give one offset per partition, or an error that
says what does not fit.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fencepost.client.cluster import Cluster
from fencepost.client.groups import committed_offsets
from fencepost.client.offsets import EARLIEST, LATEST, at_times, earliest, latest, topics_matching
from fencepost.client.reading import OnDataLoss
from fencepost.client.rights import Operation, wanted
from fencepost.errors import ConfigError, OffsetsOutOfRange, TopicNotFound
from fencepost.spark.offsets_json import Positions
from fencepost.spark.source.read_options import AtOffsets, AtTimes, Bound, Edge, SourceOptions, WithoutMatch
from fencepost.spark.source.splitting import OffsetRange
from fencepost.spark.topic_identity import Identities, Identity, describe, identities, replaced_topics
from fencepost.wire.terms import Isolation, TopicPartition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where reading begins, and the former identities of topics that were created again since they were read."""

    positions: Positions
    replaced: Identities = field(default_factory=dict)


def subscribed_partitions(cluster: Cluster, options: SourceOptions) -> list[TopicPartition]:
    """All that exist now, without missing topics; `require_all` reports those."""
    subscription = options.subscription
    if subscription.assigned:
        names = {where.topic for where in subscription.assigned}
        there = cluster.refresh(names, missing_ok=True)
        return [w for w in subscription.assigned if w.topic in there and w.partition in there[w.topic].partitions]
    names = set(subscription.topics)
    if subscription.pattern is not None:
        names = set(topics_matching(cluster, subscription.pattern))
    found = cluster.refresh(names, missing_ok=True) if names else {}
    return [TopicPartition(name, index) for name in sorted(found) for index in found[name].partitions]


def require_all(options: SourceOptions, found: Iterable[TopicPartition]) -> None:
    """Everything that a query names must exist when it begins: a topic created later could lose its first records."""
    there = set(found)
    subscription = options.subscription
    missing = sorted(set(subscription.topics) - {where.topic for where in there})
    if missing:
        names = ", ".join(repr(name) for name in missing)
        raise TopicNotFound(f"topic {names} does not exist: create it, or correct the option 'subscribe'")
    absent = [str(where) for where in subscription.assigned if where not in there]
    if absent:
        raise TopicNotFound(f"{', '.join(absent)} does not exist: correct the option 'assign'")


def starting_positions(cluster: Cluster, options: SourceOptions, partitions: list[TopicPartition]) -> Beginning:
    if options.start is Edge.COMMITTED:
        return _committed(cluster, options, partitions)
    without = Edge.LATEST if options.without_match is WithoutMatch.LATEST else None
    return Beginning(_resolve(cluster, options, options.start, partitions, "starting", without))


def ending_positions(cluster: Cluster, options: SourceOptions, partitions: list[TopicPartition]) -> Positions:
    """If no record is at or after the given time, the partition is read to its end."""
    return _resolve(cluster, options, options.end, partitions, "ending", Edge.LATEST)


@wanted(Operation.READ)
def batch_ranges(cluster: Cluster, options: SourceOptions) -> list[OffsetRange]:
    """What a batch query reads. Both ends are resolved once, when the query is planned."""
    partitions = subscribed_partitions(cluster, options)
    require_all(options, partitions)
    if not partitions:
        return []
    start = starting_positions(cluster, options, partitions).positions
    end = ending_positions(cluster, options, partitions)
    first, high = earliest(cluster, partitions), high_watermarks(cluster, partitions)
    ranges = []
    for where in partitions:
        if start[where] >= end[where]:
            continue
        begin, until = max(start[where], first[where]), min(end[where], high[where])
        if (begin, until) != (start[where], end[where]):
            warn_of_loss(
                options,
                f"{where} should be read from offset {start[where]} to {end[where]}, but holds offsets {first[where]} "
                f"to {high[where]}",
            )
        if begin < until:
            ranges.append(OffsetRange(where, begin, until, cluster.topic(where.topic).id))
    return ranges


def warn_of_loss(options: SourceOptions, what: str) -> None:
    """Log what was lost. Raises OffsetsOutOfRange unless failOnDataLoss is false."""
    if options.on_data_loss is OnDataLoss.FAIL:
        raise OffsetsOutOfRange(f"{what}. To continue with what is left, set the option failOnDataLoss to false")
    logger.warning("%s; continuing with what is left (failOnDataLoss is false)", what)


def high_watermarks(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Positions:
    """The ends for readers that also see open transactions."""
    return latest(cluster, partitions, Isolation.READ_UNCOMMITTED)


def _resolve(
    cluster: Cluster,
    options: SourceOptions,
    bound: Bound,
    partitions: list[TopicPartition],
    which: str,
    without_match: Edge | None,
) -> Positions:
    if isinstance(bound, AtOffsets):
        _require_same(f"{which}Offsets", bound.positions, partitions)
        return _fill(cluster, options, {where: bound.positions[where] for where in partitions})
    if isinstance(bound, AtTimes):
        return _at_times(cluster, options, bound, partitions, which, without_match)
    number = EARLIEST if bound is Edge.EARLIEST else LATEST
    return _fill(cluster, options, dict.fromkeys(partitions, number))


def _at_times(
    cluster: Cluster,
    options: SourceOptions,
    bound: AtTimes,
    partitions: list[TopicPartition],
    which: str,
    without_match: Edge | None,
) -> Positions:
    if bound.every_ms is None:
        _require_same(f"{which}OffsetsByTimestamp", bound.by_partition_ms, partitions)
        times_ms = {where: bound.by_partition_ms[where] for where in partitions}
    else:
        times_ms = dict.fromkeys(partitions, bound.every_ms)
    found = at_times(cluster, times_ms, options.isolation)
    unmatched = [where for where, offset in found.items() if offset is None]
    if unmatched and without_match is None:
        where = unmatched[0]
        raise ConfigError(
            f"no offset matched from request of topic-partition {where} and timestamp {times_ms[where]}. To begin at "
            "the end of such a partition, set the option startingOffsetsByTimestampStrategy to latest"
        )
    return _fill(cluster, options, {where: LATEST if offset is None else offset for where, offset in found.items()})


def _fill(cluster: Cluster, options: SourceOptions, wanted: Mapping[TopicPartition, int]) -> Positions:
    """Replace EARLIEST and LATEST by offsets."""
    first = [where for where, offset in wanted.items() if offset == EARLIEST]
    last = [where for where, offset in wanted.items() if offset == LATEST]
    known = {**earliest(cluster, first), **latest(cluster, last, options.isolation)}
    return {where: known.get(where, offset) for where, offset in wanted.items()}


def _require_same(name: str, given: Mapping[TopicPartition, int], partitions: list[TopicPartition]) -> None:
    if set(given) != set(partitions):
        raise ConfigError(
            f"if {name} contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for "
            f"earliest. Specified: {_listed(given)} Assigned: {_listed(partitions)}"
        )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(where) for where in sorted(partitions)) or "none"


def replaced_topic(topic: str, was: Identity, now: Identity | None) -> str:
    """The message about a topic that was deleted and created again."""
    return (
        f"topic {topic!r} was deleted and created again since it was read ({describe(was)}, now {describe(now)}): "
        "the known offsets belong to the old topic"
    )


def _committed(cluster: Cluster, options: SourceOptions, partitions: list[TopicPartition]) -> Beginning:
    """The group's committed offsets, else those of the pipeline's ledger, because a group's offsets expire.

    An offset that a sink committed is only valid for the topic in the ledger, not for a later one of the same name. An
    offset that a user has set since then is valid.
    """
    from fencepost.spark import ledger

    group = options.group or ""
    found = committed_offsets(cluster, group, partitions)
    entry = ledger.read_entry(cluster, group)
    now = identities(cluster, {where.topic for where in partitions})
    replaced = replaced_topics(entry.topics, now) if entry is not None else {}
    known = {} if entry is None else {w: offset for w, offset in entry.offsets.items() if w.topic not in replaced}
    known |= {w: e.offset for w, e in found.items() if w.topic not in replaced or not ledger.is_note(e.metadata)}
    for topic, was in replaced.items():
        if any(where not in known for where in partitions if where.topic == topic):
            warn_of_loss(options, replaced_topic(topic, was, now.get(topic)))
    default = EARLIEST if options.without_commit is Edge.EARLIEST else LATEST
    wanted = {w: known.get(w, EARLIEST if w.topic in replaced else default) for w in partitions}
    return Beginning(_fill(cluster, options, wanted), replaced)
