"""JoinGroup (11): join a group, or its next generation. Answered when that generation begins.

Version 1 brought the rebalance timeout, which was the session timeout before. From version 4 on a member gets its id
before it joins (KIP-394). Version 5 brought static members (KIP-345). In version 9 a static leader that is back is told
that there is nothing to assign (KIP-814). If a client goes away while it waits, its request is cancelled.
"""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, OnDisconnect, Response, handler
from fencepost.coordinator.group.requests import Joined, JoinRequest, MemberIdRequired, Protocol
from fencepost.errors import ErrorCode, KafkaError

FIRST_WITH_REBALANCE_TIMEOUT = 1
FIRST_WITH_GIVEN_IDS = 4
FIRST_WITH_NULL_PROTOCOL = 7
FIRST_WITH_SKIPPED_ASSIGNMENT = 9


@handler(11, versions=(0, 9), on_disconnect=OnDisconnect.CANCEL)
async def join_group(call: Call) -> Response:
    if not call.may(Operation.READ, Resource.GROUP, call.request.group_id):
        return _answer(Joined(member_id=""), call.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        joined = await call.broker.groups.join(_request(call))
    except MemberIdRequired as error:
        return _answer(Joined(member_id=error.member_id), call.version, error.code)
    except KafkaError as error:
        is_out = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
        return _answer(Joined(member_id="" if is_out else call.request.member_id), call.version, error.code)
    return _answer(joined, call.version)


def _request(call: Call) -> JoinRequest:
    request, version = call.request, call.version
    has_rebalance_timeout = version >= FIRST_WITH_REBALANCE_TIMEOUT
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=call.session.host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        reason=request.reason,
        needs_member_id=version >= FIRST_WITH_GIVEN_IDS,
        skips_assignment=version >= FIRST_WITH_SKIPPED_ASSIGNMENT,
    )


def _answer(joined: Joined, version: int, error: ErrorCode = ErrorCode.NONE) -> Response:
    return {
        "error_code": error,
        "generation_id": joined.generation,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol if version >= FIRST_WITH_NULL_PROTOCOL else joined.protocol or "",
        "leader": joined.leader,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": [
            {"member_id": member.member_id, "group_instance_id": member.instance_id, "metadata": member.metadata}
            for member in joined.members
        ],
    }
