"""Committed offsets of the groups of one shard: those in force, and those that wait for the end of a transaction.

Kept here: the state depends on the records and markers and their order in the log alone. A commit inside a
transaction is pending until the marker; then the commit that stands *later in the log* wins, so a plain commit made
while the transaction was open is not overwritten by it. Compaction keeps the same one, so a restart cannot choose
otherwise. A tombstone removes what is pending too.
"""

from collections.abc import Iterator, Mapping

from fencepost.coordinator.group.records import Commit
from fencepost.wire.terms import TopicPartition

Commits = dict[TopicPartition, Commit]


class Offsets:
    def __init__(self) -> None:
        self._committed: dict[str, Commits] = {}
        self._pending: dict[int, dict[str, Commits]] = {}  #: by producer id, then by group
        self._open: dict[str, set[int]] = {}  #: by group: the producers that have anything pending in it

    # -- questions

    def committed(self, group_id: str) -> Mapping[TopicPartition, Commit]:
        return self._committed.get(group_id, {})

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
