"""The shared transaction against a coordinator that is told what to answer: what each answer must come to.

`committed` is what the world would see; the point of most tests is that it and the exception never disagree.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.client import TransactionProtocol
from fencepost.client.groups import CommittedOffset
from fencepost.client.transaction import AbortedBy, SharedTransaction
from fencepost.errors import (
    ErrorCode,
    Fenced,
    InvariantBroken,
    NotAuthorized,
    OutcomeUnknown,
    Refused,
    TransactionFailed,
    TransactionTimedOut,
)
from fencepost.wire.terms import TopicPartition
from tests.fakes.frames import HANG_UP
from tests.unit.client.scripted import ScriptedBroker

INIT, ADD_OFFSETS, END, OFFSETS, DESCRIBE = 22, 25, 26, 28, 65
V1, V2 = TransactionProtocol.V1, TransactionProtocol.V2
BUSY, MOVED = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR
AWAY, UNKNOWN = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR
FENCED, OLD_EPOCH = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
FORGOTTEN = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class Coordinator:
    """A healthy one. Tests queue other answers at its broker."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.protocol = V2
        self.epoch = 3
        self.owner_state = "CompleteCommit"
        self.described_epoch: int | None = None
        broker.answers |= {INIT: self.init, END: self.end, DESCRIBE: self.describe, ADD_OFFSETS: {}, OFFSETS: {}}

    def init(self, _request: Any) -> dict[str, Any]:
        self.epoch += 1
        return {"producer_id": 9, "producer_epoch": self.epoch}

    def end(self, request: Any) -> dict[str, Any]:
        self.epoch = request.producer_epoch + (self.protocol is V2)
        return {"producer_id": 9, "producer_epoch": self.epoch}

    def describe(self, _request: Any) -> dict[str, Any]:
        epoch = self.epoch if self.described_epoch is None else self.described_epoch
        return described(epoch, self.owner_state)


def described(epoch: int, state: str) -> dict[str, Any]:
    return {"transaction_states": [{"producer_id": 9, "producer_epoch": epoch, "transaction_state": state}]}


@pytest.fixture(autouse=True)
def coordinator(broker: ScriptedBroker) -> Coordinator:
    return Coordinator(broker)


@pytest.fixture(params=[V1, V2], ids=["protocol 1", "protocol 2"])
def protocol(request: pytest.FixtureRequest) -> TransactionProtocol:
    return request.param


@pytest.fixture
def transaction(broker, cluster, coordinator: Coordinator, protocol: TransactionProtocol) -> SharedTransaction:
    """An open one, in epoch 4."""
    broker.transaction_version = coordinator.protocol = protocol
    transaction = SharedTransaction(cluster, "x")
    transaction.init()
    transaction.begin()
    broker.asked.clear()
    return transaction


# -- what is spoken ----------------------------------------------------------------------------------------------------


def test_each_protocol_has_its_requests(broker, transaction, protocol):
    transaction.add_offsets("g", {TopicPartition("t", 0): CommittedOffset(5, "note")})
    transaction.commit()
    assert broker.keys() == ([ADD_OFFSETS, OFFSETS, END] if protocol is V1 else [OFFSETS, END])
    (offsets,) = broker.requests(OFFSETS)
    (entry,) = offsets.topics[0].partitions
    assert (entry.committed_offset, entry.committed_metadata, offsets.producer_epoch) == (5, "note", 4)


def test_with_protocol_1_the_next_epoch_is_asked_for_as_the_one_we_were(broker, cluster, coordinator):
    broker.transaction_version = coordinator.protocol = V1
    transaction = SharedTransaction(cluster, "x")
    first = transaction.init()
    transaction.begin()
    transaction.commit()
    second = transaction.begin()
    asked = [(request.producer_id, request.producer_epoch) for request in broker.requests(INIT)]
    assert asked == [(-1, -1), (first.producer_id, first.epoch)]
    assert second.epoch == first.epoch + 1


