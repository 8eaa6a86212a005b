"""Committed offsets: commit, commit inside a transaction, fetch, delete, expire.

Every change is decided in `commits.py` or `checks.py`, appended, applied and answered when durable. Errors that
concern a whole request are raised as KafkaError, those of one partition are in the result.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from fencepost.clock import Clock, Periodic
from fencepost.coordinator.group.checks import check_commit, check_delete_offsets, check_txn_commit
from fencepost.coordinator.group.commits import (
    DEFAULT_RETENTION_MS,
    Decision,
    Results,
    decide_commit,
    decide_delete_offsets,
    decide_expiry,
    decide_topics_deleted,
    fetch,
    is_abandoned,
)
from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.machine import GroupMachine
from fencepost.coordinator.group.records import can_hold
from fencepost.coordinator.group.requests import FetchedOffset, Identity, OffsetToCommit
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.group.states import State
from fencepost.coordinator.runtime import Shard, Shards, coordinator_error
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

logger = logging.getLogger(__name__)

#: Tombstones of a clean-up are written so many at a time, so that no batch outgrows the log's limit.
TOMBSTONES_PER_BATCH = 1000

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


class OffsetCoordinator:
    def __init__(
        self,
        shards: Shards[GroupMachine],
        clock: Clock,
        settings: GroupSettings,
        heard_from: Callable[[Group, str], None],
        forget: Callable[[Group], None],
    ) -> None:
        self._shards = shards
        self._clock = clock
        self._settings = settings
        self._heard_from = heard_from
        self._forget = forget
        self._expiry = Periodic(clock, lambda: settings.offsets_retention_check_interval_ms, self.expire)

    def start(self) -> None:
        self._expiry.start()

    def stop(self) -> None:
        self._expiry.stop()

    # -- requests

    async def commit(
        self,
        group_id: str,
        who: Identity,
        offsets: Sequence[OffsetToCommit],
        *,
        retention_ms: int = DEFAULT_RETENTION_MS,
        knows_missing_group: bool = True,
    ) -> Results:
        """A plain commit, which also counts as a heartbeat of the member that makes it."""
        group = self._find(group_id)
        _raise(check_commit(group, who, knows_missing_group=knows_missing_group))
        if group is not None and group.state in (State.STABLE, State.PREPARING):
            self._heard_from(group, who.member_id)
        decision = self._decide_commit(group_id, offsets, retention_ms)
        await self._write(group_id, decision)
        return decision.results

    async def commit_in_transaction(
        self, group_id: str, who: Identity, producer_id: int, producer_epoch: int, offsets: Sequence[OffsetToCommit]
    ) -> Results:
        """Takes effect with the transaction. The caller has made sure that this group's partition is part of it."""
        _raise(check_txn_commit(self._find(group_id), who))
        if producer_id < 0 or producer_epoch < 0:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a transaction belongs to a producer")
        decision = self._decide_commit(group_id, offsets, DEFAULT_RETENTION_MS)
        await self._write(group_id, decision, producer_id, producer_epoch)
        return decision.results

    async def fetch(
        self, group_id: str, wanted: Iterable[TopicPartition] | None, *, require_stable: bool = False
    ) -> list[FetchedOffset]:
        """Of a group that does not exist, nothing is committed."""
        shard = self._shards.find(group_id)
        if shard is None:
            return [] if wanted is None else [FetchedOffset(where) for where in wanted]
        fetched = fetch(shard.machine.offsets, group_id, wanted, require_stable=require_stable)
        await _durable(shard)
        return fetched

    async def delete(self, group_id: str, wanted: Iterable[TopicPartition]) -> Results:
        shard = self._shards.find(group_id)
        group = self._find(group_id)
        _raise(check_delete_offsets(group))
        if shard is None or group is None:
            return {}  # cannot be: the check has refused it
        decision = decide_delete_offsets(group, shard.machine.offsets, wanted)
        await self._write(group_id, decision)
        return decision.results

    # -- what happens without anybody asking

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """A topic made later under the same name must not inherit offsets."""
        gone = frozenset(topics)
        for shard in self._shards:
            self._clean_up(shard, decide_topics_deleted(shard.machine, gone))

    def expire(self) -> None:
        retention_ms = self._settings.offsets_retention_minutes * 60_000
        now_ms = self._clock.now_ms()
        for shard in self._shards:
            groups = dict(shard.machine.groups)
            self._clean_up(shard, decide_expiry(shard.machine, now_ms, retention_ms))
            for group in groups.values():
                if not group.is_recorded and is_abandoned(group, shard.machine.offsets):
                    del shard.machine.groups[group.group_id]  # the log never heard of it
                if group.group_id not in shard.machine.groups:
                    self._forget(group)

    # -- steps

    def _find(self, group_id: str) -> Group | None:
        shard = self._shards.find(group_id)
        return None if shard is None else shard.machine.groups.get(group_id)

    def _decide_commit(self, group_id: str, offsets: Sequence[OffsetToCommit], retention_ms: int) -> Decision:
        if not can_hold(group_id):
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return decide_commit(
            group_id,
            offsets,
            now_ms=self._clock.now_ms(),
            metadata_limit=self._settings.offset_metadata_max_bytes,
            retention_ms=retention_ms,
        )

    async def _write(
        self, group_id: str, decision: Decision, producer_id: int | None = None, producer_epoch: int = -1
    ) -> None:
        if not decision.records:
            return
        try:
            shard = self._shards.for_key(group_id)
            if producer_id is None:
                appended = shard.write(decision.records)
            else:
                appended = shard.write(
                    decision.records, producer_id=producer_id, producer_epoch=producer_epoch, transactional=True
                )
            await shard.durable(appended.last_offset)
        except KafkaError as error:
            if error.code in _TOO_LARGE:
                raise KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, error.message) from error
            raise coordinator_error(error) from error

    def _clean_up(self, shard: Shard[GroupMachine], tombstones: list[Record]) -> None:
        try:
            for first in range(0, len(tombstones), TOMBSTONES_PER_BATCH):
                shard.write(tombstones[first : first + TOMBSTONES_PER_BATCH])
        except KafkaError as error:
            logger.warning("could not remove offsets from %s: %s", shard.partition, error)  # the next check tries again


async def _durable(shard: Shard[GroupMachine]) -> None:
    try:
        await shard.all_durable()
    except KafkaError as error:
        raise coordinator_error(error) from error


def _raise(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        raise KafkaError(error)
