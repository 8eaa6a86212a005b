"""What has gone wrong with Kafka's transactions elsewhere, each as a test.

The tests that use `client` also run on Apache Kafka (`--bootstrap HOST:PORT`). The others restart the broker.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.client.raw import (
    END_TXN_V1,
    END_TXN_V2,
    PRODUCE_V1,
    PRODUCE_V2,
    Partition,
    Session,
    now_ms,
    patiently,
    visible_records,
)
from fencepost.errors import ConnectionLost, ErrorCode
from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.faults.conftest import MakeBroker
from tests.faults.observe import settled
from tests.faults.raw import Address, Kafka

FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
NONE = ErrorCode.NONE
_names = itertools.count()


@pytest.fixture
def client(address: Address) -> Iterator[Kafka]:
    with Kafka(address) as client:
        yield client


@pytest.fixture
def name() -> str:
    """For the topic, the group and the transactional id of one test."""
    return f"trap-{next(_names)}-{now_ms()}"


def begin_v1(client: Kafka, session: Session, *partitions: Partition) -> None:
    """Register partitions. Repeats it while the last transaction is being ended."""

    def registered() -> bool:
        code = client.add_partitions(session, partitions)
        assert code in {NONE, ErrorCode.CONCURRENT_TRANSACTIONS}, code
        return code is NONE

    wait_until(registered, "the partitions are registered")


def start(client: Kafka, name: str, *, partitions: int = 1, timeout_ms: int = 60_000) -> Session:
    client.create_topic(name, partitions)
    client.find_coordinator(name)
    return client.init_producer(name, timeout_ms=timeout_ms)


def end_v1(client: Kafka, session: Session, *, commit: bool) -> None:
    assert client.end(session, commit=commit, version=END_TXN_V1) is NONE


# -- hanging transactions ---------------------------------------------------------------------------------------------


refusals = pytest.mark.parametrize(
    ("version", "expected"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)


@refusals
@pytest.mark.parametrize("begun", [True, False])
def test_a_batch_for_a_partition_outside_of_the_transaction_is_refused(
    client: Kafka, name: str, version: int, expected: ErrorCode, begun: bool
) -> None:
    session = start(client, name, partitions=2)
    if begun:
        begin_v1(client, session, (name, 0))
    result = client.produce(name, 1, session.batch(name, 1, ["stray"]), transactional_id=name, version=version)
    assert result.error is expected
    assert client.read(name, 1, Isolation.READ_UNCOMMITTED).high_watermark == 0
    client.write(name, 1, ["behind"])
    assert client.read(name, 1).values == ["behind"]
    if begun:
        end_v1(client, session, commit=False)


@refusals
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_batch_that_comes_after_the_end_opens_no_hanging_transaction(
    client: Kafka, name: str, version: int, expected: ErrorCode, commit: bool
) -> None:
    """In the first protocol the epoch is still the same. Only the coordinator knows that the transaction is over."""
    session = start(client, name)
    begin_v1(client, session, (name, 0))
    client.append(session, name, 0, ["in time"], version=PRODUCE_V1)
    end_v1(client, session, commit=commit)
    settled(client, [(name, 0)], only=name)
    late = client.produce(name, 0, session.batch(name, 0, ["late"]), transactional_id=name, version=version)
    assert late.error is expected
    settled(client, [(name, 0)], only=name)
    assert client.read(name, 0).values == (["in time"] if commit else [])


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_in_the_second_protocol_a_late_batch_has_an_old_epoch(client: Kafka, name: str, commit: bool) -> None:
    session = start(client, name)
    client.append(session, name, 0, ["in time"])
    late = session.batch(name, 0, ["late"])
    assert client.end(session, commit=commit) is NONE
    settled(client, [(name, 0)], only=name)
    assert client.produce(name, 0, late, transactional_id=name, version=PRODUCE_V2).error in FENCED
    old = client.produce(name, 0, late, transactional_id=name, version=9).error
    assert old in {*FENCED, ErrorCode.INVALID_TXN_STATE}
    assert client.read(name, 0).high_watermark == 2
    client.append(session, name, 0, ["next"])
    assert client.produce(name, 0, late, transactional_id=name, version=PRODUCE_V2).error in FENCED
    assert client.end(session, commit=True) is NONE
    settled(client, [(name, 0)], only=name)
    assert client.read(name, 0).values == (["in time", "next"] if commit else ["next"])


@pytest.mark.parametrize("protocol", [1, 2])
def test_batches_racing_with_the_end_leave_nothing_open(client: Kafka, name: str, protocol: int) -> None:
    """Produce and EndTxn on different connections. Whichever comes first, nothing stays open after the marker."""
    session = start(client, name, partitions=2)
    version = PRODUCE_V2 if protocol == 2 else 9
    stopping = threading.Event()

    def write() -> None:
        with Kafka(client.address) as other:
            while not stopping.is_set():
                copy = Session(session.producer_id, session.epoch, name, dict(session.sequences))
                other.produce(name, 1, copy.batch(name, 1, ["racing"]), transactional_id=name, version=version)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        for number in range(60):
            if protocol == 1:
                begin_v1(client, session, (name, 0), (name, 1))
            client.append(session, name, 0, [f"v:{number}"], version=version)
            version_of_end = 5 if protocol == 2 else END_TXN_V1
            code = _end(client, session, commit=number % 2 == 0, version=version_of_end)
            assert code is NONE
    finally:
        stopping.set()
        thread.join(20)
    if protocol == 2:
        client.end(session, commit=False)  # what the racer may have begun
    settled(client, [(name, 0), (name, 1)], only=name)


def test_a_reader_is_held_up_no_longer_than_the_timeout(client: Kafka, name: str) -> None:
    """A long poll behind an abandoned transaction is answered when the timeout aborts it."""
    session = start(client, name, timeout_ms=1000)
    client.append(session, name, 0, ["abandoned"])
    client.write(name, 0, ["behind"])
    got: list[str] = []
    deadline = time.monotonic() + 20
    while not got and time.monotonic() < deadline:
        result = client.fetch_once(name, 0, 0, Isolation.READ_COMMITTED, max_wait_ms=10_000)
        aborted = [(a.first_offset, a.producer_id) for a in result.aborted_transactions or ()]
        got += [record.value.decode() for record in visible_records(bytes(result.records), 0, aborted, [])[0]]  # type: ignore[union-attr]
    assert got == ["behind"]
    late = client.produce(name, 0, session.batch(name, 0, ["late"]), transactional_id=name, version=PRODUCE_V2)
    assert late.error in FENCED
    assert client.end(session, commit=True) in {*FENCED, ErrorCode.INVALID_TXN_STATE}
    settled(client, [(name, 0)], only=name)


# -- late and repeated EndTxn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("late_commit", [True, False], ids=["late commit", "late abort"])
def test_a_late_end_cannot_end_the_next_transaction(client: Kafka, name: str, late_commit: bool) -> None:
    """KAFKA-17754: after a pause the EndTxn of the transaction before arrives once more."""
    session = start(client, name)
    before = Session(session.producer_id, session.epoch, name)
    client.append(session, name, 0, ["first"])
    assert client.end(session, commit=late_commit) is NONE
    client.append(session, name, 0, ["second"])
    assert client.end(before, commit=late_commit) in FENCED
    assert client.end(before, commit=not late_commit) in {*FENCED, ErrorCode.INVALID_TXN_STATE}
    assert client.describe_transaction(name).transaction_state == "Ongoing"
    assert client.end(session, commit=not late_commit) is NONE
    settled(client, [(name, 0)], only=name)
    assert client.read(name, 0).values == (["first"] if late_commit else ["second"])


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_repeated_end_is_answered_like_the_first(client: Kafka, name: str, commit: bool) -> None:
    session = start(client, name)
    before = Session(session.producer_id, session.epoch, name)
    client.append(session, name, 0, ["v"])
    assert client.end(session, commit=commit) is NONE
    for _ in range(3):
        again = replace(before, sequences={})
        assert _end(client, again, commit=commit) is NONE
        assert (again.producer_id, again.epoch) == (session.producer_id, session.epoch)
    opposite = client.end(replace(before, sequences={}), commit=not commit)
    assert opposite in {ErrorCode.INVALID_TXN_STATE, *FENCED}
    settled(client, [(name, 0)], only=name)
    assert client.read(name, 0).values == (["v"] if commit else [])


def _end(client: Kafka, session: Session, *, commit: bool, version: int = END_TXN_V2) -> ErrorCode:
    """EndTxn, repeated while the coordinator is busy with this id."""
    return patiently(lambda: client.end(session, commit=commit, version=version))


def test_ending_nothing(client: Kafka, name: str) -> None:
    session = start(client, name)
    assert client.end(session, commit=True, version=END_TXN_V1) is ErrorCode.INVALID_TXN_STATE
    assert client.end(session, commit=True) is ErrorCode.INVALID_TXN_STATE
    epoch = session.epoch
    assert client.end(session, commit=False) is NONE  # a client of the second protocol need not know
    assert session.epoch == epoch + 1


def test_sequences_of_an_ended_transaction_are_not_taken_for_a_repetition(
    client: Kafka, name: str, is_kafka: bool
) -> None:
    """librdkafka 2.16 does this after an abort that purged a batch whose answer was lost.

    Apache Kafka acknowledges the second transaction's record and drops it.
    """
    session = start(client, name)
    begin_v1(client, session, (name, 0))
    batch = session.batch(name, 0, ["purged, though it had arrived"], sequence=0)
    assert client.produce(name, 0, batch, transactional_id=name).error is NONE
    assert client.produce(name, 0, batch, transactional_id=name).error is NONE  # a true repetition
    end_v1(client, session, commit=False)
    begin_v1(client, session, (name, 0))
    other = session.batch(name, 0, ["something else"], sequence=0)
    result = client.produce(name, 0, other, transactional_id=name)
    if is_kafka:
        assert result.error is NONE
    else:
        assert result.error is ErrorCode.UNKNOWN_PRODUCER_ID
    end_v1(client, session, commit=False)


@pytest.fixture(scope="module")
def is_kafka(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--bootstrap"))


# -- what a transaction has written to is gone ------------------------------------------------------------------------


@pytest.mark.parametrize("recreate", [False, True], ids=["deleted", "created again"])
@pytest.mark.parametrize("crash_at", [None, "PREPARE_DURABLE"])
def test_a_topic_deleted_inside_a_transaction_does_not_keep_it_open(
    make_broker: MakeBroker, recreate: bool, crash_at: str | None
) -> None:
    """No marker can be written there any more. The other partitions and the coordinator must not wait for it."""
    broker = make_broker().start(crash_at=crash_at)
    with broker.client() as client:
        for topic in ("kept", "deleted"):
            client.create_topic(topic)
        session = client.init_producer("tx")
        client.append(session, "kept", 0, ["v"])
        client.append(session, "deleted", 0, ["v"])
        assert client.delete_topic("deleted") is NONE
        if recreate:
            client.create_topic("deleted")
        with contextlib.suppress(ConnectionLost):
            assert client.end(session, commit=True) is NONE
    if crash_at is not None:
        broker.wait_until_dead()
        broker.start()
    with broker.client() as client:
        settled(client, [("kept", 0)])
        assert client.read("kept", 0).values == ["v"]
        if recreate:
            settled(client, [("deleted", 0)])
            assert client.read("deleted", 0).values == []
        successor = client.init_producer("tx")
        client.append(successor, "kept", 0, ["w"])
        assert client.end(successor, commit=True) is NONE
    broker.restart(kill=True)
    with broker.client() as client:
        settled(client, [("kept", 0)])
        assert client.read("kept", 0).values[-1:] == ["w"]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_records_deleted_inside_a_transaction(make_broker: MakeBroker, commit: bool) -> None:
    broker = make_broker({"internal.segment.bytes": "2000"}).start()
    with broker.client() as client:
        client.create_topic("t")
        session = client.init_producer("tx")
        for number in range(10):
            client.append(session, "t", 0, [f"{number}:" + "x" * 300])
        client.write("t", 0, ["plain"])
        deleted = {"name": "t", "partitions": [{"partition_index": 0, "offset": 5}]}
        answer = client.call(21, 1, topics=[deleted], timeout_ms=5000)
        assert (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].low_watermark) == (0, 5)
        assert client.read("t", 0).values == []
    broker.restart(kill=True)
    with broker.client() as client:
        assert client.read("t", 0).values == []
        assert client.end(session, commit=commit) is NONE
        settled(client, [("t", 0)])
        view = client.read("t", 0)
        kept = [f"{n}:" + "x" * 300 for n in range(view.log_start_offset, 10)] if commit else []
        assert view.values == [*kept, "plain"]


def test_a_v1_client_may_become_a_v2_client_between_its_transactions(make_broker: MakeBroker) -> None:
    broker = make_broker().start()
    with broker.client() as client:
        session = start(client, "t")
        expected = []
        for number in range(8):
            if number % 2:
                client.append(session, "t", 0, [f"v:{number}"])
                assert client.end(session, commit=number % 3 != 0) is NONE
            else:
                begin_v1(client, session, ("t", 0))
                client.append(session, "t", 0, [f"v:{number}"], version=PRODUCE_V1)
                end_v1(client, session, commit=number % 3 != 0)
            expected += [f"v:{number}"] if number % 3 else []
            if number == 4:
                broker.restart(kill=True)
                client.close()
                client.__init__(broker.address)  # type: ignore[misc]
        settled(client, [("t", 0)])
        assert client.read("t", 0).values == expected