def test_a_timeout_that_the_broker_does_not_allow_is_named(broker, cluster):
    broker.answers[INIT] = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    with pytest.raises(Refused, match=r"transaction\.timeout\.ms=99 .* transaction\.max\.timeout\.ms"):
        SharedTransaction(cluster, "x", timeout_ms=99).init()


# -- commit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [BUSY, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, MOVED, AWAY])
def test_a_busy_or_moved_coordinator_is_asked_again(broker, transaction, code):
    broker.queued[END] = [code, code]
    transaction.commit()
    assert len(broker.requests(END)) == 3
    assert {request.producer_epoch for request in broker.requests(END)} == {4}


def test_a_commit_whose_answer_is_lost_is_repeated_with_the_same_epoch(broker, transaction):
    broker.queued[END] = [HANG_UP]
    transaction.commit()
    assert [(r.producer_epoch, r.committed) for r in broker.requests(END)] == [(4, True), (4, True)]


def test_after_an_unknown_outcome_the_id_is_reclaimed_as_the_one_we_were(broker, transaction):
    before = transaction.identity
    broker.queued[END] = [HANG_UP] * 1000
    with pytest.raises(OutcomeUnknown):
        transaction.commit(timeout_s=0.05)
    transaction.reclaim()
    (request,) = broker.requests(INIT)
    assert (request.producer_id, request.producer_epoch) == (before.producer_id, before.epoch)
    assert transaction.begin().epoch > before.epoch


@pytest.mark.parametrize(
    ("answers", "owner", "error", "words"),
    [
        pytest.param([FENCED], (6, "Ongoing"), Fenced, "another producer", id="fenced"),
        pytest.param([OLD_EPOCH], (6, "Ongoing"), Fenced, "another producer", id="old epoch"),
        pytest.param([FENCED], (5, "CompleteAbort"), TransactionFailed, "took over its id", id="aborted in time"),
        # The first may have been carried out, and a successor have taken over since.
        pytest.param([HANG_UP, FENCED], (6, "Empty"), OutcomeUnknown, "retry was refused", id="lost, fenced"),
        pytest.param([HANG_UP, FORGOTTEN], (6, "Empty"), OutcomeUnknown, "retry was refused", id="lost, forgotten"),
        # A coordinator that moved in the middle may have carried it out; one that was merely busy has not.
        pytest.param([MOVED, FENCED], (9, "Empty"), OutcomeUnknown, "retry was refused", id="moved, fenced"),
        pytest.param([AWAY, FENCED], (9, "Empty"), OutcomeUnknown, "retry was refused", id="away, fenced"),
        pytest.param([BUSY, FENCED], (9, "Empty"), Fenced, "another producer", id="busy, fenced"),
        pytest.param([UNKNOWN], (4, "Ongoing"), OutcomeUnknown, "UNKNOWN_SERVER_ERROR", id="unknown error"),
    ],
)
def test_a_commit_that_is_refused_is_unknown_unless_it_is_certain(
    broker, transaction, coordinator, answers, owner, error, words
):
    broker.queued[END] = list(answers)
    coordinator.described_epoch, coordinator.owner_state = owner
    with pytest.raises(error, match=words):
        transaction.commit()
    if error is OutcomeUnknown:
        with pytest.raises(InvariantBroken, match="cannot be aborted"):
            transaction.abort()


@pytest.mark.parametrize("code", [FENCED, ErrorCode.INVALID_TXN_STATE])
def test_a_timeout_after_a_lost_answer_is_certain_with_protocol_2_alone(
    broker, transaction, coordinator, protocol, code
):
    """With protocol 1 the raised epoch may be a successor's, which aborted a transaction of its own."""
    transaction._opened_s -= 61
    broker.queued[END] = [HANG_UP, code]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    expected: type[Exception] = TransactionTimedOut
    if protocol is V1:
        expected = OutcomeUnknown if code is FENCED else TransactionFailed
    with pytest.raises(expected):
        transaction.commit()


