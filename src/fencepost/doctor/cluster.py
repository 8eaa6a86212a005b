"""What a cluster tells of itself that exactly-once depends on. Only asks; `judging` decides what it means.

What we may not see is None, and `hidden` has the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fencepost.client.cluster import Cluster, TopicMetadata
from fencepost.client.configs import Config, Of, describe_configs
from fencepost.client.probes import has_authorizer
from fencepost.client.registration import TRANSACTION_VERSION
from fencepost.doctor import rights
from fencepost.doctor.rights import READ, WRITE, RightFacts, Wanted
from fencepost.errors import ClientError, ConnectionLost, FencepostError, NotAuthorized
from fencepost.spark import ledger
from fencepost.spark.naming import changelog_name
from fencepost.wire.terms import CONSUMER_OFFSETS, TRANSACTION_STATE

LEDGER = ledger.TOPIC
#: The topics that transactions depend on, and the setting that says how often each is replicated when it is created.
INTERNAL = {
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
}
MIN_INSYNC, CLEANUP = "min.insync.replicas", "cleanup.policy"
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
    metadata: TopicMetadata | None  #: None if it does not exist, or is hidden
    min_insync: int | None = None
    cleanup: str = ""  #: how old records are removed; empty if we may not know
    hidden: str = ""  #: why we may not see it


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    bootstrap: str
    brokers: Mapping[int, str]  #: address by id
    unreachable: Mapping[int, str]  #: the reason by id
    transaction_version: int | None  #: None if the cluster has no such feature
    settings: Mapping[str, str | None] | None  #: of one broker; None if we may not see them
    topics: Mapping[str, TopicFacts]
    hidden: Sequence[str] = field(default=())  #: rights that we lack, each with the command that grants it
    rights: Sequence[RightFacts] | None = None  #: of a pipeline; None if the cluster has no authorizer
    wanted: Wanted = field(default_factory=Wanted)

    @property
    def created_later(self) -> frozenset[str]:
        """Topics that a pipeline creates when it first needs them."""
        return frozenset((LEDGER, *self.wanted.changelogs))


def look(cluster: Cluster, wanted: Wanted) -> ClusterFacts:
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
    wanted = _with_last_run(cluster, wanted, hidden)
    needed = dict.fromkeys((LEDGER, *wanted.sources, *wanted.outputs, *wanted.changelogs))
    topics = {name: _topic(cluster, name, hidden) for name in (*INTERNAL, *needed)}
    found = [*_rights(cluster, wanted, topics)] if has_authorizer(cluster) else None
    asked = {each.right.name for each in found or ()}  # the others that we may not see are only noted
    hidden += [each.hidden for name, each in topics.items() if each.hidden and name not in asked]
    return ClusterFacts(
        str(cluster.settings.bootstrap[0]),
        {node: str(address) for node, address in nodes.items()},
        unreachable,
        cluster.features.get(TRANSACTION_VERSION),
        _settings(cluster, reachable, hidden),
        topics,
        hidden,
        found,
        wanted,
    )


def _with_last_run(cluster: Cluster, wanted: Wanted, hidden: list[str]) -> Wanted:
    """With the topics that the pipeline read, and its changelogs, when it last ran."""
    if wanted.pipeline is None:
        return wanted
    try:
        entry = ledger.read_entries(cluster).get(wanted.pipeline)
    except NotAuthorized:
        return wanted  # which is one of the findings
    except ClientError as error:
        entry = error
    if isinstance(entry, FencepostError):
        hidden.append(f"what pipeline {wanted.pipeline!r} reads: {entry}")
    if not isinstance(entry, ledger.LedgerEntry):
        return wanted
    sources = (where.topic for where in entry.offsets)
    changelogs = (changelog_name(wanted.pipeline, step) for step in entry.changelogs)
    return replace(
        wanted,
        sources=[*dict.fromkeys((*wanted.sources, *sorted(sources)))],
        changelogs=[*dict.fromkeys((*wanted.changelogs, *changelogs))],
    )


def _rights(cluster: Cluster, wanted: Wanted, topics: Mapping[str, TopicFacts]) -> Iterator[RightFacts]:
    if wanted.pipeline is not None:
        yield from rights.of_pipeline(cluster, wanted.pipeline)
    needs = [(name, "to read it, and commit its offsets", (READ,)) for name in wanted.sources]
    needs += [(name, "to write to it", (WRITE,)) for name in wanted.outputs]
    created = [(LEDGER, "which batch was committed last")] if wanted.pipeline is not None else []
    created += [(name, "the state of a step") for name in wanted.changelogs]
    for name, what_for, operations in (*needs, *((*each, (READ, WRITE)) for each in created)):
        if topics[name].metadata is not None or topics[name].hidden:
            yield rights.on_topic(cluster, name, what_for, *operations)
        elif (name, what_for) in created:
            yield rights.on_missing(cluster, name, what_for)


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
        return TopicFacts(None, hidden=str(error))
    if found is None:
        return TopicFacts(None)
    configs: dict[str, Config] = {}
    try:
        configs = describe_configs(cluster, Of.TOPIC, name, [MIN_INSYNC, CLEANUP])
    except ClientError as error:
        hidden.append(str(error))
    values = {key: config.value for key, config in configs.items() if config.value}
    return TopicFacts(found, int(values[MIN_INSYNC]) if MIN_INSYNC in values else None, values.get(CLEANUP, ""))
