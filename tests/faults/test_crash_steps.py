"""The broker kills itself at each step of ending a transaction; after the restart every transaction is whole.

Four ways to end one: a client of the first transaction protocol (librdkafka), one of the second (KIP-890, by hand), a
client that dies together with the broker, and a successor whose InitProducerId ends what its predecessor left open.
"""

import contextlib
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from fencepost.client.raw import IN_A_MOMENT, Session
from fencepost.coordinator.txn.steps import Step
from fencepost.errors import ConnectionLost, ErrorCode
from tests.conftest import wait_until
from tests.faults.conftest import MakeBroker
from tests.faults.history import History, Outcome, Partition, Transaction, Write, anomalies
from tests.faults.observe import observe
from tests.faults.process import BrokerProcess
from tests.faults.raw import Kafka

PARTITIONS: list[Partition] = [("invoices", 0), ("invoices", 1), ("invoices", 2), ("shipments", 0), ("shipments", 1)]
SOURCE: Partition = ("purchases", 0)
GROUP = "shop"


def step_id(step: Step) -> str:
    return f"{step:d}-{step.name}"


steps = pytest.mark.parametrize("step", Step, ids=step_id)
outcomes = pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.ABORTED], ids=["commit", "abort"])


def crashing_broker(make_broker: MakeBroker, step: Step) -> BrokerProcess:
    broker = make_broker().start(crash_at=step.name)
    with broker.client() as client:
        client.create_topic("invoices", 3)
        client.create_topic("shipments", 2)
        client.create_topic("purchases")
    return broker


