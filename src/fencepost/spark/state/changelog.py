"""The changelog topic of a step: where it is, how many partitions it has, and up to where it counts.

A key belongs to a partition by its hash, so the number of partitions is part of the state: a topic that was given more
of them would hide the old state of most keys, and is refused. The ledger remembers the number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster, TopicPartition
from fencepost.client.offsets import Isolation, latest
from fencepost.errors import BatchRefused

CONFIGS = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog at one moment."""

    topic: str
    topic_id: str  #: a topic that was deleted and made again is another one
    ends: Mapping[int, int]  #: for each partition; everything before it counts, once it is known to be committed

    @property
    def partitions(self) -> int:
        return len(self.ends)


def changelog_name(pipeline: str, step: str) -> str:
    return f"{pipeline}.{step}.changelog"


def look(
    cluster: Cluster, topic: str, partitions: int, configs: Mapping[str, str], remembered: int | None
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
    if remembered is not None and len(found.partitions) != remembered:
        raise BatchRefused(
            f"topic {topic!r} holds state in {remembered} partitions and has {len(found.partitions)} now: keys would "
            "be looked for in the wrong ones. Nothing was written. Copy the state into a topic with the old number"
        )
    where = [TopicPartition(topic, partition) for partition in found.partitions]
    ends = latest(cluster, where, Isolation.READ_UNCOMMITTED)
    return Changelog(topic, found.id.hex(), {place.partition: end for place, end in ends.items()})
