"""Which records a commit, a deletion or the passing of time leads to. Pure: state and request in, records out.

Expiry is Kafka's (KIP-211). Offsets of a group without members go when it has had none for
`offsets.retention.minutes`; those of a consumer that is no member of anything, so long after their commit; those of a
group with members, so long after their commit if nobody in it subscribes to the topic. Nothing goes that a
transaction has yet to decide on. A group without members and offsets is removed by the same check, every
`offsets.retention.check.interval.ms`, whatever took its last offset.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.machine import GroupMachine
from fencepost.coordinator.group.offsets import Offsets
from fencepost.coordinator.group.records import (
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    Commit,
    can_hold,
    commit_record,
    commit_tombstone,
    group_tombstone,
)
from fencepost.coordinator.group.requests import FetchedOffset, OffsetToCommit
from fencepost.coordinator.group.states import State
from fencepost.errors import ErrorCode
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

#: What a commit that does not ask for a retention time of its own sends (OffsetCommit v2 to v4).
DEFAULT_RETENTION_MS = -1

Results = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class Decision:
    records: list[Record]
    results: Results


def decide_commit(
    group_id: str,
    offsets: Sequence[OffsetToCommit],
    *,
    now_ms: int,
    metadata_limit: int,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> Decision:
    expire_ms = NO_TIMESTAMP if retention_ms == DEFAULT_RETENTION_MS else min(now_ms + retention_ms, MAX_TIMESTAMP)
    records = []
    results: Results = {}
    for asked in offsets:
        metadata = asked.metadata or ""
        if len(metadata) > metadata_limit or not can_hold(metadata):
            results[asked.where] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        commit = Commit(asked.offset, asked.leader_epoch, metadata, now_ms, expire_ms)
        records.append(commit_record(group_id, asked.where, commit))
        results[asked.where] = ErrorCode.NONE
    return Decision(records, results)


def fetch(
    offsets: Offsets, group_id: str, wanted: Iterable[TopicPartition] | None, *, require_stable: bool
) -> list[FetchedOffset]:
    """What is committed; of everything when `wanted` is None. Where a transaction may still change it, somebody who
    requires stable offsets is told to ask again (KIP-447)."""
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


def decide_delete_offsets(group: Group, offsets: Offsets, wanted: Iterable[TopicPartition]) -> Decision:
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
    return Decision(records, results)


def decide_delete_group(group: Group, offsets: Offsets) -> list[Record]:
    """The group goes last: should the disk fail in between, it is still there to be deleted again."""
    tombstones = [commit_tombstone(group.group_id, where) for where in sorted(offsets.known(group.group_id))]
    return [*tombstones, group_tombstone(group.group_id)]


def decide_topics_deleted(machine: GroupMachine, topics: frozenset[str]) -> list[Record]:
    """Groups stay, even those without members or offsets: `decide_expiry` removes them, as in Kafka."""
    records: list[Record] = []
    for group in machine.groups.values():
        gone = [where for where in sorted(machine.offsets.known(group.group_id)) if where.topic in topics]
        records += [commit_tombstone(group.group_id, where) for where in gone]
    return records


def decide_expiry(machine: GroupMachine, now_ms: int, retention_ms: int) -> list[Record]:
    records: list[Record] = []
    for group in machine.groups.values():
        expired = list(_expired(group, machine.offsets, now_ms, retention_ms))
        records += [commit_tombstone(group.group_id, where) for where in expired]
        if is_abandoned(group, machine.offsets, len(expired)) and group.is_recorded:
            records.append(group_tombstone(group.group_id))
    return records


def is_abandoned(group: Group, offsets: Offsets, expired_count: int = 0) -> bool:
    """Nobody is in the group or on the way, and no offset is left once `expired_count` of them are gone."""
    return (
        group.state is State.EMPTY
        and not group.pending_joins
        and not offsets.has_open_transaction(group.group_id)
        and len(offsets.committed(group.group_id)) == expired_count
    )


def _expired(group: Group, offsets: Offsets, now_ms: int, retention_ms: int) -> Iterator[TopicPartition]:
    is_known = group.state is State.STABLE and group.subscribed_topics is not None
    if group.protocol_type is not None and group.state is not State.EMPTY and not is_known:
        return  # not the moment to say what its members read
    had_members = group.protocol_type is not None and group.state is State.EMPTY and group.state_ms != NO_TIMESTAMP
    for where, commit in offsets.committed(group.group_id).items():
        if commit.expire_ms != NO_TIMESTAMP:
            is_old = now_ms >= commit.expire_ms
        else:
            since_ms = group.state_ms if had_members else commit.commit_ms
            is_old = now_ms - since_ms >= retention_ms
        if is_old and not group.is_subscribed_to(where.topic) and not offsets.is_pending(group.group_id, where):
            yield where
