"""The state of one partition of `__consumer_offsets`, as its records make it: groups and offsets.

`apply` and `apply_marker` run when a record was just appended and when the log is replayed, and nothing else changes
what is recorded. The groups also carry their rebalance under way, which is not recorded; a group that has only that
is in `groups` as well, and is lost with the process, as its members' connections are.
"""

import logging

from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.offsets import Offsets
from fencepost.coordinator.group.records import GroupKey, OffsetKey, read_commit, read_group, read_key
from fencepost.wire.batch import NO_PRODUCER_ID
from fencepost.wire.records import Record

logger = logging.getLogger(__name__)


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
