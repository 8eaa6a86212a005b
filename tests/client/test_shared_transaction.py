"""One transaction, many processes: atomic, fenced, and never in doubt for longer than it takes to look.

Every test runs with both protocols. All but those that need a broker of their own also run on Apache Kafka
(`--apache-kafka`).
"""

from collections.abc import Callable, Iterator

import pytest

from fencepost.client import Cluster, TransactionProtocol
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.groups import CommittedOffset, committed_offsets
from fencepost.client.registration import END_TXN
from fencepost.client.transaction import AbortedBy, SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.errors import (
    Fenced,
    GaveUp,
    InvariantBroken,
    OutcomeUnknown,
    TransactionFailed,
    TransactionTimedOut,
    WriteFailed,
)
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition
from tests.client.lossy import Loses, LossyCluster
from tests.client.support import read, read_all, read_settled, write
from tests.client.workers import write_elsewhere
from tests.conftest import unique, wait_until
from tests.observe.stuck import TRUSTING

SOURCE = "purchases"
#: Transactional ids that are idle for a moment are forgotten.
FORGETTING = {
    "transactional.id.expiration.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
}


def offsets(value: int, note: str = "") -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(SOURCE, 0): CommittedOffset(value, note)}


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, CommittedOffset]:
    return committed_offsets(cluster, group, [TopicPartition(SOURCE, 0), TopicPartition(SOURCE, 5)])


@pytest.fixture(autouse=True)
def source_topic(topic: Callable[..., str], cluster: Cluster) -> None:
    """A broker takes offsets of topics that exist."""
    if SOURCE not in cluster.refresh([SOURCE], missing_ok=True):
        topic(name=SOURCE)


@pytest.fixture
def start(cluster: Cluster, protocol: TransactionProtocol) -> Callable[..., SharedTransaction]:
    def start_one(transactional_id: str | None = None, *, on: Cluster = cluster, **more) -> SharedTransaction:
        transaction = SharedTransaction(on, transactional_id or unique("id"), protocol=protocol, **more)
        transaction.init()
        return transaction

    return start_one


@pytest.fixture
def lossy(bootstrap: str) -> Iterator[LossyCluster]:
    with LossyCluster(bootstrap) as cluster:
        yield cluster


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_four_processes_write_and_a_fifth_commits(bootstrap, cluster, topic, start):
    name = topic(partitions=4)
    values = {partition: [f"{partition}-{index}" for index in range(2000)] for partition in range(4)}
    transaction = start()
    write_elsewhere(bootstrap, transaction.begin(), name, values.items())
    assert [read(cluster, name, partition) for partition in range(4)] == [[]] * 4

    transaction.commit()
    for partition in range(4):
        assert read_settled(cluster, name, partition) == values[partition]


def test_old_writers_are_refused_after_the_epoch_moved_on(bootstrap, cluster, topic, start):
    name = topic(partitions=2)
    transaction = start()
    old = transaction.begin()
    write_elsewhere(bootstrap, old, name, [(0, ["a"])])
    transaction.commit()
    new = transaction.begin()
    write(cluster, new, name, ["b"], 0)
    for partition in (0, 1):
        with pytest.raises((Fenced, TransactionFailed)):
            write(cluster, old, name, ["late"], partition)
    transaction.commit()
    assert read_all(cluster, name) == ["a", "b"]


def test_one_transaction_after_the_other_each_with_its_own_epoch(cluster, topic, start):
    name = topic(partitions=3)
    transaction = start()
    epochs = []
    for batch in range(6):
        identity = transaction.begin()
        epochs.append(identity.epoch)
        write(cluster, identity, name, [f"{batch}-{index}" for index in range(50)])
        transaction.add_offsets("shop", offsets(batch, f"batch {batch}"))
        if batch % 3 == 1:
            assert transaction.abort() is AbortedBy.US
        else:
            transaction.commit()
    assert epochs == sorted(set(epochs))
    assert read_all(cluster, name) == sorted(f"{batch}-{index}" for batch in (0, 2, 3, 5) for index in range(50))


def test_offsets_become_the_groups_with_the_commit_and_never_without(cluster, topic, start):
    name, group = topic(), unique("group")
    transaction = start()
    assert committed(cluster, group) == {}
    write(cluster, transaction.begin(), name, ["a"])
    transaction.add_offsets(group, offsets(7, "query 1, batch 2"))
    transaction.commit()
    assert committed(cluster, group) == offsets(7, "query 1, batch 2")
    write(cluster, transaction.begin(), name, ["b"])
    transaction.add_offsets(group, offsets(8))
    transaction.abort()
    assert committed(cluster, group) == offsets(7, "query 1, batch 2")


