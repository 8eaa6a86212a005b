"""Topics as the cluster has them: partitions, replicas, ends, sizes, and settings that are not the default."""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.client.admin import sizes_bytes
from fencepost.client.cluster import NO_LEADER, Cluster, PartitionMetadata, TopicMetadata
from fencepost.client.configs import Config, Of, Source, describe_configs
from fencepost.client.offsets import earliest, latest
from fencepost.errors import ConnectionLost, NotAuthorized, Unsupported
from fencepost.wire.terms import Isolation, TopicPartition

#: Where the value of a setting that somebody has chosen for a topic comes from.
OWN = frozenset({Source.TOPIC})


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    where: TopicPartition
    metadata: PartitionMetadata
    begin: int | None = None  #: these three are None without a leader, or the right to ask it
    stable: int | None = None  #: the last stable offset
    end: int | None = None  #: the high watermark
    size_bytes: int | None = None

    @property
    def problem(self) -> str:
        if self.metadata.leader == NO_LEADER:
            return "no leader"
        if len(self.metadata.in_sync) < len(self.metadata.replicas):
            return "replicas out of sync"
        return ""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    metadata: TopicMetadata
    partitions: Sequence[PartitionFacts]
    configs: Sequence[Config] | None  #: those of the topic's own; None if we may not see them

    @property
    def has_problem(self) -> bool:
        return any(each.problem for each in self.partitions)


def list_topics(cluster: Cluster, *, internal: bool) -> list[TopicMetadata]:
    """All that we may see, by name."""
    found = cluster.refresh()
    return [found[name] for name in sorted(found) if internal or not found[name].is_internal]


def problem_of(topic: TopicMetadata) -> str:
    """What is wrong with its partitions, in few words; empty if nothing is."""
    leaderless = sum(each.leader == NO_LEADER for each in topic.partitions.values())
    lagging = sum(len(each.in_sync) < len(each.replicas) for each in topic.partitions.values())
    if leaderless:
        return f"{leaderless} without leader"
    return f"{lagging} with replicas out of sync" if lagging else ""


def describe(cluster: Cluster, name: str) -> TopicFacts:
    """Raises TopicNotFound."""
    topic = cluster.refresh([name])[name]
    led = [TopicPartition(name, index) for index, each in topic.partitions.items() if each.leader != NO_LEADER]
    try:
        begins, stables = earliest(cluster, led), latest(cluster, led, Isolation.READ_COMMITTED)
        ends = latest(cluster, led, Isolation.READ_UNCOMMITTED)
    except NotAuthorized:
        begins, stables, ends = {}, {}, {}
    sizes = _sizes(cluster, led)
    partitions = []
    for index, metadata in topic.partitions.items():
        where = TopicPartition(name, index)
        partitions.append(
            PartitionFacts(where, metadata, begins.get(where), stables.get(where), ends.get(where), sizes.get(where))
        )
    return TopicFacts(topic, partitions, _own_configs(cluster, name))


def configs_of(cluster: Cluster, name: str, *, every: bool) -> list[Config]:
    """By name: all, or those that the topic has of its own. Raises TopicNotFound."""
    found = describe_configs(cluster, Of.TOPIC, name)
    return [found[key] for key in sorted(found) if every or found[key].source in OWN]


def _own_configs(cluster: Cluster, name: str) -> list[Config] | None:
    try:
        return configs_of(cluster, name, every=False)
    except NotAuthorized:
        return None


def _sizes(cluster: Cluster, led: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    try:
        return sizes_bytes(cluster, led)
    except (ConnectionLost, Unsupported):
        return {}
