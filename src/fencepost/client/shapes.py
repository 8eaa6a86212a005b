"""What a writer must know about a topic before it makes records for it: partitions, and which records it takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.client.admin import topic_configs
from fencepost.client.cluster import Cluster
from fencepost.client.faults import is_topic_name
from fencepost.client.rights import Operation, wanted
from fencepost.errors import NotAuthorized, TopicNotFound

#: Kafka's default of `max.message.bytes`.
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
#: No limit of a topic for timestamps.
FOREVER_MS = 2**63 - 1

MAX_BYTES, POLICY, TIME_TYPE = "max.message.bytes", "cleanup.policy", "message.timestamp.type"
PAST_MAX, FUTURE_MAX = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
#: Before Kafka 3.6 there was one limit for both; Kafka 4 has removed it.
EITHER_MAX = "message.timestamp.difference.max.ms"


@dataclass(frozen=True, slots=True)
class TopicShape:
    partitions: int
    max_message_bytes: int | None = DEFAULT_MAX_MESSAGE_BYTES  #: None if unknown: the broker checks it
    needs_key: bool = False  #: it is compacted
    past_max_ms: int = FOREVER_MS  #: how far a timestamp may lie in the past,
    future_max_ms: int = FOREVER_MS  #: and in the future


def shape_of(cluster: Cluster, topic: str) -> TopicShape:
    """The topic as it is now. Raises TopicNotFound."""
    with wanted(Operation.WRITE):
        return _shape(cluster, topic, len(cluster.refresh([topic])[topic].partitions))


def shapes_of(cluster: Cluster, topics: Iterable[str]) -> dict[str, TopicShape]:
    """Of the topics that exist, in one request for all. Names that Kafka does not allow are not asked for."""
    names = [name for name in topics if is_topic_name(name)]
    if not names:
        return {}
    with wanted(Operation.WRITE):
        found = cluster.refresh(names, missing_ok=True)
        shapes = {}
        for name, topic in found.items():
            try:
                shapes[name] = _shape(cluster, name, len(topic.partitions))
            except TopicNotFound:  # deleted in between
                continue
        return shapes


def _shape(cluster: Cluster, topic: str, partitions: int) -> TopicShape:
    try:
        configs = topic_configs(cluster, topic, [MAX_BYTES, POLICY, TIME_TYPE, PAST_MAX, FUTURE_MAX, EITHER_MAX])
    except NotAuthorized:
        return TopicShape(partitions, max_message_bytes=None)
    uses_own_time = configs.get(TIME_TYPE) != "LogAppendTime"
    return TopicShape(
        partitions,
        max_message_bytes=int(configs.get(MAX_BYTES) or 0) or None,
        needs_key="compact" in (configs.get(POLICY) or ""),
        past_max_ms=_limit(configs, PAST_MAX) if uses_own_time else FOREVER_MS,
        future_max_ms=_limit(configs, FUTURE_MAX) if uses_own_time else FOREVER_MS,
    )


def _limit(configs: Mapping[str, str | None], name: str) -> int:
    given = [int(value) for value in (configs.get(name), configs.get(EITHER_MAX)) if value]
    return min([FOREVER_MS, *given])
