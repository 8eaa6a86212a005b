"""What members ask of the coordinator and what they are told, as values without versions: the handlers translate."""

from dataclasses import dataclass, field

from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import TopicPartition

#: A member that has no id yet sends this one.
UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Protocol:
    """A way of assigning partitions that a member knows, and what it wants to tell the leader under it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str | None = None
    needs_member_id: bool = True  #: KIP-394, JoinGroup v4+: a member is given its id before it counts as one
    skips_assignment: bool = True  #: KIP-814, JoinGroup v9+: a returning static leader can be told not to assign


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as its leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a join. The defaults are those of a refusal."""

    member_id: str = UNKNOWN_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class MemberIdRequired(KafkaError):
    """KIP-394: the client is to join again with the id that it is given here."""

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.MEMBER_ID_REQUIRED)
        self.member_id = member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Leaver:
    """A member to be removed. An administrator names a static member by its instance id alone."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who commits offsets. The defaults are those of a consumer that assigns its partitions itself."""

    member_id: str = UNKNOWN_MEMBER_ID
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    where: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """What is committed for a partition; offset -1 when nothing is."""

    where: TopicPartition
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Described:
    """A group as DescribeGroups shows it; protocol and metadata only while it is stable."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