def test_offsets_that_are_being_committed_are_waited_for(bootstrap, start):
    group = unique("group")
    transaction = start()
    transaction.begin()
    transaction.add_offsets(group, offsets(7))
    impatient = Cluster({"bootstrap.servers": bootstrap, "default.api.timeout.ms": 200})
    with pytest.raises(GaveUp, match="UNSTABLE_OFFSET_COMMIT"):
        committed(impatient, group)
    transaction.commit()
    assert committed(impatient, group) == offsets(7)
    impatient.close()


def test_the_protocol_is_the_clusters_newest_which_may_be_the_first(cluster, start_broker, is_original):
    assert SharedTransaction(cluster, unique("id")).init().protocol is TransactionProtocol.V2
    if is_original:
        pytest.skip("needs a broker with other settings")
    with Cluster(start_broker({"transaction.version": "1"}).bootstrap) as old:
        name = unique("topic")
        create_topics(old, {name: NewTopic(2)})
        transaction = SharedTransaction(old, unique("id"))
        assert transaction.init().protocol is TransactionProtocol.V1
        for batch in range(3):
            write(old, transaction.begin(), name, [str(batch)])
            transaction.add_offsets("g", {TopicPartition(name, 0): CommittedOffset(batch)})
            transaction.commit()
        assert read_all(old, name) == ["0", "1", "2"]
        assert committed_offsets(old, "g", [TopicPartition(name, 0)])[TopicPartition(name, 0)].offset == 2


# -- fencing -----------------------------------------------------------------------------------------------------------


def test_a_successor_fences_its_predecessor_which_cannot_take_the_id_back(cluster, topic, start):
    name, transactional_id = topic(), unique("id")
    zombie = start(transactional_id)
    old = zombie.begin()
    write(cluster, old, name, ["zombie"])

    successor = start(transactional_id)
    write(cluster, successor.begin(), name, ["successor"])
    with pytest.raises((Fenced, TransactionFailed)):
        write(cluster, old, name, ["late"])
    for step in (zombie.commit, zombie.reclaim, zombie.begin, zombie.reclaim):
        with pytest.raises(Fenced, match="another producer uses this transactional id"):
            step()
    successor.commit()
    assert read_settled(cluster, name) == ["successor"]


def test_a_zombie_that_wakes_after_its_timeout_does_not_fence_its_successor(cluster, topic, start):
    name, transactional_id = topic(), unique("id")
    zombie = start(transactional_id, timeout_ms=300)
    write(cluster, zombie.begin(), name, ["zombie"])
    await_abort(zombie)
    successor = start(transactional_id)
    write(cluster, successor.begin(), name, ["a"])
    with pytest.raises(Fenced):
        zombie.abort()
    with pytest.raises(Fenced):
        zombie.begin()
    successor.commit()
    assert read_settled(cluster, name) == ["a"]


def test_what_arrives_after_an_abort_is_refused_by_brokers_that_do_not_ask_the_coordinator(start_broker, start):
    """Brokers before Kafka 3.6 do not. The late record would be in a transaction that nobody ends, or, worse, that the
    next commit of the same producer ends."""
    with Cluster(start_broker(TRUSTING).bootstrap) as cluster:
        create_topics(cluster, {SOURCE: NewTopic(1)})
        transaction = start(on=cluster)
        writer = TransactionWriter(cluster, transaction.begin())
        writer.write(TopicPartition(SOURCE, 0), encode_batch([Record(None, b"aborted", 0)]))
        writer.flush()
        transaction.abort()
        writer.write(TopicPartition(SOURCE, 0), encode_batch([Record(None, b"late", 0)]))
        with pytest.raises((Fenced, TransactionFailed, WriteFailed)):
            writer.flush()
        writer.close()
        write(cluster, transaction.begin(), SOURCE, ["again"])
        transaction.commit()
        assert read_settled(cluster, SOURCE) == ["again"]


