"""What the group coordinator does with a request, as pure functions: group and request in, a decision out.

Nothing here writes, waits, reads a clock or makes up an id. A refusal is a KafkaError with the code that Kafka gives;
errors that concern one partition of several are in the result.

Three things fence a member: its id, which the coordinator made and forgets when the member is gone (UNKNOWN_MEMBER_ID);
its instance id, which belongs to its latest holder (FENCED_INSTANCE_ID); its generation (ILLEGAL_GENERATION). They are
checked in that order because a client reacts differently to each: it starts over, gives up, or joins again.

Offsets expire as in Kafka (KIP-211). Offsets of a group without members go when it has had none for
`offsets.retention.minutes`. Offsets of a consumer that is no member of anything go that long after their commit.
Offsets of a group with members go that long after their commit if no member subscribes to the topic. An offset with a
pending transaction stays. A group without members and offsets is removed by the same check, every
`offsets.retention.check.interval.ms`, whatever took its last offset.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.machine import GroupMachine, Offsets
from fencepost.coordinator.group.records import (
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    Commit,
    can_hold,
    commit_record,
    commit_tombstone,
    group_tombstone,
)
from fencepost.coordinator.group.requests import (
    UNKNOWN_MEMBER_ID,
    FetchedOffset,
    Identity,
    JoinRequest,
    Leaver,
    OffsetToCommit,
    SyncRequest,
)
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.group.states import State
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

#: What a commit that does not ask for a retention time of its own sends (OffsetCommit v2 to v4).
DEFAULT_RETENTION_MS = -1

#: Per partition: NONE, or why its offset was not committed or deleted.
Results = dict[TopicPartition, ErrorCode]


# -- members ----------------------------------------------------------------------------------------------------------


def check_member(group: Group, member_id: str, instance_id: str | None) -> None:
    holder = None if instance_id is None else group.instances.get(instance_id)
    if holder is not None and holder != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if member_id not in group.members or (instance_id is not None and holder is None):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def check_generation(group: Group, member_id: str, instance_id: str | None, generation: int) -> None:
    check_member(group, member_id, instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def check_sync(group: Group, request: SyncRequest) -> None:
    check_generation(group, request.member_id, request.instance_id, request.generation)
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol, group.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_settled(group)


def check_settled(group: Group) -> None:
    """A member learns from this error that it has to join again."""
    if group.state is State.PREPARING:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def leave(group: Group, leaver: Leaver) -> str:
    """The id to remove. An administrator removes a static member by its instance id alone."""
    if not leaver.member_id:
        member_id = group.instances.get(leaver.instance_id or "")
        if member_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member_id
    if leaver.member_id not in group.pending_joins:
        check_member(group, leaver.member_id, leaver.instance_id)
    return leaver.member_id


def _differ(asked: str | None, present: str | None) -> bool:
    return asked is not None and present is not None and asked != present


# -- JoinGroup --------------------------------------------------------------------------------------------------------


class Join(enum.Enum):
    TURN_AWAY = enum.auto()  #: the group is full; if it was a member (the limit was lowered), it is removed
    #: KIP-394: a client that retries without having heard its id would leave a dead member behind each time.
    GIVE_MEMBER_ID = enum.auto()
    TELL = enum.auto()  #: it missed the answer to its last join, and is told about the present generation again
    ADMIT = enum.auto()  #: a new member, with the id that it was given or without one
    REJOIN = enum.auto()  #: a member takes part in the rebalance, or asks for one
    REPLACE = enum.auto()  #: KIP-345: a static member came back, without the id it had


def join(group: Group | None, request: JoinRequest, settings: GroupSettings) -> Join:
    """The order of the questions is Kafka's, because a client reacts differently to each answer."""
    shortest_ms, longest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not request.group_id or not can_hold(request.group_id):
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if not can_hold(request.instance_id or "", request.client_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the instance id or client id is too long")
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT, f"not between {shortest_ms} and {longest_ms} ms")
    if group is None:
        if request.member_id != UNKNOWN_MEMBER_ID:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = Group(request.group_id)
    if not _has_room(group, request, settings.group_max_size):
        return Join.TURN_AWAY
    has_names = can_hold(request.protocol_type, *(protocol.name for protocol in request.protocols))
    if not has_names or not group.supports(request.protocol_type, request.protocols):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id == UNKNOWN_MEMBER_ID:
        return _join_without_id(group, request)
    return _join_with_id(group, request)


