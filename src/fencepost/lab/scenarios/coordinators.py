"""Scenario 5 on one broker: it dies in every state of the two-phase commit, with pending offsets, with open records.

One process is coordinator of transactions, coordinator of groups and leader of every partition, so each of these dies
with it. `cluster_failures` plays the same on three nodes of Apache Kafka.
"""

from fencepost.client.identity import TransactionProtocol
from fencepost.errors import ConnectionLost, ErrorCode
from fencepost.lab.scenarios import cluster_failures
from fencepost.lab.scenarios.books import Books
from fencepost.lab.scenarios.scenario import Needs, Scenario
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


def coordinator_dies(stage: Stage) -> None:
    books = Books.open(stage)
    protocols = stage.protocols()
    number = 0
    for commit in (True, False):
        for step, meaning in STEPS.items():
            number += 1
            protocol = protocols[(number + stage.seed) % len(protocols)]
            _die_at(stage, books, number, protocol, step, meaning, commit=commit)
    stage.tell("At the end, look at everything once more.")
    stage.show_lso(*books.outputs)
    stage.show_readers(*sorted({where.topic for where in books.outputs}))
    stage.show_offsets(books.group, [books.purchases], stable=True)


def _die_at(
    stage: Stage,
    books: Books,
    number: int,
    protocol: TransactionProtocol,
    step: str,
    meaning: str,
    *,
    commit: bool,
) -> None:
    word = "commit" if commit else "abort"
    name = stage.name(f"shop-{number}")
    stage.kill_broker()
    stage.start_broker(crash_at=step)
    producer = stage.producer(protocol)
    producer.init(name)
    codes = books.write(producer, number)
    stage.tell(f"{word}, protocol {protocol}: the broker dies at {step}: {meaning}.")
    stage.check(not any(codes), "the transaction is written", [code.name for code in codes])
    sent = producer.send_end(commit=commit)
    try:
        answer = sent.receive()
        stage.answer(f"EndTxn({word}): {ErrorCode(answer.error_code).name}, in time")
    except ConnectionLost:
        stage.answer(f"EndTxn({word}): the connection broke")
    stage.wait_until_broker_is_dead()
    stage.start_broker()
    stage.show_log(name)
    stage.show_epochs(name)
    code = producer.end(commit=commit)
    stage.answer(f"EndTxn({word}) again, after the restart: {code.name}")
    stage.check(not code, "the producer is told that it is done", code.name)
    done = "CompleteCommit" if commit else "CompleteAbort"
    stage.eventually(lambda: [e.state for e in stage.view.transaction_log(name)][-1:] == [done], f"{done} is logged")
    states = stage.show_log(name)
    stage.check(_outcomes(states) == 1, f"it was decided once: {done}", states)
    books.note(number, commit=commit)
    books.check(stage, f"every partition and the group's offset show the {word}")


def _outcomes(states: list[str]) -> int:
    """How many different outcomes were logged."""
    return len({state.removeprefix("Prepare").removeprefix("Complete") for state in states} & {"Commit", "Abort"})


def group_coordinator_dies(stage: Stage) -> None:
    books = Books.open(stage)
    for number, commit in ((1, True), (2, True), (3, False)):
        word = "commit" if commit else "abort"
        protocol = stage.protocols()[(number + stage.seed) % len(stage.protocols())]
        producer = stage.producer(protocol)
        producer.init(stage.name("shop"))
        stage.tell(f"Transaction {number}, protocol {protocol}: records, and offset {number} in it. The broker dies.")
        codes = books.write(producer, number)
        stage.check(not any(codes), "the transaction is written", [code.name for code in codes])
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
        stage.check(old == {str(books.purchases): books.offset}, "everybody else gets the offset before it", old)
        stage.tell(f"The producer ends it: {word}.")
        code = producer.end(commit=commit)
        stage.check(not code, f"EndTxn({word}) is carried out", code.name)
        books.note(number, commit=commit)
        books.check(stage, f"offset and records show the {word}")
        stage.show_offsets(books.group, [books.purchases], stable=True)


def leader_dies(stage: Stage) -> None:
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
        stage.eventually(
            lambda: stage.view.ends([where])[where].lso == stage.view.ends([where])[where].end, "markers are written"
        )
        seen = [e.value for e in stage.read(where.topic) if e.partition == where.partition and e.offset >= before]
        stage.show_log(stage.name("shop"))
        stage.show_lso(where)
        expected = [b'{"purchaseId":%d}' % n for n in (1, 2, 3)]
        stage.check(seen == expected, "read_committed sees all three, each once", seen)


SCENARIOS = [
    Scenario(
        "coordinator-dies",
        5,
        "The transaction coordinator dies in every state of the two-phase commit",
        "Once PREPARE is in the log the outcome is certain; whoever coordinates next goes on from there.",
        coordinator_dies,
        Needs.OWN_BROKER | Needs.OUR_BROKER,
        cluster_failures.coordinator_dies,
    ),
    Scenario(
        "group-coordinator-dies",
        5,
        "The group coordinator dies with offsets pending",
        "Offsets of an open transaction are in the log, and not given to anybody before it commits.",
        group_coordinator_dies,
        Needs.OWN_BROKER,
        cluster_failures.group_coordinator_dies,
    ),
    Scenario(
        "leader-dies",
        5,
        "The leader of a data partition dies with a transaction open in it",
        "The next leader has the log, and with it producer ids, epochs, sequences and open transactions.",
        leader_dies,
        Needs.OWN_BROKER,
        cluster_failures.leader_dies,
    ),
]
