"""Ending what its owner does not end: hanging and live transactions, refusals, and the proof."""

import pytest
from confluent_kafka import KafkaException

from fencepost.client.cluster import Cluster
from fencepost.errors import AbortRefused, TransactionNotFound
from fencepost.observe.aborting import Way, abort, plan_hanging, plan_id, plan_partition
from fencepost.observe.holding import Cause
from fencepost.observe.why import Verdict, why
from fencepost.wire.terms import TopicPartition
from tests.conftest import MakeTopic, unique, wait_until
from tests.observe import stuck


def test_an_abort_of_a_hanging_transaction_frees_its_readers(
    trusting: str, trusting_cluster: Cluster, trusting_topic: MakeTopic
):
    name, group = trusting_topic(), unique("group")
    where = TopicPartition(name, 0)
    stuck.write(trusting, name, "a")
    stuck.leave_hanging(trusting, name, producer_id=4_200, values=["lost", "lost", "lost"])
    stuck.write(trusting, name, "b")
    with stuck.following(trusting, group, name) as follower:
        follower.read(1)
        assert follower.is_idle()
        plan = plan_partition(trusting_cluster, where)
        assert (plan.way, plan.cause, plan.producer_id) == (Way.MARKERS, Cause.HANGING, 4_200)
        (undone,) = plan.undone
        assert (undone.records, undone.first_offset, undone.last_offset) == (3, 1, 3)
        outcome = abort(trusting_cluster, plan)
        assert outcome.is_proven
        (freed,) = outcome.freed
        assert freed.after is not None
        assert (freed.before.stable, freed.after.stable) == (1, freed.after.end)
        assert follower.read(2) == ["a", "b"]
    with pytest.raises(AbortRefused, match="does not hang any more"):
        abort(trusting_cluster, plan)
    with pytest.raises(TransactionNotFound, match="no open transaction"):
        plan_partition(trusting_cluster, where)


def test_all_that_hangs_in_a_topic_is_ended_and_nothing_else(
    trusting: str, trusting_cluster: Cluster, trusting_topic: MakeTopic
):
    name = trusting_topic(partitions=2)
    live = stuck.begin(trusting, unique("live"), name, "alive")
    for partition, producer_id in ((0, 4_300), (1, 4_300), (1, 4_301)):
        stuck.leave_hanging(trusting, name, partition, producer_id=producer_id)
    plans = plan_hanging(trusting_cluster, name)
    assert {plan.producer_id: len(plan.undone) for plan in plans} == {4_300: 2, 4_301: 1}
    for plan in plans:
        assert abort(trusting_cluster, plan).is_proven
    assert plan_hanging(trusting_cluster, name) == []
    (hold,) = why(trusting_cluster, name).holds
    assert hold.cause is Cause.OPEN
    live.commit_transaction(30)
    assert why(trusting_cluster, name).verdict is Verdict.CLEAR


def test_a_live_transaction_is_refused_unless_told_and_then_fenced(cluster: Cluster, bootstrap: str, topic: MakeTopic):
    name, other, transactional_id = topic(), topic(), unique("live")
    producer = stuck.begin(bootstrap, transactional_id, name, "a", "b")
    producer.produce(other, "c")
    assert producer.flush(30) == 0
    plan = plan_partition(cluster, TopicPartition(name, 0))
    assert (plan.way, plan.cause) == (Way.FENCE, Cause.OPEN)
    assert {(each.where.topic, each.records) for each in plan.undone} == {(name, 2), (other, 1)}
    with pytest.raises(AbortRefused, match=r"is alive.* Nothing was changed"):
        abort(cluster, plan)
    assert why(cluster, name).verdict is Verdict.HELD
    outcome = abort(cluster, plan, even_if_live=True)
    assert outcome.is_proven and len(outcome.freed) == 2
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    assert why(cluster, name).verdict is Verdict.CLEAR


def test_a_transaction_that_ended_meanwhile_costs_its_producer_nothing(
    cluster: Cluster, bootstrap: str, topic: MakeTopic
):
    name, transactional_id = topic(), unique("quick")
    producer = stuck.begin(bootstrap, transactional_id, name, "a")
    plan = plan_id(cluster, transactional_id)
    producer.commit_transaction(30)
    with pytest.raises(AbortRefused, match="itself"):
        abort(cluster, plan, even_if_live=True)
    producer.begin_transaction()
    producer.produce(name, "b")
    producer.commit_transaction(30)
    # Apache Kafka acknowledges a commit before its markers are written.
    wait_until(
        lambda: stuck.told(bootstrap, "describe", transactional_id)[0]["state"] == "CompleteCommit", "it is complete"
    )
    with pytest.raises(TransactionNotFound, match="has no open transaction"):
        plan_id(cluster, transactional_id)
    with pytest.raises(TransactionNotFound, match="no broker knows"):
        plan_id(cluster, unique("nobody"))
