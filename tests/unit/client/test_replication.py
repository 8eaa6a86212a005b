"""How often a topic of our own is replicated."""

import logging

import pytest

from fencepost.client import Cluster, replication
from fencepost.client.admin import CLUSTER_DEFAULT, CREATE_TOPICS, DESCRIBE_CONFIGS
from fencepost.client.replication import NO_MODELS, Models, Replication, choose
from fencepost.errors import ErrorCode
from tests.unit.client.scripted import METADATA, NODE, ScriptedBroker

OURS = "ours"
DEFAULT = Replication(CLUSTER_DEFAULT)


@pytest.mark.parametrize(
    ("models", "factor", "expected"),
    [
        ([], None, DEFAULT),
        ([Replication(3, 2)], None, Replication(3, 2)),
        ([Replication(1, 1), Replication(3, 2), Replication(2, 1)], None, Replication(3, 2)),
        ([Replication(3, 1), Replication(2, 2)], None, Replication(3, 2)),
        ([Replication(3, None)], None, Replication(3, None)),  # we may not know it
        ([Replication(3, None), Replication(3, 2)], None, Replication(3, 2)),
        ([Replication(3, 3)], None, Replication(3, 2)),  # one stopped broker must not stop every pipeline
        ([Replication(2, 2)], None, Replication(2, 1)),
        ([Replication(1, 2)], None, Replication(1, 1)),
        ([Replication(1, None)], None, Replication(1, 1)),
        ([Replication(1, 1)], 3, Replication(3, 1)),
        ([Replication(3, 2)], 1, Replication(1, 1)),
        ([Replication(3, 2)], 2, Replication(2, 1)),
        ([], 3, Replication(3, None)),
    ],
)
def test_a_new_topic_is_as_safe_as_the_topics_that_it_belongs_to(
    models: list[Replication], factor: int | None, expected: Replication
) -> None:
    assert choose(models, factor) == expected


def three_brokers(broker: ScriptedBroker, replicas: dict[str, int]) -> None:
    """Three brokers, of which one answers, and topics of one partition with so many replicas."""

    def metadata(request: object) -> dict[str, object]:
        names = [entry.name for entry in request.topics]  # type: ignore[attr-defined]
        node = {"host": "127.0.0.1", "port": broker.port}
        ids = [NODE, NODE + 1, NODE + 2]
        return {
            "brokers": [{"node_id": each, **node} for each in ids],
            "controller_id": NODE,
            "topics": [
                {
                    "name": name,
                    "topic_id": bytes(15) + b"\1",
                    "partitions": [{"partition_index": 0, "leader_id": NODE, "replica_nodes": ids[: replicas[name]]}],
                }
                if name in replicas
                else {"name": name, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
                for name in names
            ],
        }

    broker.answers[METADATA] = metadata


def creating(broker: ScriptedBroker, replicas: dict[str, int], default: int = 1) -> None:
    """CreateTopics does what it is asked, with this default."""

    def create(request: object) -> dict[str, object]:
        for topic in request.topics:  # type: ignore[attr-defined]
            replicas[topic.name] = default if topic.replication_factor == -1 else topic.replication_factor
        return {"topics": [{"name": topic.name} for topic in request.topics]}  # type: ignore[attr-defined]

    three_brokers(broker, replicas)
    broker.answers[CREATE_TOPICS] = create


def created(broker: ScriptedBroker) -> tuple[int, dict[str, str]]:
    (request,) = broker.requests(CREATE_TOPICS)
    (topic,) = request.topics
    return topic.replication_factor, {config.name: config.value for config in topic.configs}


def test_what_the_models_have_is_asked_of_the_cluster(broker: ScriptedBroker, cluster: Cluster) -> None:
    creating(broker, {"input": 3})
    insync = {"name": "min.insync.replicas", "value": "2"}
    broker.answers[DESCRIBE_CONFIGS] = {"results": [{"resource_name": "input", "configs": [insync]}]}
    replication.create(cluster, OURS, 1, {"cleanup.policy": "compact"}, Models(["input", "of another cluster"]))
    assert created(broker) == (3, {"min.insync.replicas": "2", "cleanup.policy": "compact"})


def test_without_the_right_to_see_settings_the_clusters_default_counts(
    broker: ScriptedBroker, cluster: Cluster
) -> None:
    creating(broker, {"input": 3})
    denied = {"resource_name": "input", "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "configs": []}
    broker.answers[DESCRIBE_CONFIGS] = {"results": [denied]}
    replication.create(cluster, OURS, 1, {}, Models(["input"]))
    assert created(broker) == (3, {})


def test_what_the_user_sets_for_a_topic_overrides_its_models(broker: ScriptedBroker, cluster: Cluster) -> None:
    creating(broker, {"input": 1})
    broker.answers[DESCRIBE_CONFIGS] = {"results": [{"resource_name": "input", "configs": []}]}
    replication.create(cluster, OURS, 1, {"min.insync.replicas": "3"}, Models(["input"], factor=3))
    assert created(broker) == (3, {"min.insync.replicas": "3"})


def test_one_replica_on_three_brokers_is_reported_once(
    broker: ScriptedBroker, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    creating(broker, {})
    replication.create(cluster, OURS, 1, {}, NO_MODELS)
    assert created(broker) == (CLUSTER_DEFAULT, {})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            replication.report_single(cluster, OURS, NO_MODELS, "the state")
    (said,) = caplog.messages
    assert said.startswith("topic 'ours' has one replica on a cluster of 3 brokers: the state would be lost")
    assert "kafka-reassign-partitions" in said


@pytest.mark.parametrize(("replicas", "models"), [(3, NO_MODELS), (2, NO_MODELS), (1, Models(factor=1))])
def test_more_replicas_and_a_choice_of_the_users_are_not_reported(
    broker: ScriptedBroker, cluster: Cluster, caplog: pytest.LogCaptureFixture, replicas: int, models: Models
) -> None:
    three_brokers(broker, {OURS: replicas})
    cluster.refresh([OURS])
    replication.report_single(cluster, OURS, models, "the state")
    assert not caplog.messages


def test_one_replica_on_one_broker_is_all_that_there_can_be(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.refresh(["t"])
    replication.report_single(cluster, "t", NO_MODELS, "the state")
    assert not caplog.messages
