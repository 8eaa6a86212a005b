"""The changelog topic of a step: its identity, its partitions, and its ends.

A key's hash gives its partition, so the number of partitions is part of the state. With more partitions, most keys
would look for their state in the wrong one. So a topic with another number of partitions is refused, and so is a topic
that was deleted and created again. The ledger holds the number and the topic's identity.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.client import replication
from fencepost.client.cluster import Cluster
from fencepost.client.offsets import latest
from fencepost.client.replication import Models
from fencepost.client.rights import Operation, wanted
from fencepost.errors import BatchRefused
from fencepost.spark.ledger import ChangelogEntry
from fencepost.spark.topic_identity import Identity, describe, identity_of, is_other
from fencepost.wire.terms import Isolation, TopicPartition

CONFIGS = {
    "cleanup.policy": "compact",
    # Kafka's default, whatever the cluster's is: caches depend on a lower bound (`cache`).
    "delete.retention.ms": str(24 * 3600 * 1000),
}
EMPTY_STATE = "use `fencepost pipeline reset NAME --to … --state drop`, or give the pipeline another name"


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog at one moment."""

    topic: str
    topic_id: str
    identity: Identity
    ends: Mapping[int, int]  #: by partition; committed records before them are the state
    reset_id: str = ""

    @property
    def partitions(self) -> int:
        return len(self.ends)

    @property
    def cache_name(self) -> str:
        """Part of the cache's path: a topic that was created again is another topic.

        A reset of the pipeline writes tombstones. A cache that is older could miss some, because compaction removes
        them after a day (`delete.retention.ms`).
        """
        return f"{self.topic_id}-{self.reset_id}" if self.reset_id else self.topic_id


@wanted(Operation.READ, Operation.WRITE)
def look(
    cluster: Cluster,
    topic: str,
    partitions: int,
    configs: Mapping[str, str],
    remembered: ChangelogEntry | None,
    models: Models,
) -> Changelog:
    """The changelog as it is now. All other writers must have been fenced.

    If it does not exist, it is created, replicated like its `models`.

    The ends are high watermarks, not last stable offsets: Kafka answers a commit before its markers are everywhere, and
    what has been committed must be read. Readers wait for the markers.
    """
    if not cluster.refresh([topic], missing_ok=True):
        if remembered is not None:
            raise BatchRefused(
                f"topic {topic!r} held this pipeline's state and is gone. Nothing was written. Restore the topic; or, "
                f"to begin with empty state, {EMPTY_STATE}"
            )
        replication.create(cluster, topic, partitions, {**CONFIGS, **configs}, models)
    found = cluster.refresh([topic])[topic]
    replication.report_single(cluster, topic, models, "the state")
    identity = identity_of(found)
    if remembered is not None and is_other(remembered.topic, identity):
        raise BatchRefused(
            f"topic {topic!r} held this pipeline's state ({describe(remembered.topic)}) and was deleted and created "
            f"again ({describe(identity)}). Nothing was written. To begin with empty state, {EMPTY_STATE}"
        )
    if remembered is not None and len(found.partitions) != remembered.partitions:
        raise BatchRefused(
            f"topic {topic!r} holds state in {remembered.partitions} partitions and has {len(found.partitions)} now: "
            "keys would be looked for in the wrong ones. Nothing was written. Copy the state into a topic with the old "
            "number of partitions"
        )
    where = [TopicPartition(topic, partition) for partition in found.partitions]
    ends = latest(cluster, where, Isolation.READ_UNCOMMITTED)
    topic_id = found.id.hex() if isinstance(identity, str) else f"{topic}@{cluster.settings.bootstrap[0]}"
    reset_id = "" if remembered is None else remembered.reset_id
    return Changelog(topic, topic_id, identity, {place.partition: end for place, end in ends.items()}, reset_id)