def await_abort(transaction: SharedTransaction) -> None:
    wait_until(lambda: transaction._is_aborted(transaction._owner()), "the coordinator aborts it")


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_a_transaction_that_outlasts_its_timeout_says_so_and_the_next_one_works(cluster, topic, start, commits):
    name = topic()
    transaction = start(timeout_ms=300)
    write(cluster, transaction.begin(), name, ["late"])
    await_abort(transaction)
    if commits:
        with pytest.raises(TransactionTimedOut, match=r"open for \d+\.\d s, longer than transaction\.timeout\.ms=300"):
            transaction.commit()
    else:
        assert transaction.abort() is AbortedBy.TIMEOUT
    write(cluster, transaction.begin(), name, ["again"])
    transaction.commit()
    assert read_settled(cluster, name) == ["again"]


def test_an_id_that_the_cluster_has_forgotten_is_taken_again_unless_there_is_a_successor(start_broker, start):
    broker = start_broker(FORGETTING)
    with Cluster(broker.bootstrap) as cluster:
        create_topics(cluster, {SOURCE: NewTopic(1)})
        name = unique("id")
        idle = start(name, on=cluster)
        wait_until(lambda: idle._owner() is None, "the id is forgotten")
        with pytest.raises((Fenced, TransactionFailed)):
            write(cluster, idle.begin(), SOURCE, ["lost"])
        assert idle.abort() is AbortedBy.EXPIRY
        write(cluster, idle.begin(), SOURCE, ["once"])
        idle.commit()

        wait_until(lambda: idle._owner() is None, "the id is forgotten again")
        successor = start(name, on=cluster)
        write(cluster, successor.begin(), SOURCE, ["by the successor"])
        with pytest.raises((Fenced, TransactionFailed)):
            write(cluster, idle.begin(), SOURCE, ["lost"])
        idle.abort()
        with pytest.raises(Fenced):
            idle.begin()
        successor.commit()
        assert read_settled(cluster, SOURCE) == ["once", "by the successor"]


# -- outcome unknown ---------------------------------------------------------------------------------------------------


def test_a_lost_answer_to_the_commit_is_made_up_for_by_asking_again(cluster, topic, start, lossy):
    name = topic()
    transaction = start(on=lossy)
    write(lossy, transaction.begin(), name, ["a"])
    lossy.loses[END_TXN] = Loses.ANSWER
    with pytest.raises(OutcomeUnknown, match="may have been carried out"):
        transaction.commit(timeout_s=0.2)
    with pytest.raises(InvariantBroken, match="cannot be aborted"):
        transaction.abort()
    lossy.loses.clear()
    transaction.commit()
    write(lossy, transaction.begin(), name, ["b"])
    transaction.commit()
    assert lossy.lost > 1
    assert read_settled(cluster, name) == ["a", "b"]


@pytest.mark.parametrize("loses", list(Loses))
def test_after_an_unknown_outcome_fencing_and_reading_tells_what_happened(cluster, topic, start, lossy, loses):
    name, group = topic(), unique("group")
    transaction = start(on=lossy)
    write(lossy, transaction.begin(), name, ["a"])
    transaction.add_offsets(group, offsets(1))
    lossy.loses[END_TXN] = loses
    with pytest.raises(OutcomeUnknown):
        transaction.commit(timeout_s=0.2)
    transaction.reclaim()
    if not committed(lossy, group):
        lossy.loses.clear()
        write(lossy, transaction.begin(), name, ["a"])
        transaction.add_offsets(group, offsets(1))
        transaction.commit()
    assert read_settled(cluster, name) == ["a"]
    assert committed(cluster, group) == offsets(1)


@pytest.mark.parametrize("loses", list(Loses))
def test_a_zombie_with_an_unknown_outcome_leaves_it_to_its_successor(cluster, topic, start, lossy, loses):
    name, group, transactional_id = topic(), unique("group"), unique("id")
    zombie = start(transactional_id, on=lossy)
    write(lossy, zombie.begin(), name, ["a"])
    zombie.add_offsets(group, offsets(1))
    lossy.loses[END_TXN] = loses
    with pytest.raises(OutcomeUnknown):
        zombie.commit(timeout_s=0.2)

    successor = start(transactional_id)
    is_done = committed(cluster, group) == offsets(1)
    assert is_done is (loses is Loses.ANSWER)
    write(cluster, successor.begin(), name, ["b"])

    lossy.loses.clear()
    with pytest.raises(OutcomeUnknown):
        zombie.commit()
    with pytest.raises(Fenced):
        zombie.reclaim()
    successor.commit()
    assert read_settled(cluster, name) == (["a", "b"] if is_done else ["b"])
