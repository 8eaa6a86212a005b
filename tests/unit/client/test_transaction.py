"""The shared transaction against a coordinator that is told what to answer: what each answer must come to.

`committed` is what the world would see; the point of most tests is that it and the exception never disagree.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.client import Cluster, TransactionProtocol
from fencepost.client.groups import CommittedOffset
from fencepost.client.transaction import AbortedBy, SharedTransaction
from fencepost.errors import (
    ErrorCode,
    Fenced,
    InvariantBroken,
    OutcomeUnknown,
    Refused,
    TransactionFailed,
    TransactionTimedOut,
)
from fencepost.wire.terms import TopicPartition
from tests.fakes.frames import HANG_UP
from tests.unit.client.scripted import ScriptedBroker, settings

INIT, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSETS, DESCRIBE = 22, 24, 25, 26, 28, 65
V1, V2 = TransactionProtocol.V1, TransactionProtocol.V2


class Coordinator:
    """Answers as a healthy one does, except where `answers` has a queue for that request."""

    def __init__(self) -> None:
        self.protocol = V2
        self.epoch = 3
        self.owner_state = "CompleteCommit"
        self.described_epoch: int | None = None
        self.answers: dict[int, list[Any]] = {}

    def __call__(self, api_key: int, request: Any) -> Any:
        queued = self.answers.get(api_key)
        if queued:
            answer = queued.pop(0)
            return {"error_code": answer} if isinstance(answer, int) else answer
        if api_key == INIT:
            self.epoch += 1
            return {"producer_id": 9, "producer_epoch": self.epoch}
        if api_key == END:
            self.epoch = request.producer_epoch + (self.protocol is V2)
            return {"producer_id": 9, "producer_epoch": self.epoch}
        if api_key == DESCRIBE:
            state = {"transactional_id": "x", "producer_id": 9, "transaction_state": self.owner_state}
            state["producer_epoch"] = self.epoch if self.described_epoch is None else self.described_epoch
            return {"transaction_states": [state]}
        if api_key in (ADD_PARTITIONS, OFFSETS):
            return {}
        return {} if api_key == ADD_OFFSETS else None


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture(params=[V1, V2], ids=["protocol 1", "protocol 2"])
def protocol(request: pytest.FixtureRequest) -> TransactionProtocol:
    return request.param


@pytest.fixture
def opened(coordinator: Coordinator, protocol: TransactionProtocol):
    coordinator.protocol = protocol
    with ScriptedBroker(coordinator, transaction_version=protocol) as broker, Cluster(settings(broker)) as cluster:
        transaction = SharedTransaction(cluster, "x")
        transaction.init()
        transaction.begin()
        broker.asked.clear()
        yield transaction, broker


def sent(broker: ScriptedBroker, api_key: int) -> list[Any]:
    return [request for key, request in broker.asked if key == api_key]


# -- what is spoken ----------------------------------------------------------------------------------------------------


def test_each_protocol_has_its_requests(opened, protocol):
    transaction, broker = opened
    transaction.add_offsets("g", {TopicPartition("t", 0): CommittedOffset(5, "note")})
    transaction.commit()
    assert broker.keys() == ([ADD_OFFSETS, OFFSETS, END] if protocol is V1 else [OFFSETS, END])
    (offsets,) = sent(broker, OFFSETS)
    (entry,) = offsets.topics[0].partitions
    assert (entry.committed_offset, entry.committed_metadata, offsets.producer_epoch) == (5, "note", 4)


def test_every_transaction_has_an_epoch_of_its_own(opened):
    transaction, _ = opened
    epochs = []
    for end in (transaction.commit, transaction.abort, transaction.commit):
        epochs.append(transaction.identity.epoch)
        end()
        transaction.begin()
    assert len(set(epochs)) == 3
    assert epochs == sorted(epochs)


def test_with_protocol_1_the_next_epoch_is_asked_for_as_the_one_we_were(coordinator):
    coordinator.protocol = V1
    with ScriptedBroker(coordinator, transaction_version=1) as broker, Cluster(settings(broker)) as cluster:
        transaction = SharedTransaction(cluster, "x")
        first = transaction.init()
        transaction.begin()
        transaction.commit()
        second = transaction.begin()
        asked = [(request.producer_id, request.producer_epoch) for request in sent(broker, INIT)]
        assert asked == [(-1, -1), (first.producer_id, first.epoch)]
        assert second.epoch == first.epoch + 1


def test_another_process_can_end_it_with_the_identity_alone(opened, coordinator):
    transaction, broker = opened
    with Cluster(settings(broker)) as elsewhere:
        SharedTransaction.join(elsewhere, transaction.identity).commit()
    (request,) = sent(broker, END)
    assert (request.producer_epoch, request.committed) == (4, True)


def test_a_timeout_that_the_broker_does_not_allow_is_named(coordinator):
    coordinator.answers[INIT] = [ErrorCode.INVALID_TRANSACTION_TIMEOUT]
    with (
        ScriptedBroker(coordinator) as broker,
        Cluster(settings(broker)) as cluster,
        pytest.raises(Refused, match=r"transaction\.timeout\.ms=99 .* transaction\.max\.timeout\.ms"),
    ):
        SharedTransaction(cluster, "x", timeout_ms=99).init()


# -- commit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_a_busy_or_moved_coordinator_is_asked_again(opened, coordinator, code):
    transaction, broker = opened
    coordinator.answers[END] = [code, code]
    transaction.commit()
    assert len(sent(broker, END)) == 3
    assert {request.producer_epoch for request in sent(broker, END)} == {4}


def test_a_commit_whose_answer_is_lost_is_repeated_with_the_same_epoch(opened, coordinator):
    transaction, broker = opened
    coordinator.answers[END] = [HANG_UP]
    transaction.commit()
    assert [(r.producer_epoch, r.committed) for r in sent(broker, END)] == [(4, True), (4, True)]


def test_a_commit_that_is_never_answered_has_an_unknown_outcome_and_cannot_be_aborted(opened, coordinator):
    transaction, broker = opened
    coordinator.answers[END] = [HANG_UP] * 1000
    with pytest.raises(OutcomeUnknown, match="may have been carried out"):
        transaction.commit(timeout_s=0.1)
    with pytest.raises(InvariantBroken, match="cannot be aborted"):
        transaction.abort()
    assert all(request.committed for request in sent(broker, END))


def test_an_unknown_outcome_may_be_asked_for_again(opened, coordinator):
    transaction, _ = opened
    coordinator.answers[END] = [HANG_UP] * 3
    with pytest.raises(OutcomeUnknown):
        transaction.commit(timeout_s=0.0)
    coordinator.answers[END] = []
    transaction.commit()


def test_after_an_unknown_outcome_the_id_is_reclaimed_as_the_one_we_were(opened, coordinator):
    transaction, broker = opened
    before = transaction.identity
    coordinator.answers[END] = [HANG_UP] * 1000
    with pytest.raises(OutcomeUnknown):
        transaction.commit(timeout_s=0.05)
    transaction.reclaim()
    (request,) = sent(broker, INIT)
    assert (request.producer_id, request.producer_epoch) == (before.producer_id, before.epoch)
    assert transaction.begin().epoch > before.epoch


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_first_commit_that_is_fenced_is_surely_not_carried_out(opened, coordinator, code):
    transaction, _ = opened
    coordinator.answers[END] = [code]
    coordinator.owner_state, coordinator.described_epoch = "Ongoing", 6
    with pytest.raises(Fenced, match="another producer"):
        transaction.commit()


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
def test_a_repeated_commit_that_is_fenced_tells_nothing(opened, coordinator, code):
    """The first may have been carried out, and a successor have taken over since."""
    transaction, _ = opened
    coordinator.answers[END] = [HANG_UP, code]
    coordinator.owner_state, coordinator.described_epoch = "Empty", 6
    with pytest.raises(OutcomeUnknown):
        transaction.commit()
    with pytest.raises(InvariantBroken):
        transaction.abort()


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_in_the_middle_may_have_carried_it_out(opened, coordinator, code):
    transaction, _ = opened
    coordinator.answers[END] = [code, ErrorCode.PRODUCER_FENCED]
    coordinator.described_epoch = 9
    with pytest.raises(OutcomeUnknown):
        transaction.commit()


def test_a_coordinator_that_was_merely_busy_has_not(opened, coordinator):
    transaction, _ = opened
    coordinator.answers[END] = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED]
    coordinator.described_epoch = 9
    with pytest.raises(Fenced):
        transaction.commit()


def test_a_transaction_that_timed_out_says_which_setting_to_change(opened, coordinator):
    transaction, _ = opened
    transaction._opened_s -= 61
    coordinator.answers[END] = [ErrorCode.PRODUCER_FENCED]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    with pytest.raises(TransactionTimedOut, match=r"open for 61\.\d s, longer than transaction\.timeout\.ms=60000"):
        transaction.commit()


def test_a_transaction_that_was_aborted_before_its_time_does_not_blame_the_timeout(opened, coordinator):
    transaction, _ = opened
    coordinator.answers[END] = [ErrorCode.PRODUCER_FENCED]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    with pytest.raises(TransactionFailed, match="another producer took over its id"):
        transaction.commit()


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE])
def test_a_timeout_after_a_lost_answer_is_certain_with_protocol_2_alone(opened, coordinator, protocol, code):
    """With protocol 1 the raised epoch may be a successor's, which aborted a transaction of its own."""
    transaction, _ = opened
    transaction._opened_s -= 61
    coordinator.answers[END] = [HANG_UP, code]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    expected: type[Exception] = TransactionTimedOut
    if protocol is V1:
        expected = OutcomeUnknown if code is ErrorCode.PRODUCER_FENCED else TransactionFailed
    with pytest.raises(expected):
        transaction.commit()


