"""The broker kills itself at each step of ending a transaction; after the restart every transaction is whole.

Three ways to end one: a client that goes on (librdkafka, the first transaction protocol), one that dies together with
the broker, and a successor whose InitProducerId aborts what its predecessor left open (both with the second protocol).
The scenario `coordinator-dies` plays the second protocol with a client that goes on.
"""

import contextlib
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from fencepost.client.raw import IN_A_MOMENT, Partition, Session
from fencepost.coordinator.txn.steps import Step
from fencepost.errors import ConnectionLost, ErrorCode
from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.fakes.histories import Script, Write
from tests.faults.conftest import MakeBroker
from tests.faults.observe import anomalies
from tests.faults.process import BrokerProcess
from tests.faults.raw import Kafka

PARTITIONS: list[Partition] = [("invoices", 0), ("invoices", 1), ("invoices", 2), ("shipments", 0), ("shipments", 1)]
SOURCE: Partition = ("purchases", 0)
GROUP = "shop"


def step_id(step: Step) -> str:
    return f"{step:d}-{step.name}"


steps = pytest.mark.parametrize("step", Step, ids=step_id)
outcomes = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


def crashing_broker(make_broker: MakeBroker, step: Step) -> BrokerProcess:
    broker = make_broker().start(crash_at=step.name)
    with broker.client() as client:
        client.create_topic("invoices", 3)
        client.create_topic("shipments", 2)
        client.create_topic("purchases")
    return broker


class RestartAtDeath:
    """Waits in a thread for the broker's end, and restarts it without the crash step."""

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


def writes(number: int) -> list[Write]:
    """Two records for each partition, in one transaction."""
    return [(*where, f"{number}.{k}") for k, where in enumerate([*PARTITIONS, *PARTITIONS])]


def values(number: int, where: Partition) -> list[str]:
    return [value for topic, partition, value in writes(number) if (topic, partition) == where]


def check(broker: BrokerProcess, *commits: bool) -> None:
    """Check that transactions 1, 2 and so on have ended like this."""
    script = Script()
    for number, commit in enumerate(commits, 1):
        end = script.committed if commit else script.aborted
        end("t", *writes(number), group=GROUP, offsets=[[*SOURCE, number]])
    with broker.client() as client:
        assert anomalies(client, script.ops, PARTITIONS, [(GROUP, SOURCE)]) == []
        for where in PARTITIONS:
            # What was acknowledged is in the log even if it was aborted, and in the order in which it was sent.
            expected = [value for number in range(1, len(commits) + 1) for value in values(number, where)]
            assert client.read(*where, Isolation.READ_UNCOMMITTED).values == expected


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

    def run(self, number: int, *, commit: bool) -> None:
        self._producer.begin_transaction()
        for topic, partition, value in writes(number):
            self._producer.produce(topic, value, partition=partition)
        offsets = [TopicPartition(*SOURCE, number)]
        self._producer.send_offsets_to_transaction(offsets, self._member.consumer_group_metadata(), 30)
        assert self._producer.flush(30) == 0
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        _until_told(lambda: end(10))

    def close(self) -> None:
        self._member.close()


def _until_told(end: Callable[[], None]) -> None:
    """After a timeout the outcome is unknown, so the only right thing is to repeat the request."""

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
def test_a_transaction_of_librdkafka_is_whole(make_broker: MakeBroker, step: Step, commit: bool) -> None:
    broker = crashing_broker(make_broker, step)
    with contextlib.closing(Librdkafka(broker)) as producer:
        restart = RestartAtDeath(broker)
        producer.run(1, commit=commit)
        restart.wait()
        check(broker, commit)
        producer.run(2, commit=False)
        producer.run(3, commit=True)
        check(broker, commit, False, True)


# -- the second protocol, by hand: the client does not come back -------------------------------------------------------


def write_transaction(client: Kafka, session: Session, number: int) -> None:
    for where in PARTITIONS:
        client.append(session, *where, values(number, where))

    def offsets_are_in() -> bool:
        code = client.commit_offsets_in_transaction(session, GROUP, {SOURCE: number})
        assert code in {ErrorCode.NONE, *IN_A_MOMENT}
        return code is ErrorCode.NONE

    wait_until(offsets_are_in, "offsets join the transaction")


@steps
def test_a_transaction_whose_client_died_as_well_is_whole(make_broker: MakeBroker, step: Step) -> None:
    """Before the outcome is logged, the timeout aborts it. After that the broker finishes it by itself."""
    broker = crashing_broker(make_broker, step)
    with broker.client() as client:
        session = client.init_producer("t", timeout_ms=1500)
        write_transaction(client, session, 1)
        with contextlib.suppress(ConnectionLost):
            client.end(session, commit=True)
    broker.wait_until_dead()
    broker.start()
    commit = step >= Step.PREPARE_APPENDED
    check(broker, commit)
    with broker.client() as client:
        successor = client.init_producer("t")
        write_transaction(client, successor, 2)
        assert client.end(successor, commit=True) is ErrorCode.NONE
    check(broker, commit, True)


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.ANSWERED], ids=step_id)
def test_a_transaction_that_a_successor_ends_is_whole(make_broker: MakeBroker, step: Step) -> None:
    """This abort has no answer, so there is no step ANSWERED."""
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
    check(broker, False)
    with broker.client() as client:
        late = client.produce(*PARTITIONS[0], zombie.batch(*PARTITIONS[0], ["late"]), transactional_id="t", version=12)
        assert late.error in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
        assert client.end(zombie, commit=True) in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
        write_transaction(client, successor, 2)
        assert client.end(successor, commit=True) is ErrorCode.NONE
    check(broker, False, True)
