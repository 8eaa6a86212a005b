"""Members of a consumer group: they join, are given partitions, commit their offsets, and leave or vanish."""

from collections.abc import Iterator

from fencepost.client.raw import offset_topics
from fencepost.errors import ErrorCode
from fencepost.wire.codec import Message
from tests.simulation.clients import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    MEMBERS_GROUP,
    OFFSET_COMMIT,
    PARTITIONS,
    RETRIABLE,
    SYNC_GROUP,
    TOPIC,
    Client,
    Refused,
    offset_code,
)

SESSION_MS = 1_500


class Ownership:
    """Who was told to own what, and what was committed in which generation."""

    def __init__(self) -> None:
        self._owners: dict[tuple[int, int], str] = {}  # (generation, partition) to member id
        self._leaders: dict[int, str] = {}
        self.committed: dict[int, int] = {}  #: partition to the newest generation that was acknowledged a commit
        self._violations: list[str] = []

    def owns(self, joined: Message, partitions: bytes) -> None:
        """A generation counts once its partitions are given out. Until then a crash may forget it, as Kafka's do."""
        generation, member_id = joined.generation_id, joined.member_id
        leader = self._leaders.setdefault(generation, joined.leader)
        if leader != joined.leader:
            self._violations.append(f"generation {generation} has two leaders: {leader}, {joined.leader}")
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member_id)
            if owner != member_id:
                self._violations.append(
                    f"partition {partition} has two owners in generation {generation}: {owner}, {member_id}"
                )

    def violations(self, remains: dict[int, int]) -> Iterator[str]:
        """`remains` has the generations of the offsets that are there at the end, by partition."""
        yield from self._violations
        for partition, generation in self.committed.items():
            if remains.get(partition, -1) < generation:
                yield (
                    f"the offset of partition {partition} was committed in generation {generation}, "
                    f"there is one of generation {remains.get(partition)}"
                )


class Member:
    def __init__(self, client: Client, ownership: Ownership) -> None:
        self._client = client
        self._ownership = ownership
        self._rng = client.rng
        self._id = ""
        self._generation = -1

    async def run(self) -> None:
        name, notes = self._client.name, self._client.notes
        await self._client.pause(3_000)
        for _ in range(self._rng.randint(1, 4)):
            try:
                owned = await self._join()
                notes.add(name, f"owns {list(owned)} in generation {self._generation}")
                await self._work(owned)
            except Refused as refusal:
                notes.add(name, f"is told {refusal.code.name}")
                if refusal.code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self._id = ""
        if self._rng.random() < 0.5 and self._id:
            leaver = {"member_id": self._id}
            await self._client.ask(LEAVE_GROUP, {"group_id": MEMBERS_GROUP, "members": [leaver]})
        self._client.hang_up()

    async def _join(self) -> bytes:
        """The partitions of this member in the generation that it is now part of."""
        while True:
            protocol = {"name": "range", "metadata": b""}
            fields = {
                "group_id": MEMBERS_GROUP, "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS,
                "member_id": self._id, "protocol_type": "consumer", "protocols": [protocol],
            }  # fmt: skip
            joined = await self._client.ask(JOIN_GROUP, fields)
            if joined.error_code == ErrorCode.NONE:
                break
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._id = joined.member_id
            elif joined.error_code not in RETRIABLE:
                raise Refused(joined.error_code)
        self._id, self._generation = joined.member_id, joined.generation_id
        ids = [member.member_id for member in joined.members]
        shares = {one: bytes(range(index, PARTITIONS, len(ids))) for index, one in enumerate(ids)}
        synced = await self._client.ask_until(
            SYNC_GROUP,
            {
                **self._who(),
                "generation_id": self._generation,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [{"member_id": one, "assignment": share} for one, share in shares.items()],
            },
        )
        self._ownership.owns(joined, synced.assignment)
        return bytes(synced.assignment)

    async def _work(self, owned: bytes) -> None:
        for offset in range(self._rng.randint(1, 4)):
            for partition in owned:
                await self._commit(partition, offset)
            await self._client.pause(800)
            await self._client.ask_until(HEARTBEAT, {**self._who(), "generation_id": self._generation})

    async def _commit(self, partition: int, offset: int) -> None:
        topics = offset_topics({(TOPIC, partition): offset}, str(self._generation))
        fields = {**self._who(), "generation_id_or_member_epoch": self._generation, "topics": topics}
        await self._client.ask_until(OFFSET_COMMIT, fields, offset_code)
        newest = self._ownership.committed.get(partition, -1)
        self._ownership.committed[partition] = max(newest, self._generation)

    def _who(self) -> dict[str, str]:
        return {"group_id": MEMBERS_GROUP, "member_id": self._id}