def test_a_coordinator_that_will_not_describe_leaves_it_at_fenced(opened, coordinator):
    transaction, _ = opened
    coordinator.answers[END] = [ErrorCode.PRODUCER_FENCED]
    unknown = {"transactional_id": "x", "error_code": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    coordinator.answers[DESCRIBE] = [{"transaction_states": [unknown]}]
    with pytest.raises(Fenced):
        transaction.commit()


def test_an_empty_transaction_cannot_be_committed_and_the_next_one_can(opened, coordinator):
    transaction, _ = opened
    coordinator.answers[END] = [ErrorCode.INVALID_TXN_STATE]
    with pytest.raises(TransactionFailed, match="not open"):
        transaction.commit()
    transaction.begin()
    transaction.commit()


def test_a_commit_that_was_refused_may_be_aborted(opened, coordinator):
    transaction, broker = opened
    coordinator.answers[END] = [ErrorCode.TRANSACTION_ABORTABLE]
    with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE"):
        transaction.commit()
    assert transaction.abort() is AbortedBy.US
    assert [request.committed for request in sent(broker, END)] == [True, False]


def test_an_unknown_error_of_the_broker_leaves_the_outcome_unknown(opened, coordinator):
    transaction, _ = opened
    coordinator.answers[END] = [ErrorCode.UNKNOWN_SERVER_ERROR]
    with pytest.raises(OutcomeUnknown):
        transaction.commit()


def test_a_commit_that_could_not_be_sent_is_not_carried_out(opened):
    transaction, broker = opened
    broker.__exit__()
    with pytest.raises(TransactionFailed, match="was not sent"):
        transaction.commit(timeout_s=0.1)


# -- abort and reclaim -------------------------------------------------------------------------------------------------


def test_an_abort_is_repeated_until_it_is_answered(opened, coordinator):
    transaction, broker = opened
    coordinator.answers[END] = [HANG_UP, ErrorCode.CONCURRENT_TRANSACTIONS]
    assert transaction.abort() is AbortedBy.US
    assert [request.committed for request in sent(broker, END)] == [False] * 3


def test_there_is_nothing_to_abort_in_a_transaction_that_wrote_nothing(opened, coordinator):
    transaction, _ = opened
    coordinator.answers[END] = [ErrorCode.INVALID_TXN_STATE]
    assert transaction.abort() is AbortedBy.US
    transaction.begin()


def test_an_abort_that_the_coordinator_had_done_already_is_one(opened, coordinator):
    transaction, broker = opened
    coordinator.answers[END] = [ErrorCode.PRODUCER_FENCED]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    assert transaction.abort() is AbortedBy.TIMEOUT
    transaction.begin()
    assert [request.producer_epoch for request in sent(broker, INIT)] == [5], "as the one that the coordinator made"


def test_an_open_transaction_is_reclaimed_in_the_two_steps_that_kafka_takes(opened, coordinator):
    """It aborts, asks to be asked again, and then knows the epoch that it raised and no other."""
    transaction, broker = opened
    coordinator.epoch, coordinator.owner_state = 4, "Ongoing"

    def abort_first(api_key, request):
        if api_key == INIT and request.producer_epoch == 4:
            coordinator.owner_state, coordinator.epoch = "PrepareAbort", 5
            return {"error_code": ErrorCode.CONCURRENT_TRANSACTIONS}
        return coordinator(api_key, request)

    broker.script = abort_first
    assert transaction.reclaim().epoch == 6
    assert [request.producer_epoch for request in sent(broker, INIT)] == [4, 5]


def test_an_owner_that_changes_while_we_ask_is_looked_at_again(opened, coordinator):
    transaction, broker = opened
    coordinator.answers[INIT] = [ErrorCode.PRODUCER_FENCED]
    coordinator.answers[DESCRIBE] = [
        {"transaction_states": [{"producer_id": 9, "producer_epoch": 4, "transaction_state": "CompleteCommit"}]}
    ]
    coordinator.owner_state, coordinator.described_epoch = "CompleteAbort", 5
    transaction.reclaim()
    assert [request.producer_epoch for request in sent(broker, INIT)] == [4, 5]


def test_an_id_is_reclaimed_from_brokers_that_cannot_describe_transactions(coordinator):
    with (
        ScriptedBroker(coordinator, transaction_version=1, versions={DESCRIBE: (-1, -1)}) as broker,
        Cluster(settings(broker)) as cluster,
    ):
        transaction = SharedTransaction(cluster, "x")
        transaction.init()
        transaction.begin()
        transaction.commit()
        transaction.begin()


def test_a_fenced_producer_does_not_take_the_id_back(opened, coordinator):
    transaction, broker = opened
    fenced: list[Callable[[], Any]] = [transaction.abort, transaction.begin, transaction.reclaim]
    coordinator.owner_state, coordinator.described_epoch = "Ongoing", 6
    coordinator.answers = {END: [ErrorCode.PRODUCER_FENCED]}
    for step in fenced:
        with pytest.raises(Fenced):
            step()
    assert sent(broker, INIT) == [], "Kafka would abort the successor's transaction"


def test_a_successor_that_has_already_aborted_something_is_still_a_successor(opened, coordinator):
    transaction, _ = opened
    coordinator.answers = {END: [ErrorCode.PRODUCER_FENCED], INIT: [ErrorCode.PRODUCER_FENCED]}
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
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, TransactionFailed, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_offsets_that_are_refused_say_why(opened, coordinator, code, error, words):
    transaction, _ = opened
    coordinator.answers[OFFSETS] = [offsets_answer(code)]
    with pytest.raises(error, match=words):
        transaction.add_offsets("g", {TopicPartition("t", 0): CommittedOffset(1)})


def test_offsets_are_sent_again_after_a_lost_answer(opened, coordinator):
    transaction, broker = opened
    coordinator.answers[OFFSETS] = [HANG_UP, offsets_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    transaction.add_offsets("g", {TopicPartition("t", 0): CommittedOffset(1)})
    assert len(sent(broker, OFFSETS)) == 3


def test_steps_out_of_order_are_a_bug(coordinator):
    with ScriptedBroker(coordinator) as broker, Cluster(settings(broker)) as cluster:
        transaction = SharedTransaction(cluster, "x")
        for step in (transaction.begin, transaction.commit, transaction.reclaim, lambda: transaction.identity):
            with pytest.raises(InvariantBroken):
                step()
        transaction.init()
        for step in (transaction.commit, lambda: transaction.add_offsets("g", {})):
            with pytest.raises(InvariantBroken):
                step()
        assert transaction.abort() is AbortedBy.US
