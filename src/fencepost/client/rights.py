"""A right that is missing: who lacks which one, and the command that grants it.

Owns the way from a request and the code of its refusal to the right that Kafka asked for. Every place of the client
that gets such a code raises what `refusal` makes of it. Nothing is retried: somebody has to grant the right first.

Kafka refuses to describe a topic to those who may not even do that. Then the missing right is what the topic is wanted
for, because reading and writing include describing. `wanted` says it.
"""

import contextlib
import enum
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fencepost.client.identity import MADE_UP_IDS
from fencepost.client.settings import ClientSettings
from fencepost.errors import ClientError, ErrorCode, FencepostError, NotAuthorized, Refused
from fencepost.security import scram
from fencepost.security.names import Protocol
from fencepost.wire import messages


class Operation(enum.StrEnum):
    """As `kafka-acls --operation` spells them."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


class Resource(enum.StrEnum):
    """As `kafka-acls` spells them."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


_RESOURCES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Resource.TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Resource.GROUP,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Resource.TRANSACTIONAL_ID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Resource.CLUSTER,
}
#: What a request asks of a topic, if not DESCRIBE.
_OF_TOPICS = {
    "produce": Operation.WRITE,
    "add_partitions_to_txn": Operation.WRITE,
    "fetch": Operation.READ,
    "describe_producers": Operation.READ,
    "offset_commit": Operation.READ,
    "txn_offset_commit": Operation.READ,
    "create_topics": Operation.CREATE,
    "delete_topics": Operation.DELETE,
    "describe_configs": Operation.DESCRIBE_CONFIGS,
    "incremental_alter_configs": Operation.ALTER_CONFIGS,
    "create_partitions": Operation.ALTER,
}
#: What a request asks of others, if not what follows.
_OF_REQUESTS = {
    ("describe_transactions", Resource.TRANSACTIONAL_ID): Operation.DESCRIBE,
    ("delete_groups", Resource.GROUP): Operation.DELETE,
    ("describe_groups", Resource.GROUP): Operation.DESCRIBE,
    ("list_groups", Resource.CLUSTER): Operation.DESCRIBE,
    ("describe_configs", Resource.CLUSTER): Operation.DESCRIBE_CONFIGS,
    ("init_producer_id", Resource.CLUSTER): Operation.IDEMPOTENT_WRITE,
    ("write_txn_markers", Resource.CLUSTER): Operation.ALTER,
}
#: Of the others. Looking for a coordinator takes less, but who looks for one goes on with this.
_OF_OTHERS = {
    Resource.GROUP: Operation.READ,
    Resource.TRANSACTIONAL_ID: Operation.WRITE,
    Resource.CLUSTER: Operation.CREATE,
}
#: Stands for a principal that only the broker knows, made from a certificate, a token or a ticket.
SOMEBODY = "User:NAME"


@dataclass(frozen=True, slots=True)
class Right:
    principal: str
    operations: tuple[Operation, ...]
    resource: Resource
    name: str
    code: ErrorCode
    server: str
    is_secured: bool

    def __str__(self) -> str:
        who = "your principal" if self.principal == SOMEBODY else self.principal
        rights = " and ".join(self.operations)
        what = (
            "the cluster" if self.resource is Resource.CLUSTER else f"{self.resource.replace('-', ' ')} {self.name!r}"
        )
        return f"{who} lacks the right {rights} on {what} ({self.code.name}). This grants it: {self.command}"

    @property
    def _acls(self) -> list[str]:
        """For an administrator. FILE has the settings of one."""
        config = ["--command-config", "FILE"] if self.is_secured else []
        return ["kafka-acls", "--bootstrap-server", self.server, *config]

    @property
    def listing(self) -> str:
        """The command that shows every ACL about the resource, denials and patterns included."""
        named = [f"--{self.resource}"] if self.resource is Resource.CLUSTER else [f"--{self.resource}", self.name]
        return shlex.join([*self._acls, "--list", "--resource-pattern-type", "match", *named])

    @property
    def command(self) -> str:
        """The command that grants it."""
        words = [*self._acls, "--add", "--allow-principal", self.principal]
        for operation in self.operations:
            words += ["--operation", operation]
        if self.resource is Resource.TRANSACTIONAL_ID and self.name.startswith(MADE_UP_IDS):
            words += ["--resource-pattern-type", "prefixed", f"--{self.resource}", MADE_UP_IDS]
        elif self.resource is Resource.CLUSTER:
            words.append(f"--{self.resource}")
        else:
            words += [f"--{self.resource}", self.name]
        return shlex.join(words)


def refusal(settings: ClientSettings, api_key: int, code: ErrorCode, name: str, otherwise: str) -> ClientError:
    """The error for an answer with `code`, about the resource `name`. `otherwise` is for codes of other kinds."""
    resource = _RESOURCES.get(code)
    if resource is None:
        return Refused(code, otherwise)
    request = messages.api_names()[api_key]
    if resource is Resource.TOPIC:
        operation = _OF_TOPICS.get(request, Operation.DESCRIBE)
    else:
        operation = _OF_REQUESTS.get((request, resource), _OF_OTHERS[resource])
    return _denied(right_on(settings, resource, name, operation))


def right_on(settings: ClientSettings, resource: Resource, name: str, *operations: Operation) -> Right:
    """Of whoever these settings log in."""
    (code,) = (code for code, refused in _RESOURCES.items() if refused is resource)
    is_secured = settings.security.protocol is not Protocol.PLAINTEXT
    return Right(_principal(settings), operations, resource, name, code, str(settings.bootstrap[0]), is_secured)


def is_denial(code: ErrorCode) -> bool:
    return code in _RESOURCES


@contextlib.contextmanager
def wanted(*operations: Operation) -> Iterator[None]:
    """Topics are looked at in the block for the sake of these."""
    try:
        yield
    except NotAuthorized as error:
        right = error.right
        if not isinstance(right, Right) or (right.resource, right.operations) != (
            Resource.TOPIC,
            (Operation.DESCRIBE,),
        ):
            raise
        raise _denied(replace(right, operations=operations)) from None


def _denied(right: Right) -> NotAuthorized:
    error = NotAuthorized(str(right))
    error.right = right
    return error


def _principal(settings: ClientSettings) -> str:
    security = settings.security
    if security.protocol is Protocol.PLAINTEXT:
        return "User:ANONYMOUS"
    if not security.protocol.uses_sasl or security.mechanism not in ("PLAIN", *scram.BY_NAME):
        return SOMEBODY
    try:
        return f"User:{security.user_and_password()[0]}"
    except FencepostError:  # a reference that cannot be resolved any more
        return SOMEBODY
