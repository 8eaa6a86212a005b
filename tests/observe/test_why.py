"""Why a reader stands still: open and hanging transactions, and what it is if there is none."""

from dataclasses import replace

from confluent_kafka import TopicPartition as Place

from fencepost.client.cluster import Cluster
from fencepost.observe import words
from fencepost.observe.groups import Place as Stands
from fencepost.observe.hanging import find_hanging
from fencepost.observe.holding import Cause
from fencepost.observe.transactions import list_transactions
from fencepost.observe.why import Verdict, why
from fencepost.wire.terms import TopicPartition
from tests.conftest import MakeTopic, unique, wait_until
from tests.observe import stuck

DELETE_RECORDS = 21


def test_an_open_transaction_is_named_with_its_owner_and_those_who_wait(
    cluster: Cluster, bootstrap: str, topic: MakeTopic
):
    name, source, group, owner = topic(), topic(), unique("billing"), unique("shop")
    with stuck.following(bootstrap, group, name) as follower, stuck.following(bootstrap, owner, source) as shop:
        stuck.write(bootstrap, name, "a")
        follower.read(1)
        stuck.write(bootstrap, source, "input")
        shop.read(1)
        producer = stuck.begin(bootstrap, f"fencepost-{owner}", name, "open", "open")
        producer.send_offsets_to_transaction([Place(source, 0, 1)], shop.consumer.consumer_group_metadata(), 30)
        stuck.write(bootstrap, name, "b")
        stuck.commit(bootstrap, unique("t"), name, "c", "d")
        stuck.abort(bootstrap, unique("t"), name, "never")
        assert follower.is_idle()

        found = why(cluster, name)
        assert found.verdict is Verdict.HELD
        (hold,) = found.holds
        assert hold.cause is Cause.OPEN and hold.transaction is not None
        assert hold.transaction.transactional_id == f"fencepost-{owner}"
        assert hold.transaction.pipeline == owner
        assert hold.ends_ms == hold.transaction.deadline_ms and hold.since_ms == hold.transaction.start_ms
        assert owner in [each.group_id for each in hold.owners]
        by_group = replace(hold, transaction=replace(hold.transaction, client=None))
        assert f"client-of-{owner}" in (words.client(by_group) or ""), "any Kafka tells the members of its group"
        (held,) = hold.partitions
        backlog = held.backlog
        assert backlog is not None and backlog.is_exact
        assert (backlog.waiting, backlog.aborted, backlog.undecided) == (3, 1, 2)
        (reader,) = found.readers
        assert (reader.group.group_id, reader.misses, reader.lag) == (group, 3, 0)
        assert reader.is_waiting and reader.lags[0].place is Stands.AT_STABLE
        assert "read_committed readers stop at offset 1, 3 committed records behind it" in words.headline(found)

        producer.abort_transaction(30)
        wait_until(lambda: why(cluster, name).verdict is Verdict.CLEAR, "nothing holds it")
        assert follower.read(4) == ["a", "b", "c", "d"]


def test_nothing_holds_it_and_the_readers_stand_where_they_stand(cluster: Cluster, bootstrap: str, topic: MakeTopic):
    name = topic()
    names = {each: unique(each) for each in ("done", "late", "lost", "beyond")}
    stuck.write(bootstrap, name, "a", "b", "c", "d")
    entry = {"partition_index": 0, "offset": 2}
    deleted = {"topics": [{"name": name, "partitions": [entry]}], "timeout_ms": 10_000}
    assert cluster.call("delete records", DELETE_RECORDS, deleted).topics[0].partitions[0].error_code == 0
    for each, offset in (("done", 4), ("late", 3), ("lost", 1), ("beyond", 9)):
        stuck.set_offset(bootstrap, names[each], name, offset)
    found = why(cluster, name, 0)
    assert found.verdict is Verdict.CLEAR and found.holds == ()
    places = {each.group.group_id: (each.lags[0].place, each.lag) for each in found.readers}
    assert places[names["done"]] == (Stands.AT_END, 0)
    assert places[names["late"]] == (Stands.BEHIND, 1)
    assert places[names["lost"]] == (Stands.DELETED, 2)
    assert places[names["beyond"]] == (Stands.BEYOND_END, 0)
    assert "out of range" in words.headline(found)
    assert "behind, and nobody reads" in words.reader_place(*why(cluster, name, 0, group=names["late"]).readers)
    assert why(cluster, name, 0, group=unique("nobody")).readers == ()


def test_a_topic_that_does_not_exist_is_an_answer(cluster: Cluster, topic: MakeTopic):
    name = topic()
    found = why(cluster, name + "s")
    assert found.verdict is Verdict.NO_TOPIC and name in found.similar
    assert "did you mean" in words.headline(found)
    assert words.headline(why(cluster, name, 3)) == f"topic {name!r} has no partition 3"


def test_a_hanging_transaction_is_told_from_a_live_one(
    trusting: str, trusting_cluster: Cluster, trusting_topic: MakeTopic
):
    name, other = trusting_topic(partitions=2), trusting_topic()
    live = stuck.begin(trusting, unique("live"), other, "x")
    stuck.leave_hanging(trusting, name, 1, producer_id=4_100, values=["a", "b"])
    stuck.write(trusting, name, "waits", partition=1)
    found = why(trusting_cluster, name)
    (hold,) = found.holds
    assert (hold.cause, hold.producer_id, hold.transaction, hold.ends_ms) == (Cause.HANGING, 4_100, None, None)
    assert hold.waiting == 1 and hold.is_exact and hold.since_ms is not None
    assert [each.cause for each in why(trusting_cluster, other).holds] == [Cause.OPEN]
    everywhere = {each.where: each for each in find_hanging(trusting_cluster).hanging}
    assert everywhere[TopicPartition(name, 1)].start_offset == 0
    assert TopicPartition(other, 0) not in everywhere
    assert find_hanging(trusting_cluster, topic=name, older_than_ms=3_600_000).hanging == ()
    live.abort_transaction(30)


def test_a_transaction_hangs_if_its_id_lives_on_elsewhere(
    trusting: str, trusting_cluster: Cluster, trusting_topic: MakeTopic
):
    """A batch that arrives after the end of its transaction opens it again, and its producer does not know."""
    name, transactional_id = trusting_topic(), unique("late")
    stuck.commit(trusting, transactional_id, trusting_topic(), "done")
    (view,) = [each for each in list_transactions(trusting_cluster) if each.transactional_id == transactional_id]
    stuck.leave_hanging(trusting, name, producer_id=view.producer_id)
    (hold,) = why(trusting_cluster, name).holds
    assert hold.cause is Cause.HANGING
    assert hold.transaction is not None and hold.transaction.transactional_id == transactional_id
    assert hold.ends_ms is None and "nobody will ever end it" in words.what(hold)
