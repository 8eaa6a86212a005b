"""What becomes of a JoinGroup request: one pure function of the group, the request and the limits.

The order of the questions is Kafka's, because each answer makes a client do something else: give up, start with a new
id, come back with the id that it was given, or wait for the rebalance.
"""

from dataclasses import dataclass

from fencepost.coordinator.group.checks import check_member
from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.records import can_hold
from fencepost.coordinator.group.requests import UNKNOWN_MEMBER_ID, JoinRequest
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.group.states import State
from fencepost.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Refuse:
    error: ErrorCode
    member_id: str


@dataclass(frozen=True, slots=True)
class TurnAway:
    """The group is full. Were it a member (the limit was lowered), it is none any more."""


@dataclass(frozen=True, slots=True)
class GiveMemberId:
    """KIP-394: a client that retries without having heard its id would leave a dead member behind each time."""


@dataclass(frozen=True, slots=True)
class Tell:
    """It has missed the answer to its last join: tell it about the present generation again."""


@dataclass(frozen=True, slots=True)
class Admit:
    """A new member. `member_id` is None when it is still to be made up."""

    member_id: str | None


@dataclass(frozen=True, slots=True)
class Rejoin:
    """A member takes part in the rebalance, or asks for one."""


@dataclass(frozen=True, slots=True)
class Replace:
    """KIP-345: a static member came back, without the id it had."""

    old_id: str


Decision = Refuse | TurnAway | GiveMemberId | Tell | Admit | Rejoin | Replace


def decide_join(group: Group | None, request: JoinRequest, settings: GroupSettings) -> Decision:
    shortest_ms, longest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not request.group_id or not can_hold(request.group_id):
        return Refuse(ErrorCode.INVALID_GROUP_ID, request.member_id)
    if not can_hold(request.instance_id or "", request.client_id):
        return Refuse(ErrorCode.INVALID_REQUEST, request.member_id)
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return Refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    if group is None:
        if request.member_id != UNKNOWN_MEMBER_ID:
            return Refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        group = Group(request.group_id)
    if not _has_room(group, request, settings.group_max_size):
        return TurnAway()
    has_names = can_hold(request.protocol_type, *(protocol.name for protocol in request.protocols))
    if not has_names or not group.supports(request.protocol_type, request.protocols):
        return Refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    if request.member_id == UNKNOWN_MEMBER_ID:
        return _decide_unknown(group, request)
    return _decide_known(group, request)


def _has_room(group: Group, request: JoinRequest, limit: int) -> bool:
    if group.state is State.EMPTY:
        return True
    member = group.members.get(request.member_id)
    if member is None and request.instance_id is not None:
        member = group.members.get(group.instances.get(request.instance_id, ""))  # it takes its own old place
    if group.state is State.PREPARING:
        # By those that have joined, not by those that are members: the limit may have been lowered since, and then
        # the last ones to join are the ones to go.
        return (member is not None and member.has_joined) or group.joined_count < limit
    return member is not None or len(group.members) < limit


def _decide_unknown(group: Group, request: JoinRequest) -> Decision:
    if request.instance_id is None:
        return GiveMemberId() if request.needs_member_id else Admit(None)
    holder = group.instances.get(request.instance_id)
    return Admit(None) if holder is None else Replace(holder)


def _decide_known(group: Group, request: JoinRequest) -> Decision:
    member_id = request.member_id
    if member_id in group.pending_joins and request.instance_id is None:
        return Admit(member_id)
    error = check_member(group, member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return Refuse(error, member_id)
    if group.state is State.EMPTY:  # cannot be: an empty group has no members to have passed the check
        return Refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
    if group.state is State.PREPARING or group.members[member_id].protocols != request.protocols:
        return Rejoin()
    if group.state is State.STABLE and member_id == group.leader:
        # The leader asks for a rebalance when something changed that only it sees, such as a topic's partitions.
        return Rejoin()
    return Tell()