def test_a_coordinator_that_will_not_describe_leaves_it_at_fenced(broker, transaction):
    broker.queued[END] = [FENCED]
    unknown = {"transactional_id": "x", "error_code": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    broker.queued[DESCRIBE] = [{"transaction_states": [unknown]}]
    with pytest.raises(Fenced):
        transaction.commit()


def test_an_empty_transaction_cannot_be_committed_and_the_next_one_can(broker, transaction):
    broker.queued[END] = [ErrorCode.INVALID_TXN_STATE]
    with pytest.raises(TransactionFailed, match="not open"):
        transaction.commit()
    transaction.begin()
    transaction.commit()


def test_a_commit_without_the_right_names_it_and_may_be_aborted(broker, transaction, protocol):
    broker.queued[END] = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    with pytest.raises(NotAuthorized, match="Write on transactional id 'x'"):
        transaction.commit()
    transaction.abort()
    assert aborts(broker, protocol) == 1


def test_a_commit_that_was_refused_may_be_aborted(broker, transaction, protocol):
    broker.queued[END] = [ErrorCode.TRANSACTION_ABORTABLE]
    with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE"):
        transaction.commit()
    assert transaction.abort() is AbortedBy.US
    assert aborts(broker, protocol) == 1


def test_a_commit_that_could_not_be_sent_is_not_carried_out(broker, transaction):
    broker.close()
    with pytest.raises(TransactionFailed, match="was not sent"):
        transaction.commit(timeout_s=0.1)


# -- abort and reclaim -------------------------------------------------------------------------------------------------


def aborts(broker: ScriptedBroker, protocol: TransactionProtocol) -> int:
    """How often the coordinator was asked to abort."""
    if protocol is V1:
        return len(broker.requests(INIT))
    return sum(not request.committed for request in broker.requests(END))


def test_an_abort_is_repeated_until_it_is_answered(broker, transaction, protocol):
    broker.queued[INIT if protocol is V1 else END] = [HANG_UP, BUSY]
    assert transaction.abort() is AbortedBy.US
    assert aborts(broker, protocol) == 3


def test_with_protocol_1_an_abort_raises_the_epoch_so_that_late_writers_are_refused(broker, cluster, coordinator):
    broker.transaction_version = coordinator.protocol = V1
    transaction = SharedTransaction(cluster, "x")
    transaction.init()
    first = transaction.begin()
    transaction.abort()
    assert broker.requests(END) == []
    assert broker.requests(INIT)[-1].producer_epoch == first.epoch
    assert transaction.begin().epoch > first.epoch
    assert len(broker.requests(INIT)) == 2, "beginning needs no other epoch"


def test_brokers_that_cannot_describe_transactions_are_asked_to_abort_with_protocol_1_too(broker, cluster, coordinator):
    broker.transaction_version, broker.versions[DESCRIBE] = 1, (-1, -1)
    coordinator.protocol = V1
    transaction = SharedTransaction(cluster, "x")
    transaction.init()
    transaction.begin()
    assert transaction.abort() is AbortedBy.US
    assert [request.committed for request in broker.requests(END)] == [False]


def test_there_is_nothing_to_abort_in_a_transaction_that_wrote_nothing(broker, transaction):
    broker.queued[END] = [ErrorCode.INVALID_TXN_STATE]
    assert transaction.abort() is AbortedBy.US
    transaction.begin()


def test_an_abort_that_the_coordinator_had_done_already_is_one(broker, transaction, coordinator):
    broker.queued[END] = [FENCED]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    assert transaction.abort() is AbortedBy.TIMEOUT
    transaction.begin()
    assert [request.producer_epoch for request in broker.requests(INIT)] == [5], "as the one that the coordinator made"


def test_an_open_transaction_is_reclaimed_in_the_two_steps_that_kafka_takes(broker, transaction, coordinator):
    """It aborts, asks to be asked again, and then knows the epoch that it raised and no other."""
    coordinator.epoch, coordinator.owner_state = 4, "Ongoing"

    def abort_first(_request):
        coordinator.owner_state, coordinator.epoch = "PrepareAbort", 5
        return BUSY

    broker.queued[INIT] = [abort_first]
    assert transaction.reclaim().epoch == 6
    assert [request.producer_epoch for request in broker.requests(INIT)] == [4, 5]


def test_an_owner_that_changes_while_we_ask_is_looked_at_again(broker, transaction, coordinator):
    broker.queued[INIT] = [FENCED]
    broker.queued[DESCRIBE] = [described(4, "CompleteCommit")]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    transaction.reclaim()
    assert [request.producer_epoch for request in broker.requests(INIT)] == [4, 5]


def test_an_id_is_reclaimed_from_brokers_that_cannot_describe_transactions(broker, cluster):
    broker.transaction_version, broker.versions[DESCRIBE] = 1, (-1, -1)
    transaction = SharedTransaction(cluster, "x")
    transaction.init()
    transaction.begin()
    transaction.commit()
    transaction.begin()


def test_a_fenced_producer_does_not_take_the_id_back(broker, transaction, coordinator):
    fenced: list[Callable[[], Any]] = [transaction.abort, transaction.begin, transaction.reclaim]
    coordinator.owner_state, coordinator.described_epoch = "Ongoing", 6
    broker.queued = {END: [FENCED]}
    for step in fenced:
        with pytest.raises(Fenced):
            step()
    assert broker.requests(INIT) == [], "Kafka would abort the successor's transaction"


def test_a_fenced_producer_asks_for_nothing_while_its_successor_rests(broker, transaction, coordinator):
    """The successor may begin a transaction before the request arrives."""
    coordinator.owner_state, coordinator.described_epoch = "CompleteCommit", 6
    broker.queued = {END: [FENCED]}
    for step in (transaction.abort, transaction.begin, transaction.reclaim):
        with pytest.raises(Fenced):
            step()
    assert broker.requests(INIT) == []


def test_an_abort_does_not_take_the_id_from_who_took_it_before_anything_was_written(broker, transaction, coordinator):
    coordinator.owner_state, coordinator.described_epoch = "Empty", 5
    broker.queued = {END: [FENCED]}
    with pytest.raises(Fenced):
        transaction.abort()
    assert broker.requests(INIT) == []


def test_a_successor_that_has_already_aborted_something_is_still_a_successor(broker, transaction, coordinator):
    broker.queued = {END: [FENCED], INIT: [FENCED]}
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 7
    with pytest.raises(Fenced):
        transaction.abort()


# -- offsets -----------------------------------------------------------------------------------------------------------


def offsets_answer(code: ErrorCode) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": code}]}]}


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, Fenced, "fenced"),
        (ErrorCode.UNKNOWN_MEMBER_ID, TransactionFailed, "group of its own"),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, TransactionFailed, r"offset\.metadata\.max\.bytes"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, NotAuthorized, "Read on group 'g'"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NotAuthorized, "Read on topic 't'"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NotAuthorized, "Write on transactional id "),
    ],
)
def test_offsets_that_are_refused_say_why(broker, transaction, code, error, words):
    broker.queued[OFFSETS] = [offsets_answer(code)]
    with pytest.raises(error, match=words):
        transaction.add_offsets("g", {TopicPartition("t", 0): CommittedOffset(1)})


def test_offsets_are_sent_again_after_a_lost_answer(broker, transaction):
    broker.queued[OFFSETS] = [HANG_UP, offsets_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    transaction.add_offsets("g", {TopicPartition("t", 0): CommittedOffset(1)})
    assert len(broker.requests(OFFSETS)) == 3


def test_steps_out_of_order_are_a_bug(cluster):
    transaction = SharedTransaction(cluster, "x")
    for step in (transaction.begin, transaction.commit, transaction.reclaim, lambda: transaction.identity):
        with pytest.raises(InvariantBroken):
            step()
    transaction.init()
    for step in (transaction.commit, lambda: transaction.add_offsets("g", {})):
        with pytest.raises(InvariantBroken):
            step()
    assert transaction.abort() is AbortedBy.US
