"""Who may do what to a group: the fencing rules. Pure functions of a group and a request that give an error code.

Three things fence a member. Its id, which the coordinator made and forgets when the member is gone (UNKNOWN_MEMBER_ID);
its instance id, whose latest holder has it (FENCED_INSTANCE_ID); its generation (ILLEGAL_GENERATION). The checks are in
that order, because a client starts anew on the first, gives up on the second and only joins again on the third.
"""

from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.requests import Identity, Leaver, SyncRequest
from fencepost.coordinator.group.states import State
from fencepost.errors import ErrorCode


def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    if instance_id is not None:
        holder = group.instances.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def check_generation(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    error = check_member(group, member_id, instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def check_heartbeat(group: Group | None, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """REBALANCE_IN_PROGRESS is not a failure: the heartbeat counts, and tells the member to join again."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(group, member_id, instance_id, generation)
    if error is ErrorCode.NONE and group.state is State.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def check_sync(group: Group | None, request: SyncRequest) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(group, request.member_id, request.instance_id, request.generation)
    if error is not ErrorCode.NONE:
        return error
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE


def check_leave(group: Group, leaver: Leaver) -> ErrorCode:
    """An administrator removes a static member by its instance id alone."""
    if not leaver.member_id:
        known = leaver.instance_id is not None and leaver.instance_id in group.instances
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID
    if leaver.member_id in group.pending_joins:
        return ErrorCode.NONE
    return check_member(group, leaver.member_id, leaver.instance_id)


def check_commit(group: Group | None, who: Identity, *, knows_missing_group: bool) -> ErrorCode:
    """A plain offset commit. `knows_missing_group`: OffsetCommit v9+ has a code for a group that is not there."""
    if group is None:
        if who.generation < 0:
            return ErrorCode.NONE  # a consumer without group management, or an administrator, makes the group
        return ErrorCode.GROUP_ID_NOT_FOUND if knows_missing_group else ErrorCode.ILLEGAL_GENERATION
    if who.generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if who.generation < 0 and not who.member_id and who.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID  # the group has members: nobody else may move its offsets
    error = check_generation(group, who.member_id, who.instance_id, who.generation)
    if error is ErrorCode.NONE and group.state is State.COMPLETING:
        # It knows the new generation but not yet what it was assigned: what it commits may be somebody else's.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def check_txn_commit(group: Group | None, who: Identity) -> ErrorCode:
    """KIP-447: fenced by generation where the producer names one. Producers that do not are fenced by their epoch
    alone, and may commit whatever state the group is in."""
    if group is None:
        return ErrorCode.NONE if who.generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if who.generation < 0 and (group.state is State.EMPTY or not (who.member_id or who.instance_id is not None)):
        return ErrorCode.NONE
    return check_generation(group, who.member_id, who.instance_id, who.generation)


def check_delete_group(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP


def check_delete_offsets(group: Group | None) -> ErrorCode:
    """A group with members can lose offsets only where it is known which topics they read."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not State.EMPTY and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _differ(asked: str | None, present: str | None) -> bool:
    return asked is not None and present is not None and asked != present
