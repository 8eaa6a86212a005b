"""One member of a group: what it told us, what it was given, and its requests that wait for an answer.

What survives a restart is in its `MemberRecord`. The rest (waiting requests, whether it joined the coming generation)
is about requests under way, which a restart answers by closing their connections.

Invariant: a waiting request is answered at most once, and a second request of the same member answers the first, so
no request waits for ever.
"""

import asyncio
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.coordinator.group.records import MemberRecord
from fencepost.coordinator.group.requests import Joined, JoinRequest, Protocol, Synced
from fencepost.errors import ErrorCode, InvariantBroken, KafkaError

JoinWaiter = asyncio.Future[Joined]
SyncWaiter = asyncio.Future[Synced]

NO_ASSIGNMENT = b""
CONSUMER_PROTOCOL_TYPE = "consumer"

_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


@dataclass(slots=True, eq=False)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]  #: in the order of its preference
    assignment: bytes = NO_ASSIGNMENT
    is_new: bool = False  #: it has not been part of any generation yet
    knows_its_id: bool = True  #: otherwise its client cannot come back for it
    has_joined: bool = False  #: it is part of the coming generation, whether or not its client still listens
    _join: JoinWaiter | None = None
    _sync: SyncWaiter | None = None

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest) -> "Member":
        return cls(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            is_new=True,
            knows_its_id=request.member_id == member_id,
        )

    @classmethod
    def recorded(cls, record: MemberRecord, protocol: str | None) -> "Member":
        return cls(
            record.member_id,
            record.instance_id,
            record.client_id,
            record.client_host,
            record.rebalance_timeout_ms,
            record.session_timeout_ms,
            (Protocol(protocol or "", record.subscription),),
            record.assignment,
        )

    def record(self, protocol: str, assignment: bytes) -> MemberRecord:
        return MemberRecord(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def update(self, request: JoinRequest) -> None:
        self.protocols = request.protocols
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms

    def metadata(self, protocol: str | None) -> bytes:
        return next((known.metadata for known in self.protocols if known.name == protocol), b"")

    # -- waiting requests

    @property
    def is_listening(self) -> bool:
        """Whether a join of its waits on a connection that is still open."""
        return self._join is not None and not self._join.done()

    @property
    def awaits_sync(self) -> bool:
        return self._sync is not None and not self._sync.done()

    @property
    def is_excused(self) -> bool:
        """A waiting member cannot send heartbeats, so its session does not end. A new member is still removed after a
        while: its client may have gone, and joined again under another id."""
        return not self.is_new and (self.has_joined or self.awaits_sync)

    def waits_with(self, waiter: JoinWaiter) -> bool:
        return self._join is waiter

    def await_join(self, waiter: JoinWaiter | None) -> None:
        if self._join is not None and not self._join.done():
            self._join.set_exception(KafkaError(ErrorCode.REBALANCE_IN_PROGRESS))
        self._join = waiter
        self.has_joined = True

    def await_sync(self, waiter: SyncWaiter) -> None:
        self.refuse_sync(ErrorCode.REBALANCE_IN_PROGRESS)
        self._sync = waiter

    def answer_join(self, answer: Joined) -> None:
        waiter = self._take_join()
        if waiter is not None:
            self.knows_its_id = True
            waiter.set_result(answer)

    def answer_sync(self, answer: Synced) -> bool:
        """Whether a request waited for it."""
        waiter = self._take_sync()
        if waiter is not None:
            waiter.set_result(answer)
        return waiter is not None

    def refuse_sync(self, error: ErrorCode) -> bool:
        """Whether a request waited."""
        waiter = self._take_sync()
        if waiter is not None:
            waiter.set_exception(KafkaError(error))
        return waiter is not None

    def refuse(self, error: ErrorCode) -> None:
        """It is about to be removed: its waiting requests end with this."""
        waiter = self._take_join()
        if waiter is not None:
            waiter.set_exception(KafkaError(error))
        self.refuse_sync(error)

    def _take_join(self) -> JoinWaiter | None:
        waiter, self._join = self._join, None
        self.has_joined = False
        return None if waiter is None or waiter.done() else waiter

    def _take_sync(self) -> SyncWaiter | None:
        waiter, self._sync = self._sync, None
        return None if waiter is None or waiter.done() else waiter


def common_protocols(members: Iterable[Sequence[Protocol]]) -> set[str]:
    """The names that all of these lists have."""
    sets = [{protocol.name for protocol in known} for known in members]
    return set.intersection(*sets) if sets else set()


def choose_protocol(members: Sequence[Sequence[Protocol]]) -> str:
    """The protocol with the most votes: everyone votes for the first of its own that all others know too."""
    candidates = common_protocols(members)
    votes: dict[str, int] = {}
    for known in members:
        choice = next((protocol.name for protocol in known if protocol.name in candidates), None)
        if choice is None:
            raise InvariantBroken("the members of a group have no protocol in common")
        votes[choice] = votes.get(choice, 0) + 1
    if not votes:
        raise InvariantBroken("a group without members has no protocol to choose")
    return max(votes, key=votes.__getitem__)


def topics_of(subscription: bytes) -> frozenset[str] | None:
    """The topics that a member of a consumer group subscribes to; None if these bytes are no subscription.

    This is all that the coordinator reads of what consumers tell each other. A subscription is `version int16, topics
    []string, …`. Every version of the consumer protocol begins like version 0, and the rest is not looked at.
    """
    try:
        version, count = _COUNT.unpack_from(subscription)
        if version < 0 or not 0 <= count <= len(subscription):
            return None
        position = _COUNT.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(subscription, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(subscription):
                return None
            topics.append(subscription[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
