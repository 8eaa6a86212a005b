"""Scenario 5 on three nodes of Apache Kafka: the coordinator, the group coordinator and a leader are really killed.

Kafka cannot be stopped at a numbered step. So the coordinator dies before EndTxn, a few milliseconds after it, or after
its answer. Another node takes over each time, and the dead one is started again.
"""

import time

from fencepost.client.cluster import METADATA, Coordinates
from fencepost.errors import ConnectionLost, ErrorCode, InvariantBroken
from fencepost.lab.kit.kafka import NODES, KafkaCluster
from fencepost.lab.scenarios.books import Books, outcome
from fencepost.lab.scenarios.stage import Stage

#: How long after EndTxn was sent the coordinator dies; None for before it is sent.
MOMENTS_MS = (None, 0, 2, 5, 10, 50)
FAILOVER_S = 120.0


def coordinator_dies(stage: Stage) -> None:
    cluster = _cluster(stage)
    books = Books.open(stage)
    name = stage.name("shop")
    moments = [*MOMENTS_MS]
    stage.random.shuffle(moments)
    for number, moment_ms in enumerate(moments, 1):
        commit = stage.random.random() < 0.7
        producer = stage.producer(stage.protocol(number))
        producer.init(name, 120_000)
        node = _coordinator(stage, Coordinates.TRANSACTION, name)
        when = "before EndTxn" if moment_ms is None else f"{moment_ms} ms after EndTxn was sent"
        word = outcome(commit)
        stage.tell(f"{word}, protocol {producer.protocol}: node {node}, the coordinator, is killed {when}.")
        books.write(producer, number)
        stage.show_epochs(name)
        if moment_ms is not None:
            sent = producer.send_end(commit=commit)
            time.sleep(moment_ms / 1000)
            cluster.nodes[node].kill()
            books.hear(sent, commit=commit)
        else:
            cluster.nodes[node].kill()
        what = "the next coordinator carries it out, or knows that it is done"
        stage.expect(f"EndTxn({word}) again", producer.end(commit=commit), what)
        stage.note(f"node {_coordinator(stage, Coordinates.TRANSACTION, name)} coordinates now")
        done = "CompleteCommit" if commit else "CompleteAbort"
        stage.wait_until_logged(name, done, FAILOVER_S)
        states = stage.show_log(name)[-2:]
        stage.check(states == [done.replace("Complete", "Prepare"), done], f"the log ends with {done}", states)
        books.check(number, commit=commit, patience_s=FAILOVER_S)
        _heal(stage, cluster, node)


def group_coordinator_dies(stage: Stage) -> None:
    cluster = _cluster(stage)
    books = Books.open(stage)
    for number, commit in ((1, True), (2, False)):
        producer = stage.producer(stage.protocol(number))
        producer.init(stage.name("shop"), 120_000)
        books.write(producer, number)
        node = _coordinator(stage, Coordinates.GROUP, books.group)
        stage.tell(f"Offset {number} is pending. Node {node}, the group coordinator, is killed.")
        stage.show_offsets(books.group, [books.purchases], stable=True)
        cluster.nodes[node].kill()
        pending = stage.show_offsets(books.group, [books.purchases], stable=True)
        stage.note(f"node {_coordinator(stage, Coordinates.GROUP, books.group)} coordinates now")
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT.name
        stage.check(pending == {str(books.purchases): unstable}, "the next coordinator knows it as pending", pending)
        stage.tell(f"The producer ends the transaction: {outcome(commit)}.")
        stage.expect(f"EndTxn({outcome(commit)})", producer.end(commit=commit), "it is carried out")
        stage.show_log(stage.name("shop"))
        books.check(number, commit=commit, patience_s=FAILOVER_S)
        stage.show_offsets(books.group, [books.purchases], stable=True)
        _heal(stage, cluster, node)


def leader_dies(stage: Stage) -> None:
    cluster = _cluster(stage)
    books = Books.open(stage)
    for number in (1, 2):
        where = stage.random.choice(books.outputs)
        producer = stage.producer(stage.protocol(number))
        producer.init(stage.name("shop"), 120_000)
        books.write(producer, number)
        stage.cluster.forget_topic(where.topic)
        node = cluster.node_at(stage.cluster.leader_address(*where))
        stage.tell(f"Protocol {producer.protocol}: node {node}, leader of {stage.short(where)}, is killed.")
        stage.show_epochs(stage.name("shop"), where)
        cluster.nodes[node].kill()
        stage.show_epochs(None, where)
        stage.show_lso(where)
        stage.note(f"node {cluster.node_at(stage.cluster.leader_address(*where))} leads now")
        stage.tell("The producer repeats its batch, and commits.")
        again = producer.produce(where, [str(number)], sequence=0)
        stage.answer(f"Produce, repeated: {again}")
        is_known = not again.error or again.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        stage.check(is_known, "the new leader takes the repetition for what it is", again)
        stage.expect("EndTxn(commit)", producer.end(commit=True), "the transaction commits")
        stage.show_log(stage.name("shop"))
        books.check(number, commit=True, patience_s=FAILOVER_S)
        _heal(stage, cluster, node)


# -- inside ----------------------------------------------------------------------------------------------------------


def _cluster(stage: Stage) -> KafkaCluster:
    if not isinstance(stage.target, KafkaCluster):
        raise InvariantBroken("this is played on three nodes")
    _await_replicas(stage)
    return stage.target


def _coordinator(stage: Stage, kind: Coordinates, key: str) -> int:
    target = stage.target
    if not isinstance(target, KafkaCluster):
        raise InvariantBroken("this is played on three nodes")

    def node() -> int | None:
        stage.cluster.forget_coordinator(kind, key)
        try:
            return target.node_at(stage.cluster.coordinator(kind, key).address)
        except ConnectionLost:
            return None

    return stage.eventually(node, f"a coordinator of {key}", FAILOVER_S)


def _heal(stage: Stage, cluster: KafkaCluster, node: int) -> None:
    cluster.nodes[node].start()
    _await_replicas(stage)
    stage.note(f"node {node} is back, every replica in sync")


def _await_replicas(stage: Stage) -> None:
    """Wait until every partition has all of its replicas in sync. Only then may the next node die."""

    def in_sync() -> bool:
        answer = stage.cluster.call("replicas", METADATA, {"topics": None}, lowest=1)
        partitions = [p for topic in answer.topics for p in topic.partitions]
        return len(answer.brokers) == len(NODES) and all(len(p.isr_nodes) == len(p.replica_nodes) for p in partitions)

    stage.eventually(in_sync, "all replicas are in sync", FAILOVER_S)
