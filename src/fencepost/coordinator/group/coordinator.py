"""The group coordinator: membership of consumer groups (the classic protocol) and, in `offsets`, their committed
offsets.

Start with `states` (what a group can be), then `decide` (what a request does to it) and `rebalance` (how a group gets
to its next generation). A group lives in the shard of `__consumer_offsets` that its id hashes to. A request is decided
by pure functions, recorded there, and answered once durable; a refusal is a KafkaError. Everything runs on the event
loop; the requests that wait for other members or for the leader's assignment are coroutines that can be cancelled at
any moment.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fencepost.clock import Clock
from fencepost.coordinator.group import decide
from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.machine import GroupMachine, GroupShards
from fencepost.coordinator.group.offset_coordinator import OffsetCoordinator
from fencepost.coordinator.group.rebalance import Rebalances
from fencepost.coordinator.group.records import GroupRecord, group_record
from fencepost.coordinator.group.requests import (
    Described,
    Joined,
    JoinRequest,
    Leaver,
    Synced,
    SyncRequest,
)
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.group.states import State
from fencepost.coordinator.runtime import Shard, Topics, retriable_errors
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition, coordinator_partition


class GroupCoordinator:
    def __init__(
        self,
        *,
        topics: Topics,
        clock: Clock,
        settings: GroupSettings,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """`new_id` makes up a unique part of every member id."""
        self._topics = topics
        self._settings = settings
        self._shards = GroupShards(CONSUMER_OFFSETS, topics, lambda _: GroupMachine(), clock)
        self._rebalances = Rebalances(clock, settings, self._record, new_id)
        self.offsets = OffsetCoordinator(
            self._shards, clock, settings, self._rebalances.heard_from, self._rebalances.forget
        )

    def start(self) -> None:
        """Bring back the groups and offsets of the last run. Members go on in their generation."""
        self._shards.load()
        for group in self._shards.groups():
            self._rebalances.loaded(group)
        self.offsets.start()

    def stop(self) -> None:
        self.offsets.stop()
        self._rebalances.stop(self._shards.groups())

    # -- membership

    async def join(self, request: JoinRequest) -> Joined:
        """Waits for the rebalance to get to its next generation. Cancelling it takes the request back."""
        decision = decide.join(self._shards.group(request.group_id), request, self._settings)
        with retriable_errors():
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
        return joined

    async def sync(self, request: SyncRequest) -> Synced:
        """Waits for the leader's assignment."""
        shard, group = self._existing(request.group_id)
        decide.check_sync(group, request)
        waiter: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
        self._rebalances.sync(group, request, waiter)
        with retriable_errors():
            try:
                synced = await waiter
                await shard.all_durable()
            except asyncio.CancelledError:
                self._rebalances.sync_abandoned(group, request.member_id)
                raise
        return synced

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> None:
        """REBALANCE_IN_PROGRESS is not a failure: the heartbeat counts, and tells the member to join again."""
        _, group = self._existing(group_id)
        decide.check_generation(group, member_id, instance_id, generation)
        self._rebalances.heard_from(group, member_id)
        decide.check_settled(group)

    async def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode]:
        """What became of each of them."""
        if group_id and self._shards.group(group_id) is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        shard, group = self._existing(group_id)
        left = self._rebalances.leave(group, leavers)
        with retriable_errors():
            await shard.all_durable()
        return left

    # -- groups as a whole

    def describe(self, group_id: str) -> Described | None:
        """As it is in memory, which may be ahead of the disk: no client relies on a description."""
        group = self._shards.group(group_id)
        return None if group is None else group.described()

    def describe_all(self) -> list[Described]:
        return [group.described() for group in self._shards.groups()]

    def states(self) -> Counter[State]:
        """How many groups are in which state."""
        return Counter(group.state for group in self._shards.groups())

    def committed(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Every committed offset, with its group and partition."""
        for shard in self._shards:
            for group_id, commits in shard.machine.offsets.all_committed().items():
                for where, commit in commits.items():
                    yield group_id, where, commit.offset

    async def delete_group(self, group_id: str) -> None:
        shard, group = self._shards.existing(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        records = decide.delete_group(group, shard.machine.offsets)
        with retriable_errors():
            shard.write_many(records)
            self._rebalances.forget(group)
            await shard.all_durable()

    # -- transactions

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a transaction with offsets of this group has to include."""
        return coordinator_partition(group_id, self._topics.ensure_internal(CONSUMER_OFFSETS).partitions)

    def marker_appended(self, topic: str, partition: int, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """The transaction coordinator has ended a transaction in a partition of `__consumer_offsets`."""
        shard = self._shards.at(partition) if topic == CONSUMER_OFFSETS else None
        if shard is not None:  # otherwise the shard has not been used yet, and finds the marker when it is loaded
            shard.machine.apply_marker(producer_id, producer_epoch, commit)

    # -- inside

    def _existing(self, group_id: str) -> tuple[Shard[GroupMachine], Group]:
        """For requests of members: no member belongs to a group that does not exist."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self._shards.existing(group_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def _record(self, group: Group, record: GroupRecord) -> None:
        self._shards.for_key(group.group_id).write([group_record(group.group_id, record)])
