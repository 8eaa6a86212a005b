"""Creating, growing and deleting topics, and the few topic settings that a writer needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.client.cluster import NO_LEADER, Cluster
from fencepost.client.fields import by_topic
from fencepost.client.retry import BUSY, Retry, known_code
from fencepost.errors import ConnectionLost, ErrorCode, TopicNotFound
from fencepost.wire.codec import Message
from fencepost.wire.terms import Address, TopicPartition

CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 19, 20, 32, 35, 37
FIRST_DELETE_WITH_IDS = 6
TOPIC_RESOURCE = 2
CLUSTER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    partitions: int = CLUSTER_DEFAULT
    replication_factor: int = CLUSTER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(cluster: Cluster, topics: Mapping[str, NewTopic], *, validate_only: bool = False) -> set[str]:
    """Create the topics that do not exist, and wait until all of them can be used. Returns those that were created.

    An existing topic is not changed. With `validate_only` the cluster only checks whether it would create them.
    """
    entries = [
        {
            "name": name,
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": [{"name": key, "value": value} for key, value in topic.configs.items()],
        }
        for name, topic in topics.items()
    ]
    if not entries:
        return set()
    fields = {"topics": entries, "validate_only": validate_only}
    answer = _change(cluster, "create topics", CREATE_TOPICS, fields, lambda answer: answer.topics)
    made = _changed(cluster, CREATE_TOPICS, answer.topics, ErrorCode.TOPIC_ALREADY_EXISTS, "it cannot be created")
    if validate_only:
        return made
    _await_leaders(cluster, {name: topic.partitions if name in made else 1 for name, topic in topics.items()})
    return made


def add_partitions(cluster: Cluster, name: str, count: int, *, validate_only: bool = False) -> None:
    """Give a topic more partitions, so that it has `count`, and wait until all can be used. Raises TopicNotFound."""
    fields = {"topics": [{"name": name, "count": count, "assignments": None}], "validate_only": validate_only}
    answer = _change(cluster, "add partitions", CREATE_PARTITIONS, fields, lambda answer: answer.results)
    result = answer.results[0]
    code = known_code(result.error_code)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicNotFound.named(name)
    # A repeated request finds the partitions there: the first one was carried out, and its answer got lost.
    if code and len(cluster.refresh([name])[name].partitions) != count:
        text = f"topic {name!r}: {result.error_message or 'partitions cannot be added'}"
        raise cluster.refusal(CREATE_PARTITIONS, code, name, text)
    if not validate_only:
        _await_leaders(cluster, {name: count})


def delete_topics(cluster: Cluster, names: Iterable[str]) -> set[str]:
    """Delete topics. Returns those that existed."""
    wanted = list(names)
    if not wanted:
        return set()
    fields = {"topic_names": wanted, "topics": [{"name": name} for name in wanted]}
    answer = _change(cluster, "delete topics", DELETE_TOPICS, fields, lambda answer: answer.responses)
    for name in wanted:
        cluster.forget_topic(name)
    return _changed(
        cluster, DELETE_TOPICS, answer.responses, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it cannot be deleted"
    )


def topic_configs(cluster: Cluster, name: str, keys: Iterable[str] | None = None) -> dict[str, str | None]:
    """A topic's settings, defaults included."""
    resource = {
        "resource_type": TOPIC_RESOURCE,
        "resource_name": name,
        "configuration_keys": None if keys is None else list(keys),
    }
    result = cluster.call(f"settings of {name!r}", DESCRIBE_CONFIGS, {"resources": [resource]}).results[0]
    code = known_code(result.error_code)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicNotFound.named(name)
    if code:
        text = f"settings of topic {name!r}: {result.error_message or ''}"
        raise cluster.refusal(DESCRIBE_CONFIGS, code, name, text)
    return {config.name: config.value for config in result.configs}


def sizes_bytes(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The size of each partition on its leader's disk, without those that it does not tell: we may lack the right."""
    by_leader: dict[Address, list[TopicPartition]] = {}
    for where in partitions:
        by_leader.setdefault(cluster.leader_address(*where), []).append(where)
    found: dict[TopicPartition, int] = {}
    for address, led in by_leader.items():
        fields = {"topics": by_topic(led, name="topic")}
        answer = cluster.connect(address).call(DESCRIBE_LOG_DIRS, fields)
        for topic in (topic for each in answer.results if not each.error_code for topic in each.topics):
            for each in topic.partitions:
                if not each.is_future_key:
                    found[TopicPartition(topic.name, each.partition_index)] = each.partition_size
    return found


def _change(cluster: Cluster, what: str, api_key: int, fields: Mapping[str, Any], results: Any) -> Message:
    """Ask the controller, and again while there is none. A retried change is answered as already done."""
    retry = Retry(what, cluster.settings)
    timeout_ms = cluster.settings.request_timeout_ms
    while True:
        reason: object
        try:
            answer = cluster.controller().call(api_key, {**fields, "timeout_ms": timeout_ms})
            codes = {known_code(result.error_code) for result in results(answer)}
            waiting = codes & (BUSY | {ErrorCode.NOT_CONTROLLER})
            if not waiting:
                return answer
            reason = next(iter(waiting))
        except ConnectionLost as error:
            reason = error
        retry.wait(reason)
        cluster.refresh([])


def _changed(
    cluster: Cluster, api_key: int, results: Iterable[Message], nothing_to_do: ErrorCode, otherwise: str
) -> set[str]:
    """The topics that were changed. Raises Refused or NotAuthorized for a code other than `nothing_to_do`."""
    changed = set()
    for result in results:
        code = known_code(result.error_code)
        if code is ErrorCode.NONE:
            changed.add(result.name)
        elif code is not nothing_to_do:
            text = f"topic {result.name!r}: {result.error_message or otherwise}"
            raise cluster.refusal(api_key, code, result.name, text)
    return changed


def _await_leaders(cluster: Cluster, topics: Mapping[str, int]) -> None:
    """Wait until each topic has this many partitions, and each partition a leader."""
    retry = Retry("new topics", cluster.settings)
    while True:
        found = cluster.refresh(topics, missing_ok=True)
        ready = [
            name
            for name, partitions in topics.items()
            if name in found
            and len(found[name].partitions) >= partitions
            and all(partition.leader != NO_LEADER for partition in found[name].partitions.values())
        ]
        if len(ready) == len(topics):
            return
        retry.wait(f"{', '.join(sorted(set(topics) - set(ready)))} without leaders")
