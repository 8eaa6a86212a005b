"""Whether we have a right, found out without changing anything.

Rights on a topic are in its metadata (KIP-430). The protocol has no such answer for transactional ids, and has one for
groups only from their coordinator; to look for a coordinator creates the coordinators' topic where it is missing. So
for these a request is sent that needs the right, on behalf of a producer or a member that no cluster has. Every broker
checks the right first, whether it is the coordinator or not: a denial says that the right is missing, any refusal of
the producer or the member says that it is there.

Invariant: nothing here changes a cluster, or disturbs a producer or a group that uses the name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.fields import producer_fields
from fencepost.client.retry import known_code
from fencepost.client.rights import Operation, Resource, is_denial
from fencepost.errors import ErrorCode, Refused, Unsupported
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from fencepost.wire.codec import Message

PRODUCE, METADATA, HEARTBEAT, DESCRIBE_GROUPS, END_TXN, DESCRIBE_ACLS, DESCRIBE_TRANSACTIONS = 0, 3, 12, 15, 26, 29, 65
FIRST_WITH_OPERATIONS = 8
OPERATIONS_UNKNOWN = -(2**31)
#: Bits of authorized operations.
ALL_BIT = 1 << 2
BITS = {
    Operation.READ: 1 << 3,
    Operation.WRITE: 1 << 4,
    Operation.CREATE: 1 << 5,
    Operation.DESCRIBE: 1 << 8,
    Operation.DESCRIBE_CONFIGS: 1 << 10,
}
#: No group gives a member such an id.
NO_MEMBER, NO_GENERATION = "fencepost-probe", -1
#: A filter of DescribeAcls that nothing fits in: the numbers are Kafka's.
NO_ACLS = {
    "resource_type_filter": 2,
    "resource_name_filter": "fencepost-probe",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
#: Answers of a broker that has checked the right, and has nothing to act on.
CHECKED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)


@dataclass(frozen=True, slots=True)
class _Probe:
    api_key: int
    fields: Callable[[str], dict[str, Any]]
    code_of: Callable[[Message], int] = lambda answer: int(answer.error_code)


_PROBES = {
    (Resource.TRANSACTIONAL_ID, Operation.WRITE): _Probe(
        END_TXN, lambda name: {**producer_fields(name, NO_PRODUCER_ID, NO_PRODUCER_EPOCH), "committed": False}
    ),
    (Resource.TRANSACTIONAL_ID, Operation.DESCRIBE): _Probe(
        DESCRIBE_TRANSACTIONS,
        lambda name: {"transactional_ids": [name]},
        lambda answer: int(answer.transaction_states[0].error_code),
    ),
    (Resource.GROUP, Operation.READ): _Probe(
        HEARTBEAT, lambda name: {"group_id": name, "generation_id": NO_GENERATION, "member_id": NO_MEMBER}
    ),
    (Resource.GROUP, Operation.DESCRIBE): _Probe(
        DESCRIBE_GROUPS, lambda name: {"groups": [name]}, lambda answer: int(answer.groups[0].error_code)
    ),
}


def has_right(cluster: Cluster, operation: Operation, resource: Resource, name: str) -> bool:
    """On a group or a transactional id. Raises Refused or Unsupported if the answer does not tell."""
    probe = _PROBES[resource, operation]
    what = f"right {operation} on {resource.replace('-', ' ')} {name!r}"
    code = known_code(probe.code_of(cluster.call(what, probe.api_key, probe.fields(name))))
    if code not in CHECKED and not is_denial(code):
        raise Refused(code, what)
    return code in CHECKED


def topic_operations(cluster: Cluster, name: str) -> frozenset[Operation] | None:
    """What we may do with a topic that exists; None if the broker does not say (before Kafka 2.3).

    Nothing, if we may not even see it.
    """
    fields = {
        "topics": [{"name": name}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }
    try:
        answer = cluster.call(f"rights on {name!r}", METADATA, fields, lowest=FIRST_WITH_OPERATIONS)
    except Unsupported:
        return None
    (topic,) = answer.topics
    if is_denial(known_code(topic.error_code)):
        return frozenset()
    if topic.topic_authorized_operations == OPERATIONS_UNKNOWN:
        return None
    found = int(topic.topic_authorized_operations)
    return frozenset(operation for operation, bit in BITS.items() if found & (ALL_BIT | bit))


def check_may_write(cluster: Cluster, name: str) -> None:
    """Raises NotAuthorized if we may see the topic and not write to it."""
    found = topic_operations(cluster, name)
    if found is not None and Operation.WRITE not in found:
        raise cluster.refusal(PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, f"topic {name!r}")


def has_authorizer(cluster: Cluster) -> bool:
    """Without one, whoever is let in may do everything. A broker that does not say counts as one that has it."""
    try:
        answer = cluster.call("access control", DESCRIBE_ACLS, NO_ACLS)
    except Unsupported:
        return True
    return known_code(answer.error_code) is not ErrorCode.SECURITY_DISABLED
