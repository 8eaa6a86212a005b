"""How often a topic that fencepost creates is replicated: as often as the topics that it belongs to.

A ledger with one replica on a cluster of three brokers would be lost with one disk, while the records that it is about
survive. So a new topic takes the highest replication factor of its `models`, and their highest `min.insync.replicas`.
If there are no models, the cluster's default counts (KIP-464). A topic with one replica is never a silent choice of
ours: on a cluster of three or more brokers it is logged, once a process, unless the user has asked for it.

`min.insync.replicas` stays below the replication factor. Otherwise one stopped broker would stop every pipeline.
Reading it takes the right DescribeConfigs, which a pipeline need not have. Without it the cluster's default counts.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fencepost.client.admin import CLUSTER_DEFAULT, NewTopic, create_topics, topic_configs
from fencepost.client.cluster import Cluster
from fencepost.errors import NotAuthorized, TopicNotFound, Unsupported

logger = logging.getLogger(__name__)

MIN_INSYNC = "min.insync.replicas"
#: From this many brokers on, one replica is less than the cluster can give.
BROKERS_OF_A_CLUSTER = 3
#: Bootstrap servers and names of the topics that were reported.
_reported: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class Replication:
    factor: int = CLUSTER_DEFAULT
    min_insync: int | None = None  #: None: the cluster's default

    @property
    def configs(self) -> dict[str, str]:
        return {} if self.min_insync is None else {MIN_INSYNC: str(self.min_insync)}


@dataclass(frozen=True, slots=True)
class Models:
    """What a topic of ours takes its replication from."""

    topics: Collection[str] = ()  #: those that are missing, or that we may not see, do not count
    factor: int | None = None  #: set by the user


NO_MODELS = Models()


def choose(models: Iterable[Replication], factor: int | None = None) -> Replication:
    """The replication of a new topic. `factor` is the user's choice."""
    found = list(models)
    chosen = factor if factor is not None else max((model.factor for model in found), default=CLUSTER_DEFAULT)
    if chosen == CLUSTER_DEFAULT:
        return Replication()
    if chosen == 1:  # whatever the cluster's default is: with more, nothing could be written
        return Replication(1, 1)
    known = [model.min_insync for model in found if model.min_insync is not None]
    return Replication(chosen, min(max(known), chosen - 1) if known else None)


def create(cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str], models: Models) -> None:
    """Create a topic of ours that does not exist. `configs` override what `models` say."""
    chosen = choose(_read(cluster, models.topics), models.factor)
    create_topics(cluster, {name: NewTopic(partitions, chosen.factor, {**chosen.configs, **configs})})


def report_single(cluster: Cluster, name: str, models: Models, holds: str) -> None:
    """Warn once if an existing topic of ours has one replica where it could have more. `holds` says what is at risk."""
    brokers, key = len(cluster.brokers()), (",".join(map(str, cluster.settings.bootstrap)), name)
    factor = cluster.topic(name).replication_factor
    if factor != 1 or models.factor == 1 or brokers < BROKERS_OF_A_CLUSTER or key in _reported:
        return
    _reported.add(key)
    logger.warning(
        "topic %r has one replica on a cluster of %d brokers: %s would be lost with one disk. Add replicas with "
        "kafka-reassign-partitions: docs/spark.md says how, under 'Topics that fencepost creates'",
        *(name, brokers, holds),
    )


def _read(cluster: Cluster, names: Collection[str]) -> list[Replication]:
    found = cluster.refresh(names, missing_ok=True, hidden_ok=True) if names else {}
    return [Replication(topic.replication_factor, _min_insync(cluster, name)) for name, topic in found.items()]


def _min_insync(cluster: Cluster, name: str) -> int | None:
    """None if we may not know."""
    try:
        value = topic_configs(cluster, name, [MIN_INSYNC]).get(MIN_INSYNC)
    except (NotAuthorized, TopicNotFound, Unsupported):
        return None
    return int(value) if value is not None else None
