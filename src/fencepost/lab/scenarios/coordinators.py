"""Scenario 5 on one broker: it dies in every state of the two-phase commit, with pending offsets, with open records.

One process is transaction coordinator, group coordinator and leader of every partition, so all of these die with it.
`cluster_failures` plays the same on three nodes of Apache Kafka.
"""

from fencepost.errors import ErrorCode
from fencepost.lab.scenarios import cluster_failures
from fencepost.lab.scenarios.books import Books, outcome
from fencepost.lab.scenarios.scenario import Needs, scenario
from fencepost.lab.scenarios.stage import Stage

#: The numbered steps at which our broker can be told to end itself.
STEPS = {
    "END_REQUESTED": "EndTxn has arrived, nothing is written",
    "PREPARE_APPENDED": "the outcome is in the log, perhaps only in memory",
    "PREPARE_DURABLE": "the outcome is on disk: there is no way back",
    "FIRST_MARKER_APPENDED": "one partition has its marker, the others do not",
    "MARKERS_APPENDED": "every partition has its marker, perhaps only in memory",
    "MARKERS_DURABLE": "the markers are on disk: readers see the outcome",
    "COMPLETE_APPENDED": "the coordinator has noted that it is done",
    "ANSWERED": "the answer is about to leave",
    "COMPLETE_DURABLE": "nothing is left to recover",
}


@scenario(5, Needs.OWN_BROKER | Needs.OUR_BROKER, on_kafka_cluster=cluster_failures.coordinator_dies)
def coordinator_dies(stage: Stage) -> None:
    """The transaction coordinator dies in every state of the two-phase commit.

    Once PREPARE is in the log, the outcome is certain. The next coordinator goes on from there.
    """
    books = Books.open(stage)
    number = 0
    for commit in (True, False):
        for step, meaning in STEPS.items():
            number += 1
            stage.tell(f"{outcome(commit)}, protocol {stage.protocol(number)}: the broker dies at {step}: {meaning}.")
            _die_at(stage, books, number, step, commit=commit)
    stage.tell("At the end, look at everything once more.")
    stage.show_lso(*books.outputs)
    stage.show_readers(*sorted({where.topic for where in books.outputs}))
    stage.show_offsets(books.group, [books.purchases], stable=True)


def _die_at(stage: Stage, books: Books, number: int, step: str, *, commit: bool) -> None:
    name = stage.name(f"shop-{number}")
    stage.kill_broker()
    stage.start_broker(crash_at=step)
    producer = stage.producer(stage.protocol(number))
    producer.init(name)
    books.write(producer, number)
    books.hear(producer.send_end(commit=commit), commit=commit)
    stage.wait_until_broker_is_dead()
    stage.start_broker()
    stage.show_log(name)
    stage.show_epochs(name)
    code = producer.end(commit=commit)
    stage.expect(f"EndTxn({outcome(commit)}) again, after the restart", code, "the producer is told that it is done")
    done = "CompleteCommit" if commit else "CompleteAbort"
    stage.wait_until_logged(name, done)
    states = stage.show_log(name)
    outcomes = {state.removeprefix("Prepare").removeprefix("Complete") for state in states} & {"Commit", "Abort"}
    stage.check(len(outcomes) == 1, f"it was decided once: {done}", states)
    books.check(number, commit=commit)


@scenario(5, Needs.OWN_BROKER, on_kafka_cluster=cluster_failures.group_coordinator_dies)
def group_coordinator_dies(stage: Stage) -> None:
    """The group coordinator dies with offsets pending.

    Offsets of an open transaction are in the log, but nobody gets them before it commits.
    """
    books = Books.open(stage)
    for number, commit in ((1, True), (2, True), (3, False)):
        protocol = stage.protocol(number)
        producer = stage.producer(protocol)
        producer.init(stage.name("shop"))
        stage.tell(f"Transaction {number}, protocol {protocol}: records, and offset {number} in it. The broker dies.")
        books.write(producer, number)
        stage.kill_broker()
        stage.start_broker()
        stage.show_epochs(stage.name("shop"))
        pending = stage.show_offsets(books.group, [books.purchases], stable=True)
        stage.check(
            pending == {str(books.purchases): ErrorCode.UNSTABLE_OFFSET_COMMIT.name},
            "the offset is still pending after the restart: require_stable makes readers wait",
            pending,
        )
        old = stage.show_offsets(books.group, [books.purchases], stable=False)
        stage.check(old == {str(books.purchases): books.offset}, "others get the offset before it", old)
        stage.tell(f"The producer ends it: {outcome(commit)}.")
        stage.expect(f"EndTxn({outcome(commit)})", producer.end(commit=commit), "it is carried out")
        books.check(number, commit=commit)
        stage.show_offsets(books.group, [books.purchases], stable=True)


@scenario(5, Needs.OWN_BROKER, on_kafka_cluster=cluster_failures.leader_dies)
def leader_dies(stage: Stage) -> None:
    """The leader of a data partition dies with a transaction open in it.

    The next leader has the log, and with it producer ids, epochs, sequences and open transactions.
    """
    books = Books.open(stage)
    where = books.outputs[stage.random.randrange(len(books.outputs))]
    for protocol in stage.protocols():
        producer = stage.producer(protocol)
        producer.init(stage.name("shop"), 120_000)
        before = stage.view.ends([where])[where].end
        stage.tell(
            f"Protocol {protocol}: a transaction is open in {stage.short(where)}. Its leader dies, and starts again."
        )
        producer.prepare([where])
        producer.produce(where, ['{"purchaseId":1}', '{"purchaseId":2}'])
        stage.show_epochs(stage.name("shop"), where)
        stage.kill_broker()
        stage.start_broker()
        stage.show_epochs(stage.name("shop"), where)
        lso, end = stage.show_lso(where)[where]
        stage.check((lso, end) == (before, before + 2), "the records are there, and still nobody sees them", (lso, end))
        stage.tell("The producer repeats its last batch, whose answer it might have missed, and goes on.")
        again = producer.produce(where, ['{"purchaseId":1}', '{"purchaseId":2}'], sequence=0)
        stage.answer(f"Produce, repeated: {again}")
        stage.check(
            again.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER or (not again.error and again.base_offset == before),
            "the repetition is recognised",
            again,
        )
        more = producer.produce(where, ['{"purchaseId":3}'])
        stage.answer(f"Produce, the next: {more}")
        code = producer.end(commit=True)
        stage.check(not more.error and not code, "the same transaction commits", (more.error.name, code.name))
        stage.wait_until_settled([where])
        seen = [e.value for e in stage.read(where.topic) if e.partition == where.partition and e.offset >= before]
        stage.show_log(stage.name("shop"))
        stage.show_lso(where)
        expected = [b'{"purchaseId":%d}' % n for n in (1, 2, 3)]
        stage.check(seen == expected, "read_committed sees all three, each once", seen)