def _has_room(group: Group, request: JoinRequest, limit: int) -> bool:
    if group.state is State.EMPTY:
        return True
    member = group.members.get(request.member_id)
    if member is None and request.instance_id is not None:
        member = group.members.get(group.instances.get(request.instance_id, ""))  # it takes its own old place
    if group.state is State.PREPARING:
        # Members that have not joined yet do not count. If the limit was lowered, the last ones to join have to go.
        return (member is not None and member.has_joined) or group.joined_count < limit
    return member is not None or len(group.members) < limit


def _join_without_id(group: Group, request: JoinRequest) -> Join:
    if request.instance_id is None:
        return Join.GIVE_MEMBER_ID if request.needs_member_id else Join.ADMIT
    return Join.REPLACE if request.instance_id in group.instances else Join.ADMIT


def _join_with_id(group: Group, request: JoinRequest) -> Join:
    member_id = request.member_id
    if member_id in group.pending_joins and request.instance_id is None:
        return Join.ADMIT
    check_member(group, member_id, request.instance_id)
    if group.state is State.PREPARING or group.members[member_id].protocols != request.protocols:
        return Join.REJOIN
    if group.state is State.STABLE and member_id == group.leader:
        # The leader asks for a rebalance when something changed that only it sees, such as a topic's partitions.
        return Join.REJOIN
    return Join.TELL


# -- offsets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetChange:
    records: list[Record]
    results: Results


def check_commit(group: Group | None, who: Identity, *, knows_missing_group: bool) -> None:
    """A plain offset commit. `knows_missing_group`: OffsetCommit v9+ has a code for a group that does not exist."""
    if who.generation < 0 and (group is None or group.state is State.EMPTY):
        return  # a consumer without group management, or an administrator
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if knows_missing_group else ErrorCode.ILLEGAL_GENERATION)
    if who.generation < 0 and not who.member_id and who.instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "only members may commit offsets of a group that has members")
    check_generation(group, who.member_id, who.instance_id, who.generation)
    if group.state is State.COMPLETING:
        # It knows the new generation but not its assignment: the partitions it commits may belong to another member.
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def check_txn_commit(group: Group | None, who: Identity) -> None:
    """KIP-447: fenced by generation if the producer names one. A producer that does not is fenced by its epoch alone,
    and may commit in any state of the group."""
    is_named = bool(who.member_id) or who.instance_id is not None
    if who.generation < 0 and (group is None or group.state is State.EMPTY or not is_named):
        return
    if group is None:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    check_generation(group, who.member_id, who.instance_id, who.generation)