class RestartAtDeath:
    """Waits beside the test for the broker's end and starts it again, without the step this time."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._broker.wait_until_dead()
            self._broker.start()
        except BaseException as error:
            self._failure = error

    def wait(self) -> None:
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure


def writes(number: int) -> tuple[Write, ...]:
    """Two records for each partition, in one transaction."""
    return tuple(Write(f"t{where[0]}{where[1]}:{number * 10 + k}", where) for where in PARTITIONS for k in (0, 1))


def transaction(number: int, outcome: Outcome) -> Transaction:
    return Transaction("t", writes(number), outcome, GROUP, number)


def check(broker: BrokerProcess, *transactions: Transaction) -> None:
    with broker.client() as client:
        final = observe(client, PARTITIONS, [(GROUP, SOURCE)])
        assert anomalies(History(transactions=list(transactions)), final) == []
        for where in PARTITIONS:
            # What was acknowledged is in the log even if it was aborted, and in the order in which it was sent.
            expected = [write.value for t in transactions for write in t.writes if write.partition == where]
            assert [value for _, value in final.uncommitted[where]] == expected


# -- the first protocol, with librdkafka ------------------------------------------------------------------------------


class Librdkafka:
    def __init__(self, broker: BrokerProcess) -> None:
        common = {
            "bootstrap.servers": broker.bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            # After a re-bootstrap librdkafka 2.16 waits for ever for a group coordinator that it has forgotten.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        self._producer = Producer({**common, "transactional.id": "t", "linger.ms": 0})
        self._member = Consumer({**common, "group.id": GROUP})
        self._producer.init_transactions(30)

    def run(self, number: int, outcome: Outcome) -> Transaction:
        self._producer.begin_transaction()
        for write in writes(number):
            topic, partition = write.partition
            self._producer.produce(topic, write.value, partition=partition)
        offsets = [TopicPartition(*SOURCE, number)]
        self._producer.send_offsets_to_transaction(offsets, self._member.consumer_group_metadata(), 30)
        assert self._producer.flush(30) == 0
        end = self._producer.commit_transaction if outcome is Outcome.COMMITTED else self._producer.abort_transaction
        _until_told(lambda: end(10))
        return transaction(number, outcome)

    def close(self) -> None:
        self._member.close()


def _until_told(end: Callable[[], None]) -> None:
    """After a timeout the outcome is unknown: the only right thing is to ask again."""

    def attempt() -> bool:
        try:
            end()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    wait_until(attempt, "an answer to EndTxn", timeout_s=60)


@steps
@outcomes
def test_a_transaction_of_librdkafka_is_whole(make_broker: MakeBroker, step: Step, outcome: Outcome) -> None:
    broker = crashing_broker(make_broker, step)
    with contextlib.closing(Librdkafka(broker)) as producer:
        restart = RestartAtDeath(broker)
        first = producer.run(1, outcome)
        restart.wait()
        check(broker, first)
        second = producer.run(2, Outcome.ABORTED)
        third = producer.run(3, Outcome.COMMITTED)
        check(broker, first, second, third)


# -- the second protocol, by hand -------------------------------------------------------------------------------------


def write_transaction(client: Kafka, session: Session, number: int) -> None:
    for where in PARTITIONS:
        values = [write.value for write in writes(number) if write.partition == where]
        client.append(session, *where, values)

    def offsets_are_in() -> bool:
        code = client.commit_offsets_in_transaction(session, GROUP, {SOURCE: number})
        assert code in {ErrorCode.NONE, *IN_A_MOMENT}
        return code is ErrorCode.NONE

    wait_until(offsets_are_in, "offsets join the transaction")


def end_at_last(broker: BrokerProcess, session: Session, outcome: Outcome) -> None:
    """EndTxn again and again, each time the same, until it is answered."""

    def attempt() -> bool:
        try:
            with broker.client() as client:
                code = client.end(session, commit=outcome is Outcome.COMMITTED)
        except ConnectionLost:
            return False
        assert code in {ErrorCode.NONE, *IN_A_MOMENT}, code
        return code is ErrorCode.NONE

    wait_until(attempt, "an answer to EndTxn", timeout_s=60)


@steps
@outcomes
def test_a_transaction_of_the_second_protocol_is_whole(make_broker: MakeBroker, step: Step, outcome: Outcome) -> None:
    broker = crashing_broker(make_broker, step)
    with broker.client() as client:
        session = client.init_producer("t")
        write_transaction(client, session, 1)
    before = (session.producer_id, session.epoch)
    restart = RestartAtDeath(broker)
    end_at_last(broker, session, outcome)
    restart.wait()
    assert (session.producer_id, session.epoch) == (before[0], before[1] + 1)
    check(broker, transaction(1, outcome))
    with broker.client() as client:
        write_transaction(client, session, 2)
        assert client.end(session, commit=False) is ErrorCode.NONE
        write_transaction(client, session, 3)
        assert client.end(session, commit=True) is ErrorCode.NONE
    check(broker, transaction(1, outcome), transaction(2, Outcome.ABORTED), transaction(3, Outcome.COMMITTED))


# -- nobody comes back ------------------------------------------------------------------------------------------------


@steps
def test_a_transaction_whose_client_died_as_well_is_whole(make_broker: MakeBroker, step: Step) -> None:
    """Before the outcome is logged the timeout aborts it; after that it is carried out without anybody asking."""
    broker = crashing_broker(make_broker, step)
    with broker.client() as client:
        session = client.init_producer("t", timeout_ms=1500)
        write_transaction(client, session, 1)
        with contextlib.suppress(ConnectionLost):
            client.end(session, commit=True)
    broker.wait_until_dead()
    broker.start()
    outcome = Outcome.ABORTED if step < Step.PREPARE_APPENDED else Outcome.COMMITTED
    check(broker, transaction(1, outcome))
    with broker.client() as client:
        successor = client.init_producer("t")
        write_transaction(client, successor, 2)
        assert client.end(successor, commit=True) is ErrorCode.NONE
    check(broker, transaction(1, outcome), transaction(2, Outcome.COMMITTED))


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.ANSWERED], ids=step_id)
def test_a_transaction_that_a_successor_ends_is_whole(make_broker: MakeBroker, step: Step) -> None:
    """Nobody is told of that abort, so there is no step ANSWERED in it."""
    broker = crashing_broker(make_broker, step)
    with broker.client() as client:
        zombie = client.init_producer("t")
        write_transaction(client, zombie, 1)
    restart = RestartAtDeath(broker)

    def attempt() -> Session | None:
        try:
            with broker.client() as client:
                return client.init_producer("t")
        except ConnectionLost:
            return None

    successor = wait_until(attempt, "InitProducerId of the successor", timeout_s=60)
    restart.wait()
    check(broker, transaction(1, Outcome.ABORTED))
    with broker.client() as client:
        late = client.produce(*PARTITIONS[0], zombie.batch(*PARTITIONS[0], ["late"]), transactional_id="t", version=12)
        assert late.error in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
        assert client.end(zombie, commit=True) in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
        write_transaction(client, successor, 2)
        assert client.end(successor, commit=True) is ErrorCode.NONE
    check(broker, transaction(1, Outcome.ABORTED), transaction(2, Outcome.COMMITTED))
