"""Scenario 5 on three nodes of Apache Kafka: the coordinator, the group coordinator and a leader are really killed.

Nothing in Kafka can be stopped at a numbered step, so the coordinator dies at moments around EndTxn: before it, after
a few milliseconds of it, and after its answer. Another node takes over each time; the dead one is started again.
"""

import time

from fencepost.client.cluster import METADATA, Coordinates
from fencepost.client.identity import TransactionProtocol
from fencepost.errors import ConnectionLost, ErrorCode, InvariantBroken
from fencepost.lab.kit.kafka import NODES, KafkaCluster
from fencepost.lab.kit.raw import RawProducer
from fencepost.lab.scenarios.books import Books
from fencepost.lab.scenarios.stage import Stage

#: How long after EndTxn was sent the coordinator dies; None for before it is sent.
MOMENTS_MS = (None, 0, 2, 5, 10, 50)
FAILOVER_S = 120.0


def _check(stage: Stage, books: Books, number: int, *, commit: bool) -> None:
    books.note(number, commit=commit)
    word = "commit" if commit else "abort"
    books.check(stage, f"every partition and the group's offset show the {word}", FAILOVER_S)


def coordinator_dies(stage: Stage) -> None:
    cluster = _cluster(stage)
    books = Books.open(stage)
    name = stage.name("shop")
    moments = [*MOMENTS_MS]
    stage.random.shuffle(moments)
    for number, moment_ms in enumerate(moments, 1):
        commit = stage.random.random() < 0.7
        word = "commit" if commit else "abort"
        producer = _producer(stage, number)
        producer.init(name, 120_000)
        codes = books.write(producer, number)
        node = _coordinator(stage, Coordinates.TRANSACTION, name)
        when = "before EndTxn" if moment_ms is None else f"{moment_ms} ms after EndTxn was sent"
        stage.tell(f"{word}, protocol {producer.protocol}: node {node}, the coordinator, is killed {when}.")
        stage.check(not any(codes), "the transaction is written", [code.name for code in codes])
        stage.show_epochs(name)
        if moment_ms is not None:
            sent = producer.send_end(commit=commit)
            time.sleep(moment_ms / 1000)
            cluster.nodes[node].kill()
            try:
                answer = sent.receive()
                stage.answer(f"EndTxn({word}): {ErrorCode(answer.error_code).name}, in time")
            except ConnectionLost:
                stage.answer(f"EndTxn({word}): the connection broke")
        else:
            cluster.nodes[node].kill()
        code = producer.end(commit=commit)
        stage.answer(f"EndTxn({word}) again: {code.name}")
        stage.check(not code, "the next coordinator carries it out, or knows that it is done", code.name)
        stage.note(f"node {_coordinator(stage, Coordinates.TRANSACTION, name)} coordinates now")
        done = "CompleteCommit" if commit else "CompleteAbort"
        _await_logged(stage, name, done)
        states = stage.show_log(name)[-2:]
        stage.check(states == [done.replace("Complete", "Prepare"), done], f"the log ends with {done}", states)
        _check(stage, books, number, commit=commit)
        _heal(stage, cluster, node)


def group_coordinator_dies(stage: Stage) -> None:
    cluster = _cluster(stage)
    books = Books.open(stage)
    for number, commit in ((1, True), (2, False)):
        word = "commit" if commit else "abort"
        producer = _producer(stage, number)
        producer.init(stage.name("shop"), 120_000)
        codes = books.write(producer, number)
        stage.check(not any(codes), "the transaction is written", [code.name for code in codes])
        node = _coordinator(stage, Coordinates.GROUP, books.group)
        stage.tell(f"Offset {number} is pending. Node {node}, the group coordinator, is killed.")
        stage.show_offsets(books.group, [books.purchases], stable=True)
        cluster.nodes[node].kill()
        pending = stage.show_offsets(books.group, [books.purchases], stable=True)
        stage.note(f"node {_coordinator(stage, Coordinates.GROUP, books.group)} coordinates now")
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT.name
        stage.check(pending == {str(books.purchases): unstable}, "the next coordinator knows it as pending", pending)
        stage.tell(f"The producer ends the transaction: {word}.")
        code = producer.end(commit=commit)
        stage.check(not code, f"EndTxn({word}) is carried out", code.name)
        stage.show_log(stage.name("shop"))
        _check(stage, books, number, commit=commit)
        stage.show_offsets(books.group, [books.purchases], stable=True)
        _heal(stage, cluster, node)


def leader_dies(stage: Stage) -> None:
    cluster = _cluster(stage)
    books = Books.open(stage)
    for number in (1, 2):
        where = stage.random.choice(books.outputs)
        producer = _producer(stage, number)
        producer.init(stage.name("shop"), 120_000)
        codes = books.write(producer, number)
        stage.check(not any(codes), "the transaction is written", [code.name for code in codes])
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
        code = producer.end(commit=True)
        stage.check(not code, "the transaction commits", code.name)
        stage.show_log(stage.name("shop"))
        _check(stage, books, number, commit=True)
        _heal(stage, cluster, node)


# -- inside ----------------------------------------------------------------------------------------------------------


def _cluster(stage: Stage) -> KafkaCluster:
    if not isinstance(stage.target, KafkaCluster):
        raise InvariantBroken("this is played on three nodes")
    _await_replicas(stage)
    return stage.target


def _producer(stage: Stage, number: int) -> RawProducer:
    protocols: list[TransactionProtocol] = stage.protocols()
    return stage.producer(protocols[(number + stage.seed) % len(protocols)])


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


def _await_logged(stage: Stage, name: str, state: str) -> None:
    stage.eventually(
        lambda: [entry.state for entry in stage.view.transaction_log(name)][-1:] == [state],
        f"{state} is logged",
        FAILOVER_S,
    )


def _heal(stage: Stage, cluster: KafkaCluster, node: int) -> None:
    cluster.nodes[node].start()
    _await_replicas(stage)
    stage.note(f"node {node} is back, every replica in sync")


def _await_replicas(stage: Stage) -> None:
    """Until every partition has all of its replicas in sync: only then may the next node die."""

    def in_sync() -> bool:
        answer = stage.cluster.call("replicas", METADATA, {"topics": None}, lowest=1)
        partitions = [p for topic in answer.topics for p in topic.partitions]
        return len(answer.brokers) == len(NODES) and all(len(p.isr_nodes) == len(p.replica_nodes) for p in partitions)

    stage.eventually(in_sync, "all replicas are in sync", FAILOVER_S)