def commit(
    group_id: str,
    offsets: Sequence[OffsetToCommit],
    *,
    now_ms: int,
    metadata_limit: int,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> OffsetChange:
    if not can_hold(group_id):
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    expire_ms = NO_TIMESTAMP if retention_ms == DEFAULT_RETENTION_MS else min(now_ms + retention_ms, MAX_TIMESTAMP)
    records = []
    results: Results = {}
    for asked in offsets:
        metadata = asked.metadata or ""
        if len(metadata) > metadata_limit or not can_hold(metadata):
            results[asked.where] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        committed = Commit(asked.offset, asked.leader_epoch, metadata, now_ms, expire_ms)
        records.append(commit_record(group_id, asked.where, committed))
        results[asked.where] = ErrorCode.NONE
    return OffsetChange(records, results)


def fetch(
    offsets: Offsets, group_id: str, wanted: Iterable[TopicPartition] | None, *, require_stable: bool
) -> list[FetchedOffset]:
    """What is committed, for all partitions if `wanted` is None. A client that requires stable offsets is told to ask
    again where a transaction is open (KIP-447)."""
    committed = offsets.committed(group_id)
    fetched = []
    for where in committed if wanted is None else wanted:
        commit = committed.get(where)
        if require_stable and offsets.is_pending(group_id, where):
            fetched.append(FetchedOffset(where, error=ErrorCode.UNSTABLE_OFFSET_COMMIT))
        elif commit is None:
            fetched.append(FetchedOffset(where))
        else:
            fetched.append(FetchedOffset(where, commit.offset, commit.leader_epoch, commit.metadata))
    return fetched


def delete_offsets(group: Group, offsets: Offsets, wanted: Iterable[TopicPartition]) -> OffsetChange:
    """A group with members can lose offsets only if it is known which topics they read."""
    if group.state is not State.EMPTY and not group.uses_consumer_protocol:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    known = offsets.known(group.group_id)
    records = []
    results: Results = {}
    for where in wanted:
        if group.is_subscribed_to(where.topic):
            results[where] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        results[where] = ErrorCode.NONE
        if where in known:
            records.append(commit_tombstone(group.group_id, where))
    return OffsetChange(records, results)


def topic_deleted(machine: GroupMachine, topic: str) -> list[Record]:
    """Groups stay, even those without members or offsets: `expire` removes them, as in Kafka."""
    return [
        commit_tombstone(group_id, where)
        for group_id in machine.groups
        for where in sorted(machine.offsets.known(group_id))
        if where.topic == topic
    ]


# -- the end of a group -----------------------------------------------------------------------------------------------


def delete_group(group: Group, offsets: Offsets) -> list[Record]:
    """The group's own tombstone comes last: if the disk fails in between, the group can be deleted again."""
    if group.state is not State.EMPTY:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    tombstones = [commit_tombstone(group.group_id, where) for where in sorted(offsets.known(group.group_id))]
    return [*tombstones, group_tombstone(group.group_id)]


def expire(machine: GroupMachine, now_ms: int, retention_ms: int) -> list[Record]:
    records: list[Record] = []
    for group in machine.groups.values():
        expired = list(_expired(group, machine.offsets, now_ms, retention_ms))
        records += [commit_tombstone(group.group_id, where) for where in expired]
        if is_abandoned(group, machine.offsets, len(expired)) and group.is_recorded:
            records.append(group_tombstone(group.group_id))
    return records


def is_abandoned(group: Group, offsets: Offsets, expired_count: int = 0) -> bool:
    """The group has no members, none is about to join, and no offset is left once `expired_count` of them are gone."""
    return (
        group.state is State.EMPTY
        and not group.pending_joins
        and not offsets.has_open_transaction(group.group_id)
        and len(offsets.committed(group.group_id)) == expired_count
    )


def _expired(group: Group, offsets: Offsets, now_ms: int, retention_ms: int) -> Iterator[TopicPartition]:
    is_known = group.state is State.STABLE and group.subscribed_topics is not None
    if group.protocol_type is not None and group.state is not State.EMPTY and not is_known:
        return  # what its members read is not known at the moment
    had_members = group.protocol_type is not None and group.state is State.EMPTY and group.state_ms != NO_TIMESTAMP
    for where, commit in offsets.committed(group.group_id).items():
        if commit.expire_ms != NO_TIMESTAMP:
            is_old = now_ms >= commit.expire_ms
        else:
            since_ms = group.state_ms if had_members else commit.commit_ms
            is_old = now_ms - since_ms >= retention_ms
        if is_old and not group.is_subscribed_to(where.topic) and not offsets.is_pending(group.group_id, where):
            yield where
