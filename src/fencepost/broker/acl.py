"""What an access control list is made of: resources, operations, single ACLs, and filters that select some of them.

Everything is numbered as in Kafka's protocol. Nothing here decides a request: that is `authorizer`.
"""

import enum
import functools
import ipaddress
from typing import Any, NamedTuple

from fencepost.broker.principals import Principal
from fencepost.errors import ErrorCode, KafkaError, Malformed

ANYTHING = "*"  #: a literal name that stands for all names, and a host that stands for all hosts
EVERYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"  #: the only name that the resource CLUSTER has


class Resource(enum.IntEnum):
    ANY = 1  #: in filters only
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(enum.IntEnum):
    ANY = 1  #: in filters only
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Pattern(enum.IntEnum):
    """How the name of an ACL is compared with the name of a resource."""

    ANY = 1  #: in filters only: any kind of pattern with exactly this name
    MATCH = 2  #: in filters only: every pattern that applies to a resource of this name
    LITERAL = 3
    PREFIXED = 4


class Permission(enum.IntEnum):
    ANY = 1  #: in filters only
    DENY = 2
    ALLOW = 3


_REFUSALS = {
    Resource.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    Resource.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    Resource.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    Resource.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed."),
}  # fmt: skip


def refusal(resource: Resource) -> KafkaError:
    """What tells a client which kind of right it lacks."""
    return KafkaError(*_REFUSALS[resource])


#: What can be done to a resource at all.
SUPPORTED = {
    Resource.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip

#: Being allowed one of these is being allowed the key. A denial implies nothing.
IMPLIED_BY = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


#: A bit field that was not asked for.
NOT_ASKED = -(2**31)


@functools.lru_cache(maxsize=1024)
def same_form(host: str) -> str:
    """An address in one form. IPv6 has several, and an IPv4 client of an IPv6 socket shows up as ::ffff:1.2.3.4."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


class Acl(NamedTuple):
    resource: Resource
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def applies_to(self, name: str) -> bool:
        """Whether this is about the resource of that name."""
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANYTHING)

    def concerns(self, principal: Principal, host: str, operation: Operation) -> bool:
        """Whether this allows or denies that somebody does something to the resources that it applies to."""
        return (
            self.principal in (EVERYBODY, str(principal))
            and (self.host == ANYTHING or same_form(self.host) == same_form(host))
            and (
                self.operation in (operation, Operation.ALL)
                or (self.permission is Permission.ALLOW and self.operation in IMPLIED_BY.get(operation, ()))
            )
        )

    def fields(self) -> dict[str, Any]:
        """As the catalogue keeps it."""
        return {key: value.name if isinstance(value, enum.Enum) else value for key, value in self._asdict().items()}

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> "Acl":
        """Raises Malformed for what a newer version may have written."""
        try:
            return cls(
                Resource[fields["resource"]],
                fields["name"],
                Pattern[fields["pattern"]],
                fields["principal"],
                fields["host"],
                Operation[fields["operation"]],
                Permission[fields["permission"]],
            )
        except KeyError as error:
            raise Malformed(f"an ACL with {error} is not known here: was it written by a newer version?") from None


class AclFilter(NamedTuple):
    """Selects ACLs. None and ANY let everything through."""

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def lets_through(self, acl: Acl) -> bool:
        return (
            self.resource in (Resource.ANY, acl.resource)
            and self.pattern in (Pattern.ANY, Pattern.MATCH, acl.pattern)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and (self.name is None or self._fits_name(acl, self.name))
        )

    def _fits_name(self, acl: Acl, name: str) -> bool:
        return acl.applies_to(name) if self.pattern is Pattern.MATCH else acl.name == name
