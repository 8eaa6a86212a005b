"""What the cluster tells: transactions of all coordinators, producers of partitions, groups and their true lag."""

import socket

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from fencepost.client.cluster import Cluster
from fencepost.client.transaction_state import LIST_TRANSACTIONS
from fencepost.errors import ConnectionLost, ErrorCode
from fencepost.observe.asking import ask_brokers
from fencepost.observe.groups import Counted, lags_of, survey_groups
from fencepost.observe.groups import Place as Stands
from fencepost.observe.producers import producers_of
from fencepost.observe.stable import bounds_of, holder
from fencepost.observe.transactions import describe, list_transactions, survey
from fencepost.wire.terms import Address, TopicPartition
from tests import logins
from tests.conftest import MakeTopic, unique, wait_until
from tests.observe import stuck


def test_a_transaction_is_seen_by_its_coordinator_and_by_its_partition(
    cluster: Cluster, bootstrap: str, topic: MakeTopic
):
    where, name = TopicPartition(topic(partitions=2), 0), unique("fencepost-shop")
    stuck.write(bootstrap, where.topic, "before")
    producer = stuck.begin(bootstrap, name, where.topic, "a", "b")
    view = describe(cluster, name)
    assert view is not None
    assert (view.state, view.partitions, view.timeout_ms) == ("Ongoing", (where,), 60_000)
    assert view.pipeline == name.removeprefix("fencepost-")
    assert view.start_ms is not None and view.deadline_ms == view.start_ms + 60_000
    assert view in list_transactions(cluster, producer_ids=[view.producer_id])
    assert view in list_transactions(cluster, pattern=f"{name[:-1]}.", states=["Ongoing"])
    assert list_transactions(cluster, pattern=name, min_age_ms=3_600_000) == []

    found = producers_of(cluster, [where, TopicPartition(where.topic, 1)]).found
    (seen,) = found[where]
    assert found[TopicPartition(where.topic, 1)] == ()
    assert (seen.producer_id, seen.epoch, seen.txn_start_offset) == (view.producer_id, view.epoch, 1)
    assert seen.last_sequence == 1
    bounds = bounds_of(cluster, [where]).found[where]
    assert (bounds.log_start, bounds.stable, bounds.end) == (0, 1, 3)
    assert holder(bounds, found[where]) == seen

    producer.commit_transaction(30)
    wait_until(lambda: _state(cluster, name) == "CompleteCommit", "the commit is complete")
    bounds = bounds_of(cluster, [where]).found[where]
    assert not bounds.is_held and holder(bounds, producers_of(cluster, [where]).found[where]) is None
    assert describe(cluster, unique("nobody")) is None


def _state(cluster: Cluster, name: str) -> str | None:
    view = describe(cluster, name)
    return None if view is None else view.state


def test_what_cannot_be_asked_hides_nothing_else(cluster: Cluster, topic: MakeTopic):
    name = topic()
    asked = [TopicPartition(name, 0), TopicPartition(name, 9), TopicPartition(unique("none"), 0)]
    found = bounds_of(cluster, asked)
    assert [*found.found] == asked[:1]
    assert {each.code for each in found.failed.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = Address("127.0.0.1", closed.getsockname()[1])
    alive = cluster.brokers()[0]
    answers = ask_brokers(cluster, LIST_TRANSACTIONS, {nobody: [{}], alive: [{}]})
    assert isinstance(answers[nobody], ConnectionLost)
    assert isinstance(answers[alive], list)
    assert survey(cluster).is_complete, "the connections are usable afterwards"


def test_the_lag_of_a_group_is_what_its_consumer_still_gets(cluster: Cluster, bootstrap: str, topic: MakeTopic):
    name, group = topic(), unique("group")
    with stuck.following(bootstrap, group, name) as follower:
        stuck.write(bootstrap, name, "a")
        follower.read(1)
        (view,) = survey_groups(cluster, names=[group]).groups
        assert view.state == "Stable" and view.members is not None
        assert [each.client_id for each in view.members] == [f"client-of-{group}"]
        stuck.commit(bootstrap, unique("t"), name, "b", "c")
        stuck.abort(bootstrap, unique("t"), name, "not this", "nor this")
        stuck.commit(bootstrap, unique("t"), name, "d")
        where = TopicPartition(name, 0)
        bounds = bounds_of(cluster, [where]).found
        (view,) = survey_groups(cluster, names=[group], partitions=[where]).groups
        (lag,) = lags_of(cluster, [view], bounds)[group]
        assert (lag.committed, lag.place, lag.records, lag.counted) == (1, Stands.BEHIND, 3, Counted.EXACT)
        (bounded,) = lags_of(cluster, [view], bounds, counts_max=0)[group]
        assert (bounded.records, bounded.counted) == (bounds[where].stable - 1, Counted.BOUND)
        assert follower.read(1 + 3) == ["a", "b", "c", "d"]
        assert follower.is_idle()


def test_the_members_of_a_group_of_the_newer_protocol_are_known(
    cluster: Cluster, bootstrap: str, topic: MakeTopic, is_original: bool
):
    if not is_original:
        pytest.skip("our broker has groups of the older protocol only (KIP-848)")
    name, group = topic(), unique("group")
    stuck.write(bootstrap, name, "a")
    with stuck.following(bootstrap, group, name, {"group.protocol": "consumer"}) as follower:
        follower.read(1)
        (view,) = survey_groups(cluster, names=[group]).groups
        assert view.members is not None
        assert [(each.client_id, each.host) for each in view.members] == [(f"client-of-{group}", "127.0.0.1")]
        assert (view.state, view.is_active, view.offsets) == ("Stable", True, {TopicPartition(name, 0): 1})
    wait_until(lambda: survey_groups(cluster, names=[group]).groups[0].members == (), "the member has left")


def test_a_group_that_only_commits_has_offsets_and_no_members(cluster: Cluster, bootstrap: str, topic: MakeTopic):
    name, group = topic(), unique("group")
    consumer = Consumer({**logins.confluent(bootstrap), "group.id": group})
    consumer.commit(offsets=[Place(name, 0, 7)], asynchronous=False)
    consumer.close()
    (view,) = survey_groups(cluster, names=[group]).groups
    assert (view.state, view.members, view.offsets) == ("Empty", (), {TopicPartition(name, 0): 7})
    assert not view.is_active
    bounds = bounds_of(cluster, [TopicPartition(name, 0)]).found
    assert lags_of(cluster, [view], bounds)[group][0].place is Stands.BEYOND_END
