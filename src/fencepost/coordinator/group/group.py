"""One group: its members, generation and protocol, and the only functions that change them.

A group has a recorded part (generation, protocol, members with their assignments), which `adopt` takes from the log,
live and on restart alike, and a part about the rebalance under way, which lives in memory alone. Nothing here waits,
looks at a clock or writes: `rebalance.py` does, and calls these.

Invariants: the state moves by the table in `states.py` only; `instances` and `members` agree; the leader, if there is
one, is a member; all members share a protocol type and at least one protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fencepost.coordinator.group.members import (
    CONSUMER_PROTOCOL_TYPE,
    NO_ASSIGNMENT,
    Member,
    choose_protocol,
    common_protocols,
    topics_of,
)
from fencepost.coordinator.group.records import NO_TIMESTAMP, GroupRecord
from fencepost.coordinator.group.requests import (
    Described,
    DescribedMember,
    Joined,
    JoinedMember,
    Protocol,
    Synced,
)
from fencepost.coordinator.group.states import Event, State, move
from fencepost.errors import ErrorCode, InvariantBroken


@dataclass(slots=True, eq=False)
class Group:
    group_id: str
    state: State = State.EMPTY
    state_ms: int = NO_TIMESTAMP
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)  #: group.instance.id to member id
    is_recorded: bool = False  #: the log says something about it, so a tombstone has to take it away
    subscribed_topics: frozenset[str] | None = None  #: None when the subscriptions cannot be read
    #: Ids that were handed out and not used yet (KIP-394). A rebalance waits for them like for members.
    pending_joins: set[str] = field(default_factory=set)
    #: Members of this generation that have not asked for their assignment yet.
    pending_syncs: set[str] = field(default_factory=set)

    # -- questions

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def joined_count(self) -> int:
        return sum(member.has_joined for member in self.members.values())

    @property
    def has_everyone_joined(self) -> bool:
        return not self.pending_joins and all(member.has_joined for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Sequence[Protocol]) -> bool:
        """Whether a client with these protocols can join the present members."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type or not protocols:
            return False
        if not self.members:
            return True
        common = common_protocols(member.protocols for member in self.members.values())
        return any(protocol.name in common for protocol in protocols)

    def is_subscribed_to(self, topic: str) -> bool:
        """A consumer group whose subscriptions cannot be read counts as subscribed to everything."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def would_choose(self, replaced_id: str, protocols: tuple[Protocol, ...]) -> str:
        """The protocol of the next generation if the member `replaced_id` knew `protocols` instead."""
        return choose_protocol(
            [protocols if member.member_id == replaced_id else member.protocols for member in self.members.values()]
        )

    def joined(self, member_id: str, *, skip_assignment: bool = False) -> Joined:
        """What a member is told about the present generation. The leader gets the list of members."""
        members: tuple[JoinedMember, ...] = ()
        if member_id == self.leader:
            members = tuple(
                JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
                for member in self.members.values()
            )
        return Joined(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            skip_assignment=skip_assignment,
            members=members,
        )

    def synced(self, member: Member) -> Synced:
        return Synced(protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment)

    def record(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupRecord:
        """This generation with these assignments, as it is to be written down."""
        if self.protocol is None or self.protocol_type is None:
            raise InvariantBroken(f"group {self.group_id} has no protocol to record")
        members = tuple(
            member.record(self.protocol, assignments.get(member.member_id, NO_ASSIGNMENT))
            for member in self.members.values()
        )
        return GroupRecord(self.protocol_type, self.generation, self.protocol, self.leader, now_ms, members)

    def record_replacing(self, old_id: str, member: Member, now_ms: int) -> GroupRecord:
        """This generation with a static member under its new id, which keeps what the old one was assigned."""
        present = self.record({m.member_id: m.assignment for m in self.members.values()}, now_ms)
        renamed = member.record(self.protocol or "", self.members[old_id].assignment)
        members = tuple(renamed if recorded.member_id == old_id else recorded for recorded in present.members)
        leader = member.member_id if present.leader == old_id else present.leader
        return replace(present, members=members, leader=leader)

    def record_of_nobody(self, now_ms: int) -> GroupRecord:
        """The next generation when it has no members."""
        return GroupRecord(self.protocol_type or "", self.generation + 1, None, None, now_ms, ())

    def described(self) -> Described:
        is_stable = self.state is State.STABLE
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(self.protocol) if is_stable else b"",
                member.assignment,
            )
            for member in self.members.values()
        )
        protocol = (self.protocol or "") if is_stable else ""
        return Described(self.group_id, self.state.value, self.protocol_type or "", protocol, members)

    # -- members come and go

    def expect(self, member_id: str) -> None:
        """An id was handed out: its holder is about to join with it."""
        self.pending_joins.add(member_id)

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.pending_joins.discard(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old_id: str, member: Member) -> None:
        """A static member came back under a new id. A client that still uses the old one is fenced."""
        old = self.members[old_id]
        old.refuse(ErrorCode.FENCED_INSTANCE_ID)
        was_leader = self.leader == old_id
        self.remove(old_id)
        member.assignment = old.assignment
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if was_leader:
            self.leader = member.member_id

    def elect_leader(self) -> bool:
        """Make the leader one that has joined, and preferably one that still listens. False if no member has joined."""
        joined = [member for member in self.members.values() if member.has_joined]
        if not joined:
            return False
        best = min(joined, key=lambda member: (not member.is_listening, member.member_id != self.leader))
        self.leader = best.member_id
        return True

    # -- the generations follow each other

    def begin_rebalance(self, now_ms: int) -> None:
        self._move(Event.REBALANCE, now_ms)
        self.pending_syncs.clear()

    def begin_generation(self, now_ms: int) -> None:
        """Everyone who is a member now is one of the next generation."""
        self._move(Event.JOINED, now_ms)
        self.generation += 1
        self.protocol = choose_protocol([member.protocols for member in self.members.values()])
        self._read_subscriptions()
        self.pending_syncs = set(self.members)

    def note_sync(self, member_id: str) -> None:
        self.pending_syncs.discard(member_id)

    def adopt(self, record: GroupRecord) -> None:
        """Become what a record says: live when it was just written, and on restart when it is replayed."""
        self._move(Event.ASSIGNED if record.members else Event.EMPTIED, record.state_ms)
        self.is_recorded = True
        self.generation = record.generation
        self.protocol_type = record.protocol_type or None
        self.protocol = record.protocol
        self.leader = record.leader
        members: dict[str, Member] = {}
        for recorded in record.members:
            member = self.members.get(recorded.member_id) or Member.recorded(recorded, record.protocol)
            member.assignment = recorded.assignment
            members[member.member_id] = member
        self.members = members
        self.instances = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
        self.pending_syncs &= members.keys()
        self._read_subscriptions()

    def note_commit(self) -> None:
        """An offset of it is in the log."""
        self.is_recorded = True

    def remove_altogether(self) -> None:
        self._move(Event.REMOVED, self.state_ms)

    def _move(self, event: Event, now_ms: int) -> None:
        self.state = move(self.state, event)
        self.state_ms = now_ms

    def _read_subscriptions(self) -> None:
        """Not on the path of requests: once a generation."""
        if not self.uses_consumer_protocol:
            self.subscribed_topics = None
            return
        topics: frozenset[str] = frozenset()
        for member in self.members.values():
            read = topics_of(member.metadata(self.protocol))
            if read is None:
                self.subscribed_topics = None
                return
            topics |= read
        self.subscribed_topics = topics
