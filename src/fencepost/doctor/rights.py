"""Which rights a pipeline needs on a cluster, and which of them we have. Only asks; changes nothing.

docs/security.md lists the rights, under "Least rights", and says what each is for.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.client.naming import transactional_id_of
from fencepost.client.probes import has_right, topic_operations
from fencepost.client.rights import Operation, Resource, Right, right_on
from fencepost.errors import ClientError, NotAuthorized

READ, WRITE, CREATE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE


class Held(enum.Enum):
    YES = enum.auto()
    NO = enum.auto()
    UNSEEN = enum.auto()  #: the protocol does not tell


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pipeline as its user describes it, or a part of one."""

    outputs: Sequence[str] = ()
    sources: Sequence[str] = ()
    pipeline: str | None = None
    changelogs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RightFacts:
    right: Right
    held: Held
    what_for: str
    remark: str = ""  #: what else there is to say
    remedy: str = ""

    @property
    def subject(self) -> str:
        return f"{self.right.resource.replace('-', ' ')} {self.right.name}"


def of_pipeline(cluster: Cluster, pipeline: str) -> Iterator[RightFacts]:
    """On what has the pipeline's name, without topics."""
    group, transactional_id = (Resource.GROUP, pipeline), (Resource.TRANSACTIONAL_ID, transactional_id_of(pipeline))
    yield _of_name(cluster, *transactional_id, WRITE, "its transactions")
    yield _of_name(cluster, *group, READ, "its committed offsets")


def _of_name(cluster: Cluster, resource: Resource, name: str, operation: Operation, what_for: str) -> RightFacts:
    """`operation` includes Describe, unless an ACL denies that: then nobody finds the coordinator."""
    right = right_on(cluster.settings, resource, name, operation)
    try:
        if not has_right(cluster, operation, resource, name):
            return RightFacts(right, Held.NO, what_for, remedy=right.command)
        if not has_right(cluster, DESCRIBE, resource, name):
            denied = right_on(cluster.settings, resource, name, DESCRIBE)
            remark = f"you have {operation}, which includes it, but an ACL denies it; find and remove that one"
            return RightFacts(denied, Held.NO, what_for, remark, right.listing)
    except ClientError as error:
        return RightFacts(right, Held.UNSEEN, what_for, f"the broker does not tell: {error}", right.listing)
    return RightFacts(right, Held.YES, what_for)


def on_topic(cluster: Cluster, name: str, what_for: str, *operations: Operation) -> RightFacts:
    """On a topic that exists, or that we may not see."""
    found = topic_operations(cluster, name)
    wanted = right_on(cluster.settings, Resource.TOPIC, name, *operations)
    if found is None:
        return RightFacts(wanted, Held.UNSEEN, what_for, "brokers before Kafka 2.3 do not tell", wanted.listing)
    missing = [operation for operation in operations if operation not in found]
    if not missing:
        return RightFacts(wanted, Held.YES, what_for)
    lacked = right_on(cluster.settings, Resource.TOPIC, name, *missing)
    return RightFacts(lacked, Held.NO, what_for, remedy=lacked.command)


def on_missing(cluster: Cluster, name: str, what_for: str) -> RightFacts:
    """On a topic that the pipeline creates when it first needs it."""
    settings = cluster.settings
    use = right_on(settings, Resource.TOPIC, name, READ, WRITE)
    try:
        create_topics(cluster, {name: NewTopic()}, validate_only=True)
    except NotAuthorized:
        lacked = right_on(settings, Resource.TOPIC, name, CREATE)
        remark = "it does not exist. Grant it with Read and Write, or create the topic: docs/security.md"
        remedy = right_on(settings, Resource.TOPIC, name, READ, WRITE, CREATE).command
        return RightFacts(lacked, Held.NO, what_for, remark, remedy)
    except ClientError as error:
        return RightFacts(use, Held.UNSEEN, what_for, f"it does not exist, and cannot be created: {error}", use.command)
    remark = "cannot be seen without creating the topic, which you may. If it turns out to be missing, grant it"
    return RightFacts(use, Held.UNSEEN, what_for, remark, use.command)
