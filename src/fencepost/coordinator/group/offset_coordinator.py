"""Committed offsets: commit, commit inside a transaction, fetch, delete, expire.

Every change is decided in `decide.py`, appended, applied and answered when durable. An error that concerns the whole
request is raised as KafkaError, an error of one partition is in the result.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from fencepost.clock import Clock, Periodic
from fencepost.coordinator.group import decide
from fencepost.coordinator.group.decide import DEFAULT_RETENTION_MS, OffsetChange, Results
from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.machine import GroupMachine, GroupShards
from fencepost.coordinator.group.requests import FetchedOffset, Identity, OffsetToCommit
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.group.states import State
from fencepost.coordinator.runtime import Shard, coordinator_error, retriable_errors
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

logger = logging.getLogger(__name__)

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


class OffsetCoordinator:
    def __init__(
        self,
        shards: GroupShards,
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
        group = self._shards.group(group_id)
        decide.check_commit(group, who, knows_missing_group=knows_missing_group)
        if group is not None and group.state in (State.STABLE, State.PREPARING):
            self._heard_from(group, who.member_id)
        return await self._write(group_id, self._commit(group_id, offsets, retention_ms))

    async def commit_in_transaction(
        self, group_id: str, who: Identity, producer_id: int, producer_epoch: int, offsets: Sequence[OffsetToCommit]
    ) -> Results:
        """Takes effect with the transaction. The caller has made sure that this group's partition is part of it."""
        decide.check_txn_commit(self._shards.group(group_id), who)
        if producer_id < 0 or producer_epoch < 0:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a transaction belongs to a producer")
        change = self._commit(group_id, offsets, DEFAULT_RETENTION_MS)
        return await self._write(group_id, change, producer_id, producer_epoch)

    async def fetch(
        self, group_id: str, wanted: Iterable[TopicPartition] | None, *, require_stable: bool = False
    ) -> list[FetchedOffset]:
        """A group that does not exist has no committed offsets."""
        shard = self._shards.find(group_id)
        if shard is None:
            return [] if wanted is None else [FetchedOffset(where) for where in wanted]
        fetched = decide.fetch(shard.machine.offsets, group_id, wanted, require_stable=require_stable)
        with retriable_errors():
            await shard.all_durable()
        return fetched

    async def delete(self, group_id: str, wanted: Iterable[TopicPartition]) -> Results:
        shard, group = self._shards.existing(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        return await self._write(group_id, decide.delete_offsets(group, shard.machine.offsets, wanted))

    # -- what happens without anybody asking

    def topic_deleted(self, topic: str) -> None:
        """A topic made later under the same name must not inherit offsets."""
        for shard in self._shards:
            self._clean_up(shard, decide.topic_deleted(shard.machine, topic))

    def expire(self) -> None:
        retention_ms = self._settings.offsets_retention_minutes * 60_000
        now_ms = self._clock.now_ms()
        for shard in self._shards:
            groups = dict(shard.machine.groups)
            self._clean_up(shard, decide.expire(shard.machine, now_ms, retention_ms))
            for group in groups.values():
                if not group.is_recorded and decide.is_abandoned(group, shard.machine.offsets):
                    del shard.machine.groups[group.group_id]  # it is not in the log
                if group.group_id not in shard.machine.groups:
                    self._forget(group)

    # -- steps

    def _commit(self, group_id: str, offsets: Sequence[OffsetToCommit], retention_ms: int) -> OffsetChange:
        return decide.commit(
            group_id,
            offsets,
            now_ms=self._clock.now_ms(),
            metadata_limit=self._settings.offset_metadata_max_bytes,
            retention_ms=retention_ms,
        )

    async def _write(
        self, group_id: str, change: OffsetChange, producer_id: int = NO_PRODUCER_ID, epoch: int = NO_PRODUCER_EPOCH
    ) -> Results:
        """Append the records, inside the producer's transaction if one is given, and wait until they are durable."""
        if not change.records:
            return change.results
        try:
            shard = self._shards.for_key(group_id)
            appended = shard.write(change.records, producer_id=producer_id, producer_epoch=epoch)
            await shard.durable(appended.last_offset)
        except KafkaError as error:
            if error.code in _TOO_LARGE:
                raise KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, error.message) from None
            raise coordinator_error(error) from None
        return change.results

    def _clean_up(self, shard: Shard[GroupMachine], tombstones: Sequence[Record]) -> None:
        try:
            shard.write_many(tombstones)
        except KafkaError as error:
            logger.warning("could not remove offsets from %s: %s", shard.partition, error)  # the next check tries again
