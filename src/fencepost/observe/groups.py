"""Consumer groups with their state, members and committed offsets; and their true lag.

True lag is what a read_committed reader will still get: no markers, no aborted records. See `counting`.

Only looks: offsets that are part of an open transaction are not waited for.
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fencepost.client.cluster import NO_LEADER, Cluster
from fencepost.client.groups import LAST_WITH_NAMES, NO_OFFSET, OFFSET_FETCH
from fencepost.client.retry import known_code
from fencepost.errors import ClientError, ErrorCode
from fencepost.observe.asking import ask_brokers
from fencepost.observe.counting import BYTES_MAX, Counter
from fencepost.observe.stable import Bounds
from fencepost.observe.transactions import UNKNOWN_BROKER, Missing
from fencepost.wire.codec import Message
from fencepost.wire.terms import CONSUMER_OFFSETS, Address, TopicPartition

LIST_GROUPS, DESCRIBE_GROUPS = 16, 15
#: For groups of the newer protocol (KIP-848), which DescribeGroups calls dead.
CONSUMER_GROUP_DESCRIBE = 69
#: From this version on one OffsetFetch is about many groups.
FIRST_BATCHED = 8
#: Groups in one request.
CHUNK = 100


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    group_id: str
    state: str  #: as Kafka names it
    coordinator: int  #: a broker's id
    protocol_type: str = ""  #: "consumer", "connect"; empty if only offsets were committed
    members: tuple[Member, ...] | None = ()  #: None if it does not tell: a share or streams group
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  #: the next offset to read

    @property
    def is_active(self) -> bool:
        return bool(self.members) or self.state not in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    groups: tuple[GroupView, ...]  #: by name
    missing: tuple[Missing, ...] = ()


class Counted(enum.StrEnum):
    """How the number of records was found."""

    EXACT = "counted"
    BOUND = "upper bound"  #: offsets, because counting would have meant fetching too much
    UNKNOWN = "unknown"


class Place(enum.StrEnum):
    """Where a reader stands in a partition."""

    BEHIND = "behind"  #: it has records to read
    AT_STABLE = "at the last stable offset"  #: it has read all that is stable; an open transaction holds the rest
    AT_END = "at the end"
    BEYOND_STABLE = "beyond the last stable offset"  #: it reads uncommitted records
    DELETED = "before the log's start"  #: its next records were deleted before it read them
    BEYOND_END = "beyond the end"  #: the partition lost records, or was created again
    NOWHERE = "no committed offset"


@dataclass(frozen=True, slots=True)
class GroupLag:
    where: TopicPartition
    committed: int | None
    place: Place
    records: int | None  #: that a read_committed reader gets before it stops at the last stable offset
    counted: Counted = Counted.EXACT
    oldest_ms: int | None = None  #: the timestamp of the first of them
    held: int = 0  #: offsets from the last stable offset to the end, which it will not get yet
    problem: str = ""


def survey_groups(
    cluster: Cluster, *, names: Collection[str] | None = None, partitions: Collection[TopicPartition] | None = None
) -> GroupSurvey:
    """All groups, or those of these names; with all their offsets, or those of these partitions."""
    topics = cluster.refresh([CONSUMER_OFFSETS], missing_ok=True, hidden_ok=True)
    missing = [
        Missing(f"{CONSUMER_OFFSETS}-{index}", "has no leader, so nobody knows its groups")
        for topic in topics.values()
        for index, partition in topic.partitions.items()
        if partition.leader == NO_LEADER
    ]
    listed: dict[Address, list[GroupView]] = {}
    for address, got in ask_brokers(cluster, LIST_GROUPS, {each: [{}] for each in cluster.nodes().values()}).items():
        if isinstance(got, Exception):
            missing.append(Missing(f"broker {address}", str(got)))
        elif code := known_code(got[0].error_code):
            missing.append(Missing(f"broker {address}", code.name))
        else:
            node_id = next((node for node, known in cluster.nodes().items() if known == address), UNKNOWN_BROKER)
            listed[address] = [
                GroupView(each.group_id, each.group_state, node_id, each.protocol_type)
                for each in got[0].groups
                if names is None or each.group_id in names
            ]
    described = _described(cluster, listed, missing)
    offsets = _offsets(cluster, listed, partitions, missing)
    found = [
        replace(described.get(each.group_id, each), offsets=offsets.get(each.group_id, {}))
        for groups in listed.values()
        for each in groups
    ]
    return GroupSurvey(tuple(sorted(found, key=lambda each: each.group_id)), tuple(missing))


def lags_of(
    cluster: Cluster,
    groups: Iterable[GroupView],
    bounds: Mapping[TopicPartition, Bounds],
    bytes_max: int | None = BYTES_MAX,
    counts_max: int | None = None,
) -> dict[str, list[GroupLag]]:
    """For each group its lag in every partition that it has an offset of and `bounds` knows.

    `bytes_max` is what may be fetched to count records, in all; None for no limit. Only the first `counts_max` ranges
    are counted, the others are bounded by their offsets.
    """
    counter = Counter(cluster, bytes_max)
    counted = 0
    known: dict[tuple[TopicPartition, int], GroupLag] = {}
    found: dict[str, list[GroupLag]] = {}
    for group in groups:
        lags = []
        for where, committed in sorted(group.offsets.items()):
            if where not in bounds:
                continue
            if (where, committed) not in known:
                may_count = counts_max is None or counted < counts_max
                lag = known[where, committed] = _lag(counter, bounds[where], committed, may_count=may_count)
                counted += bool(lag.records)
            lags.append(known[where, committed])
        found[group.group_id] = lags
    return found


def place_of(bounds: Bounds, committed: int | None) -> Place:
    if committed is None:
        return Place.NOWHERE
    if committed < bounds.log_start:
        return Place.DELETED
    if committed < bounds.stable:
        return Place.BEHIND
    if committed > bounds.end:
        return Place.BEYOND_END
    if not bounds.is_held:
        return Place.AT_END
    return Place.AT_STABLE if committed == bounds.stable else Place.BEYOND_STABLE


def _lag(counter: Counter, bounds: Bounds, committed: int, *, may_count: bool) -> GroupLag:
    place = place_of(bounds, committed)
    held = max(0, bounds.end - max(bounds.stable, committed))
    if place not in (Place.BEHIND, Place.DELETED):
        return GroupLag(bounds.where, committed, place, 0, held=held)
    start = max(committed, bounds.log_start)
    if not may_count:
        left = bounds.stable - start
        how = Counted.BOUND if left else Counted.EXACT
        return GroupLag(bounds.where, committed, place, left, how, held=held)
    try:
        count = counter.count(bounds.where, start, bounds.stable)
    except ClientError as error:
        return GroupLag(bounds.where, committed, place, None, Counted.UNKNOWN, held=held, problem=str(error))
    how = Counted.EXACT if count.is_exact else Counted.BOUND
    return GroupLag(bounds.where, committed, place, count.records, how, count.oldest_ms, held)


def _described(
    cluster: Cluster, listed: Mapping[Address, Sequence[GroupView]], missing: list[Missing]
) -> dict[str, GroupView]:
    """Of the older group protocol, or else of the newer one."""
    by_name = {each.group_id: each for groups in listed.values() for each in groups}
    requests = {
        address: [{"groups": [each.group_id for each in part]} for part in _chunks(groups)]
        for address, groups in listed.items()
        if groups
    }
    found: dict[str, GroupView] = {}
    others: dict[Address, list[GroupView]] = {}
    for address, got in ask_brokers(cluster, DESCRIBE_GROUPS, requests).items():
        if isinstance(got, Exception):
            missing.append(Missing(f"groups of broker {address}", str(got)))
            continue
        for entry in (entry for message in got for entry in message.groups):
            listing = by_name[entry.group_id]
            if entry.error_code or (entry.group_state == "Dead" and listing.state not in ("Dead", "")):
                found[entry.group_id] = replace(listing, members=None)
                others.setdefault(address, []).append(listing)
            else:
                members = tuple(_member(each, each.group_instance_id) for each in entry.members)
                found[entry.group_id] = replace(
                    listing, state=entry.group_state, protocol_type=entry.protocol_type, members=members
                )
    requests = {
        address: [{"group_ids": [each.group_id for each in part]} for part in _chunks(groups)]
        for address, groups in others.items()
    }
    for got in ask_brokers(cluster, CONSUMER_GROUP_DESCRIBE, requests).values():
        if isinstance(got, Exception):
            continue  # it has no such groups, or is gone: then the next request says so
        for entry in (entry for message in got for entry in message.groups if not entry.error_code):
            members = tuple(_member(each, each.instance_id) for each in entry.members)
            found[entry.group_id] = replace(by_name[entry.group_id], state=entry.group_state, members=members)
    return found


def _member(each: Message, instance_id: str | None) -> Member:
    return Member(each.member_id, each.client_id, each.client_host.removeprefix("/"), instance_id)


def _offsets(
    cluster: Cluster,
    listed: Mapping[Address, Sequence[GroupView]],
    partitions: Collection[TopicPartition] | None,
    missing: list[Missing],
) -> dict[str, dict[TopicPartition, int]]:
    topics = None if partitions is None else _topics(partitions)
    requests = {
        address: [
            {"groups": [{"group_id": each.group_id, "topics": topics} for each in part]} for part in _chunks(groups)
        ]
        for address, groups in listed.items()
        if groups
    }
    found: dict[str, dict[TopicPartition, int]] = {}
    answers = ask_brokers(cluster, OFFSET_FETCH, requests, lowest=FIRST_BATCHED, highest=LAST_WITH_NAMES)
    for address, got in answers.items():
        if isinstance(got, Exception):
            missing.append(Missing(f"offsets of groups of broker {address}", str(got)))
            continue
        for entry in (entry for message in got for entry in message.groups):
            code = known_code(entry.error_code)
            if code and code is not ErrorCode.GROUP_ID_NOT_FOUND:
                missing.append(Missing(f"offsets of group {entry.group_id!r}", code.name))
            found[entry.group_id] = {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in entry.topics
                for each in topic.partitions
                if each.committed_offset != NO_OFFSET and not each.error_code
            }
    return found


def _topics(partitions: Collection[TopicPartition]) -> list[dict[str, object]]:
    by_name: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_name.setdefault(topic, []).append(index)
    return [{"name": topic, "partition_indexes": indexes} for topic, indexes in by_name.items()]


def _chunks(groups: Sequence[GroupView]) -> Iterator[Sequence[GroupView]]:
    return (groups[start : start + CHUNK] for start in range(0, len(groups), CHUNK))
