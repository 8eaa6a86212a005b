"""The group coordinator: membership of consumer groups (the classic protocol) and, in `offsets`, their committed
offsets.

The doors for the broker's handlers. A group lives in the shard of `__consumer_offsets` that its id hashes to; what it
is told is decided by pure functions, recorded there, and answered once durable. Everything runs on the event loop;
the requests that wait for others to join or for the leader's assignment are coroutines which can be cancelled at any
moment.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence

from fencepost.clock import Clock
from fencepost.coordinator.group.checks import check_delete_group, check_heartbeat, check_sync
from fencepost.coordinator.group.commits import decide_delete_group
from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.joining import Refuse, decide_join
from fencepost.coordinator.group.machine import GroupMachine
from fencepost.coordinator.group.offset_coordinator import TOMBSTONES_PER_BATCH, OffsetCoordinator
from fencepost.coordinator.group.rebalance import Rebalances
from fencepost.coordinator.group.records import GroupRecord, group_record
from fencepost.coordinator.group.requests import (
    Described,
    Joined,
    JoinRequest,
    Leaver,
    Left,
    Listed,
    Synced,
    SyncRequest,
)
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.runtime import (
    InternalTopics,
    Shard,
    Shards,
    coordinator_error,
)
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import CONSUMER_OFFSETS, coordinator_partition


class GroupCoordinator:
    def __init__(
        self,
        *,
        topics: InternalTopics,
        clock: Clock,
        settings: GroupSettings,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """`new_id` makes up what nobody has been called before: a part of every member id."""
        self._topics = topics
        self._settings = settings
        self._shards: Shards[GroupMachine] = Shards(CONSUMER_OFFSETS, topics, lambda _: GroupMachine(), clock)
        self._rebalances = Rebalances(clock, settings, self._record, new_id)
        self.offsets = OffsetCoordinator(
            self._shards, clock, settings, self._rebalances.heard_from, self._rebalances.forget
        )

    def start(self) -> None:
        """Bring back the groups and offsets of the last run. Members go on in their generation."""
        self._shards.load()
        for group in self._groups():
            self._rebalances.loaded(group)
        self.offsets.start()

    def stop(self) -> None:
        self.offsets.stop()
        self._rebalances.stop(self._groups())

    # -- membership

    async def join(self, request: JoinRequest) -> Joined:
        """Waits for the rebalance to get to its next generation. Cancelling it takes the request back."""
        decision = decide_join(self._find(request.group_id), request, self._settings)
        if isinstance(decision, Refuse):
            return Joined(error=decision.error, member_id=decision.member_id)
        try:
            shard = self._shards.for_key(request.group_id)
            group = shard.machine.group(request.group_id)
            waiter: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
            self._rebalances.join(group, request, decision, waiter)
            try:
                joined = await waiter
            except asyncio.CancelledError:
                self._rebalances.join_abandoned(group, waiter)
                raise
            await shard.all_durable()
        except KafkaError as error:
            return Joined(error=coordinator_error(error).code, member_id=request.member_id)
        return joined

    async def sync(self, request: SyncRequest) -> Synced:
        """Waits for the leader's assignment."""
        if not request.group_id:
            return Synced(error=ErrorCode.INVALID_GROUP_ID)
        shard = self._shards.find(request.group_id)
        group = self._find(request.group_id)
        error = check_sync(group, request)
        if error is not ErrorCode.NONE or shard is None or group is None:
            return Synced(error=error)
        waiter: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
        self._rebalances.sync(group, request, waiter)
        try:
            synced = await waiter
            await shard.all_durable()
        except asyncio.CancelledError:
            self._rebalances.sync_abandoned(group, request.member_id)
            raise
        except KafkaError as failure:
            return Synced(error=coordinator_error(failure).code)
        return synced

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._find(group_id)
        error = check_heartbeat(group, member_id, instance_id, generation)
        if group is not None and error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._rebalances.heard_from(group, member_id)
        return error

    async def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[Left]:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shards.find(group_id)
        group = self._find(group_id)
        if shard is None or group is None:
            return [Left(leaver, ErrorCode.UNKNOWN_MEMBER_ID) for leaver in leavers]
        left = self._rebalances.leave(group, leavers)
        try:
            await shard.all_durable()
        except KafkaError as error:
            raise coordinator_error(error) from error
        return left

    # -- groups as a whole

    def describe(self, group_id: str) -> Described | None:
        """As it is in memory, which may be ahead of the disk: nobody builds upon a description."""
        group = self._find(group_id)
        return None if group is None else group.described()

    def list_groups(self) -> list[Listed]:
        return [group.listed() for group in self._groups()]

    async def delete_group(self, group_id: str) -> ErrorCode:
        shard = self._shards.find(group_id)
        group = self._find(group_id)
        error = check_delete_group(group)
        if error is not ErrorCode.NONE or shard is None or group is None:
            return error
        records = decide_delete_group(group, shard.machine.offsets)
        try:
            for first in range(0, len(records), TOMBSTONES_PER_BATCH):
                shard.write(records[first : first + TOMBSTONES_PER_BATCH])
            self._rebalances.forget(group)
            await shard.all_durable()
        except KafkaError as failure:
            return coordinator_error(failure).code
        return ErrorCode.NONE

    def topics_deleted(self, topics: Iterable[str]) -> None:
        self.offsets.topics_deleted(topics)

    # -- transactions

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a transaction with offsets of this group has to include."""
        return coordinator_partition(group_id, self._topics.ensure_internal(CONSUMER_OFFSETS).partitions)

    def marker_appended(self, topic: str, partition: int, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """The transaction coordinator has ended a transaction in a partition of `__consumer_offsets`."""
        shard = self._shards.at(partition) if topic == CONSUMER_OFFSETS else None
        if shard is not None:  # otherwise it has not been used yet; the marker is found when it is loaded
            shard.marker_appended(producer_id, producer_epoch, commit)

    # -- inside

    def _find(self, group_id: str) -> Group | None:
        shard = self._shards.find(group_id)
        return None if shard is None else shard.machine.groups.get(group_id)

    def _groups(self) -> list[Group]:
        return [group for shard in self._shards for group in shard.machine.groups.values()]

    def _record(self, group: Group, record: GroupRecord) -> None:
        shard: Shard[GroupMachine] = self._shards.for_key(group.group_id)
        shard.write([group_record(group.group_id, record)])
