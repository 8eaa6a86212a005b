"""A coordinator on real logs in a directory, with time by hand, and clients that speak to it as a consumer would."""

import asyncio
import struct
from collections.abc import Iterable
from typing import Any

import pytest

from fencepost.coordinator.group.coordinator import GroupCoordinator
from fencepost.coordinator.group.requests import (
    FetchedOffset,
    Identity,
    Joined,
    JoinRequest,
    Leaver,
    MemberIdRequired,
    OffsetToCommit,
    Protocol,
    Synced,
    SyncRequest,
)
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.partition import PartitionLog
from fencepost.wire.records import decode_batch
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition
from tests.unit.coordinator.machine import Machine, settle, start

GROUP = "group"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class World:
    def __init__(self, **settings: int) -> None:
        self.machine = Machine()
        self.clock = self.machine.clock
        self.settings = GroupSettings(**settings)
        self.start()

    def start(self) -> None:
        self.topics = self.machine.topics
        self.groups = GroupCoordinator(topics=self.topics, clock=self.clock, settings=self.settings)
        self.groups.start()

    def restart(self) -> None:
        """The process was killed, and there is a new one. What was written is there, for nothing was lost with it."""
        self.groups.stop()
        self.machine.restart()
        self.start()

    async def advance(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)
        await settle()

    def records(self) -> int:
        """How many records the log holds, markers apart."""
        return sum(len(list(decode_batch(batch))) for header, batch in self.log().replay(0) if not header.is_control)

    def log(self) -> PartitionLog:
        return self.machine.log(CONSUMER_OFFSETS, self.groups.partition_of(GROUP))

    @property
    def members(self) -> list[str]:
        described = self.groups.describe(GROUP)
        return [] if described is None else [member.member_id for member in described.members]

    @property
    def state(self) -> str:
        described = self.groups.describe(GROUP)
        return "none" if described is None else described.state

    # -- offsets

    async def commit(
        self, offset: int, who: Identity | None = None, *, topic: str = "t", partition: int = 0
    ) -> ErrorCode:
        where = TopicPartition(topic, partition)
        results = await self.groups.offsets.commit(GROUP, who or Identity(), [OffsetToCommit(where, offset)])
        return results[where]

    async def commit_in_transaction(
        self, offset: int, producer_id: int, who: Identity | None = None, *, epoch: int = 0, partition: int = 0
    ) -> ErrorCode:
        where = TopicPartition("t", partition)
        offsets = [OffsetToCommit(where, offset)]
        results = await self.groups.offsets.commit_in_transaction(GROUP, who or Identity(), producer_id, epoch, offsets)
        return results[where]

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
        partition = self.groups.partition_of(GROUP)
        self.log().append_marker(producer_id, epoch, commit, 0, 0)
        self.groups.marker_appended(CONSUMER_OFFSETS, partition, producer_id, epoch, commit)

    async def fetch(self, *partitions: int, topic: str = "t", require_stable: bool = False) -> list[FetchedOffset]:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        return await self.groups.offsets.fetch(GROUP, wanted, require_stable=require_stable)

    async def committed(self, partition: int = 0, *, topic: str = "t") -> int:
        (fetched,) = await self.fetch(partition, topic=topic)
        return fetched.offset


def subscription(*topics: str) -> bytes:
    body = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + body + struct.pack(">i", -1)


def join_request(member_id: str = "", **changes: object) -> JoinRequest:
    fields: dict[str, object] = {
        "group_id": GROUP,
        "member_id": member_id,
        "instance_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": (Protocol("range", subscription("t")),),
    }
    return JoinRequest(**{**fields, **changes})  # type: ignore[arg-type]


class Client:
    """A consumer with one foot in a group."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        instance_id: str | None = None,
        protocols: Iterable[str] = ("range",),
        topics: Iterable[str] = ("t",),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
    ) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.protocols = tuple(Protocol(protocol, subscription(*topics)) for protocol in protocols)
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.version = version
        self.member_id = ""
        self.generation = -1
        self.last_join = Joined()

    def request(self) -> JoinRequest:
        return join_request(
            self.member_id,
            instance_id=self.instance_id,
            client_id=self.name,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            protocols=self.protocols,
            needs_member_id=self.version >= 4,
            skips_assignment=self.version >= 9,
        )

    async def ask_for_id(self) -> None:
        with pytest.raises(MemberIdRequired) as given:
            await self.world.groups.join(self.request())
        self.member_id = given.value.member_id

    async def join(self) -> Joined:
        """Ask for an id first where that is the custom, then join and wait."""
        try:
            joined = await self.world.groups.join(self.request())
        except MemberIdRequired as error:
            self.member_id = error.member_id
            joined = await self.world.groups.join(self.request())
        self.member_id, self.generation = joined.member_id, joined.generation
        self.last_join = joined
        return joined

    async def sync(self, assignments: dict[str, bytes] | None = None, group_id: str = GROUP) -> Synced:
        request = SyncRequest(
            group_id=group_id,
            member_id=self.member_id,
            instance_id=self.instance_id,
            generation=self.generation,
            assignments=assignments or {},
        )
        return await self.world.groups.sync(request)

    async def assign(self) -> Synced:
        """A leader gives every member its own name; other members are told what the leader gives them."""
        return await self.sync({member.member_id: member.member_id.encode() for member in self.last_join.members})

    async def join_and_sync(self) -> Synced:
        await self.join()
        return await self.assign()

    @property
    def is_leader(self) -> bool:
        return self.last_join.leader == self.member_id

    def heartbeat(self) -> ErrorCode:
        try:
            self.world.groups.heartbeat(GROUP, self.member_id, self.instance_id, self.generation)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def leave(self) -> ErrorCode:
        (code,) = await self.world.groups.leave(GROUP, [Leaver(self.member_id, self.instance_id)])
        return code

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.generation, self.instance_id)


async def join_together(world: World, *clients: Client) -> list[Joined]:
    """These clients join, and are answered, at the same time."""
    usual_ms = world.settings.group_initial_rebalance_delay_ms
    if world.state in ("none", "Empty"):
        world.settings.group_initial_rebalance_delay_ms = 1000
    joins = [await start(client.join()) for client in clients]
    for _ in clients:
        if world.settings.group_initial_rebalance_delay_ms != usual_ms:
            await world.advance(1000)
    world.settings.group_initial_rebalance_delay_ms = usual_ms
    return list(await asyncio.gather(*joins))


async def stable(world: World, *clients: Client) -> None:
    """Bring these clients into one generation together."""
    await join_together(world, *clients)
    await asyncio.gather(*(client.assign() for client in clients))
    assert world.state == "Stable"


async def new_members(
    world: World, names: str = "ab", *, is_static: bool = False, are_assigned: bool = True, **options: Any
) -> list[Client]:
    """New clients in one generation, the leader first."""
    clients = [Client(world, name, instance_id=f"i-{name}" if is_static else None, **options) for name in names]
    await (stable if are_assigned else join_together)(world, *clients)
    return sorted(clients, key=lambda client: not client.is_leader)
