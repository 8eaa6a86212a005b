"""The changelog topic of a step: where it is, how many partitions it has, and up to where it counts.

A key belongs to a partition by its hash, so the number of partitions is part of the state: a topic that was given more
of them would hide the old state of most keys, and is refused; so is a topic that was deleted and created again. The
ledger remembers the number and which topic it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.client.offsets import latest
from fencepost.errors import BatchRefused
from fencepost.spark.ledger import ChangelogEntry
from fencepost.spark.topic_identity import Identity, describe, identity_of, is_other
from fencepost.wire.terms import Isolation, TopicPartition

CONFIGS = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog at one moment."""

    topic: str
    topic_id: str  #: names its cache: a topic that was deleted and created again is another one
    identity: Identity
    ends: Mapping[int, int]  #: for each partition; everything before it counts, once it is known to be committed

    @property
    def partitions(self) -> int:
        return len(self.ends)


def changelog_name(pipeline: str, step: str) -> str:
    return f"{pipeline}.{step}.changelog"


def look(
    cluster: Cluster, topic: str, partitions: int, configs: Mapping[str, str], remembered: ChangelogEntry | None
) -> Changelog:
    """The changelog as it is now, made if it is not there. For whoever has just fenced all other writers.

    The ends are those of the log, not of what is committed: Kafka answers a commit before its markers are everywhere,
    and what has been committed must be seen. Whoever reads waits for the markers.
    """
    if not cluster.refresh([topic], missing_ok=True):
        if remembered is not None:
            raise BatchRefused(
                f"topic {topic!r} held this pipeline's state and is gone. Nothing was written. Restore it; or, to "
                "begin with empty state, use a pipeline of another name"
            )
        create_topics(cluster, {topic: NewTopic(partitions, configs={**CONFIGS, **configs})})
    found = cluster.refresh([topic])[topic]
    identity = identity_of(found)
    if remembered is not None and is_other(remembered.topic, identity):
        raise BatchRefused(
            f"topic {topic!r} held this pipeline's state ({describe(remembered.topic)}) and was deleted and created "
            f"again ({describe(identity)}). Nothing was written. To begin with empty state, use a pipeline of another "
            "name"
        )
    if remembered is not None and len(found.partitions) != remembered.partitions:
        raise BatchRefused(
            f"topic {topic!r} holds state in {remembered.partitions} partitions and has {len(found.partitions)} now: "
            "keys would be looked for in the wrong ones. Nothing was written. Copy the state into a topic with the old "
            "number"
        )
    where = [TopicPartition(topic, partition) for partition in found.partitions]
    ends = latest(cluster, where, Isolation.READ_UNCOMMITTED)
    topic_id = found.id.hex() if isinstance(identity, str) else f"{topic}@{cluster.settings.bootstrap[0]}"
    return Changelog(topic, topic_id, identity, {place.partition: end for place, end in ends.items()})
