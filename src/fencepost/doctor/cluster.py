"""What a cluster tells of itself that exactly-once depends on. Only asks; `judging` decides what it means.

What we may not see is None, and `hidden` has the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.client.admin import check_may_write
from fencepost.client.cluster import Cluster, TopicMetadata
from fencepost.client.configs import Of, describe_configs
from fencepost.client.registration import TRANSACTION_VERSION
from fencepost.client.rights import Right
from fencepost.errors import ClientError, ConnectionLost, NotAuthorized
from fencepost.wire.terms import CONSUMER_OFFSETS, TRANSACTION_STATE

LEDGER = "fencepost.ledger"
#: The topics that transactions depend on, and the setting that says how often each is replicated when it is created.
INTERNAL = {
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
}
MIN_INSYNC = "min.insync.replicas"
SETTINGS = (
    *INTERNAL.values(),
    "transaction.state.log.min.isr",
    "transaction.max.timeout.ms",
    "transactional.id.expiration.ms",
    "offsets.retention.minutes",
    "unclean.leader.election.enable",
    "transaction.partition.verification.enable",
)

#: What stands between a right that is missing and the command that grants it.
GRANT = " This grants it: "


@dataclass(frozen=True, slots=True)
class TopicFacts:
    metadata: TopicMetadata | None  #: None if it does not exist
    min_insync: int | None = None
    grant_write: str = ""  #: the command that grants the right to write, if we lack it


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    bootstrap: str
    brokers: Mapping[int, str]  #: address by id
    unreachable: Mapping[int, str]  #: the reason by id
    transaction_version: int | None  #: None if the cluster has no such feature
    settings: Mapping[str, str | None] | None  #: of one broker; None if we may not see them
    topics: Mapping[str, TopicFacts]
    hidden: Sequence[str] = field(default=())  #: rights that we lack, each with the command that grants it


def look(cluster: Cluster, topics: Sequence[str]) -> ClusterFacts:
    """`topics` are the outputs of pipelines."""
    hidden: list[str] = []
    cluster.refresh([])
    nodes = cluster.nodes()
    unreachable = {}
    for node, address in nodes.items():
        try:
            cluster.connect(address)
        except ConnectionLost as error:
            unreachable[node] = str(error).removeprefix(f"{address}: ")
    reachable = [node for node in nodes if node not in unreachable]
    return ClusterFacts(
        str(cluster.settings.bootstrap[0]),
        {node: str(address) for node, address in nodes.items()},
        unreachable,
        cluster.features.get(TRANSACTION_VERSION),
        _settings(cluster, reachable, hidden),
        {name: _topic(cluster, name, hidden) for name in (*INTERNAL, LEDGER, *topics)},
        hidden,
    )


def _settings(cluster: Cluster, nodes: Sequence[int], hidden: list[str]) -> dict[str, str | None] | None:
    for node in nodes[:1]:
        try:
            found = describe_configs(cluster, Of.BROKER, str(node), SETTINGS)
        except ClientError as error:
            hidden.append(f"settings of brokers: {error}")
            return None
        return {name: config.value for name, config in found.items()}
    return None


def _topic(cluster: Cluster, name: str, hidden: list[str]) -> TopicFacts:
    try:
        found = cluster.refresh([name], missing_ok=True).get(name)
    except NotAuthorized as error:
        hidden.append(str(error))
        return TopicFacts(None)
    if found is None:
        return TopicFacts(None)
    min_insync = None
    try:
        config = describe_configs(cluster, Of.TOPIC, name, [MIN_INSYNC]).get(MIN_INSYNC)
        min_insync = int(config.value) if config is not None and config.value else None
    except ClientError as error:
        hidden.append(str(error))
    return TopicFacts(found, min_insync, _grant_write(cluster, name))


def _grant_write(cluster: Cluster, name: str) -> str:
    """The command that grants the right to write; none if we have it, or the broker does not say."""
    try:
        check_may_write(cluster, name)
    except NotAuthorized as error:
        return error.right.command if isinstance(error.right, Right) else str(error)
    return ""
