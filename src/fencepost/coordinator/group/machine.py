"""The state of one partition of `__consumer_offsets`, as its records make it: groups and committed offsets.

`apply` and `apply_marker` run when a record was just appended and when the log is replayed. Nothing else changes what
is recorded. A group also has a rebalance under way, which is not recorded; a group that has only that is in `groups`
too, and is lost with the process, like its members' connections.

Offsets depend on nothing but the records and markers, and on their order in the log. A commit inside a transaction is
pending until the marker; then the commit that is *later in the log* wins, so the transaction does not overwrite a plain
commit made while it was open. Compaction keeps the same commit, so a restart finds the same state. A tombstone removes
a pending commit too.
"""

import logging
from collections.abc import Iterator, Mapping

from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.records import (
    Commit,
    GroupKey,
    OffsetKey,
    read_commit,
    read_group,
    read_key,
)
from fencepost.coordinator.runtime import Shard, Shards
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.batch import NO_PRODUCER_ID
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

logger = logging.getLogger(__name__)

Commits = dict[TopicPartition, Commit]


class Offsets:
    def __init__(self) -> None:
        self._committed: dict[str, Commits] = {}
        self._pending: dict[int, dict[str, Commits]] = {}  #: by producer id, then by group
        self._open: dict[str, set[int]] = {}  #: by group: the producers that have anything pending in it

    # -- questions

    def committed(self, group_id: str) -> Mapping[TopicPartition, Commit]:
        return self._committed.get(group_id, {})

    def all_committed(self) -> Mapping[str, Mapping[TopicPartition, Commit]]:
        """By group."""
        return self._committed

    def pending(self, group_id: str) -> Iterator[TopicPartition]:
        """Partitions with a commit that waits for its transaction; one may come twice."""
        for producer_id in self._open.get(group_id, ()):
            yield from self._pending[producer_id][group_id]

    def is_pending(self, group_id: str, where: TopicPartition) -> bool:
        producers = self._open.get(group_id)
        return producers is not None and any(where in self._pending[producer][group_id] for producer in producers)

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._open

    def known(self, group_id: str) -> set[TopicPartition]:
        """Every partition with a commit, in force or pending."""
        return {*self.committed(group_id), *self.pending(group_id)}

    # -- apply

    def commit(self, group_id: str, where: TopicPartition, commit: Commit) -> None:
        self._committed.setdefault(group_id, {})[where] = commit

    def commit_later(self, producer_id: int, group_id: str, where: TopicPartition, commit: Commit) -> None:
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[where] = commit
        self._open.setdefault(group_id, set()).add(producer_id)

    def remove(self, group_id: str, where: TopicPartition) -> None:
        commits = self._committed.get(group_id)
        if commits is not None and commits.pop(where, None) is not None and not commits:
            del self._committed[group_id]
        for producer_id in self._open.get(group_id, ()):
            self._pending[producer_id][group_id].pop(where, None)  # the transaction stays open, if for nothing

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        for group_id, pending in self._pending.pop(producer_id, {}).items():
            producers = self._open[group_id]
            producers.discard(producer_id)
            if not producers:
                del self._open[group_id]
            if commit:
                for where, candidate in pending.items():
                    present = self.committed(group_id).get(where)
                    if present is None or candidate.log_offset > present.log_offset:
                        self.commit(group_id, where, candidate)


class GroupMachine:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    def group(self, group_id: str) -> Group:
        """The group of this name, made if there is none: so a first commit or join makes one."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def apply(self, record: Record, producer_id: int) -> None:
        key = read_key(record)
        if isinstance(key, OffsetKey):
            self._apply_offset(key, record, producer_id)
        elif isinstance(key, GroupKey):
            self._apply_group(key, record)
        else:
            logger.debug("left a record of an unknown kind alone at offset %d", record.offset)

    def apply_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        self.offsets.end_transaction(producer_id, commit=commit)

    def _apply_offset(self, key: OffsetKey, record: Record, producer_id: int) -> None:
        commit = read_commit(record)
        if commit is None:
            self.offsets.remove(key.group_id, key.where)
            return
        self.group(key.group_id).note_commit()
        if producer_id == NO_PRODUCER_ID:
            self.offsets.commit(key.group_id, key.where, commit)
        else:
            self.offsets.commit_later(producer_id, key.group_id, key.where, commit)

    def _apply_group(self, key: GroupKey, record: Record) -> None:
        recorded = read_group(record)
        if recorded is not None:
            self.group(key.group_id).adopt(recorded)
            return
        group = self.groups.pop(key.group_id, None)
        if group is not None:
            group.remove_altogether()


class GroupShards(Shards[GroupMachine]):
    """All groups there are, by their ids."""

    def group(self, group_id: str) -> Group | None:
        shard = self.find(group_id)
        return None if shard is None else shard.machine.groups.get(group_id)

    def existing(self, group_id: str, otherwise: ErrorCode) -> tuple[Shard[GroupMachine], Group]:
        """The group and its shard. Raises KafkaError(otherwise) if there is no such group."""
        shard, group = self.find(group_id), self.group(group_id)
        if shard is None or group is None:
            raise KafkaError(otherwise)
        return shard, group

    def groups(self) -> list[Group]:
        return [group for shard in self for group in shard.machine.groups.values()]
