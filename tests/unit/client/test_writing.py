"""Writing against a leader that is told what to answer, and that keeps sequences as a real one does."""

from typing import Any

import pytest

from fencepost.client import Cluster, ProducerIdentity, TransactionProtocol
from fencepost.client.writing import MAX_IN_FLIGHT, TransactionWriter
from fencepost.errors import ErrorCode, Fenced, InvariantBroken, TopicNotFound, WriteFailed
from fencepost.wire import batch
from fencepost.wire.records import Record, decode_batch, encode_batch
from fencepost.wire.terms import TopicPartition
from tests.fakes.frames import HANG_UP, SILENCE
from tests.unit.client.scripted import TOPIC, TOPIC_ID, ScriptedBroker, settings

PRODUCE, ADD_PARTITIONS = 0, 24
WHERE = TopicPartition(TOPIC, 0)
NOT_WRITTEN = object()


def identity(protocol: TransactionProtocol = TransactionProtocol.V2) -> ProducerIdentity:
    return ProducerIdentity("x", 9, 4, protocol)


class Leader:
    """A log with Kafka's rule for sequences. `answers` are given instead of writing, or (`LOSE_ANSWER`) after it."""

    LOSE_ANSWER = object()

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.next_sequence = 0
        self.seen: dict[int, int] = {}
        self.answers: list[Any] = []
        self.versions: set[bool] = set()

    def __call__(self, api_key: int, request: Any) -> Any:
        if api_key == ADD_PARTITIONS:
            return {}
        if api_key != PRODUCE:
            return None
        answer = self.answers.pop(0) if self.answers else None
        if answer is HANG_UP or answer is SILENCE:
            return answer
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        code, offset = ErrorCode.NONE, -1
        if isinstance(answer, ErrorCode):
            code = answer
        else:
            code, offset = self._append(partition.records)
        if answer is self.LOSE_ANSWER:
            return HANG_UP
        result = {"index": 0, "error_code": code, "base_offset": offset}
        return {"responses": [{"name": topic.name, "topic_id": topic.topic_id, "partition_responses": [result]}]}

    def _append(self, records: Any) -> tuple[ErrorCode, int]:
        header = batch.read_header(records)
        assert header.crc == batch.checksum(records)
        assert (header.producer_id, header.producer_epoch, header.is_transactional) == (9, 4, True)
        if header.base_sequence in self.seen:
            return ErrorCode.NONE, self.seen[header.base_sequence]
        if header.base_sequence != self.next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = self.seen[header.base_sequence] = len(self.values)
        self.values += [record.value or b"" for record in decode_batch(records)]
        self.next_sequence += header.record_count
        return ErrorCode.NONE, offset


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def world(leader: Leader):
    with ScriptedBroker(leader) as broker, Cluster(settings(broker)) as cluster:
        yield cluster, broker


def blob(*values: bytes) -> bytes:
    return bytes(encode_batch([Record(None, value) for value in values]))


def write(cluster: Cluster, count: int, protocol: TransactionProtocol = TransactionProtocol.V2) -> TransactionWriter:
    with TransactionWriter(cluster, identity(protocol)) as writer:
        for index in range(count):
            writer.write(WHERE, blob(b"%d" % index, b"and"))
    return writer


def expected(count: int) -> list[bytes]:
    return [value for index in range(count) for value in (b"%d" % index, b"and")]


def test_batches_are_written_in_order_with_sequences_from_zero(world, leader):
    cluster, _ = world
    writer = write(cluster, 20)
    assert leader.values == expected(20)
    written = writer.written[WHERE]
    assert (written.records, written.first_offset, written.last_offset) == (40, 0, 39)


def test_topics_are_named_by_id_where_both_sides_can(world):
    cluster, broker = world
    write(cluster, 1)
    (request,) = [request for key, request in broker.asked if key == PRODUCE]
    assert (request.topic_data[0].topic_id, request.transactional_id, request.acks) == (TOPIC_ID, "x", -1)


def test_with_protocol_1_the_partition_is_registered_first(leader):
    with ScriptedBroker(leader, transaction_version=1) as broker, Cluster(settings(broker)) as cluster:
        write(cluster, 3, TransactionProtocol.V1)
        assert broker.keys() == [ADD_PARTITIONS, PRODUCE, PRODUCE, PRODUCE]
        assert {request.topic_data[0].name for key, request in broker.asked if key == PRODUCE} == {TOPIC}


@pytest.mark.parametrize("at", [0, 1, 3, 7])
def test_a_lost_answer_is_made_up_for_by_the_same_batch_once_more(world, leader, at):
    cluster, _ = world
    leader.answers = [None] * at + [Leader.LOSE_ANSWER]
    write(cluster, 10)
    assert leader.values == expected(10)


@pytest.mark.parametrize("at", [0, 1, 3, 7])
def test_a_lost_request_is_sent_again_with_all_that_followed_it(world, leader, at):
    cluster, _ = world
    leader.answers = [None] * at + [HANG_UP]
    write(cluster, 10)
    assert leader.values == expected(10)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
@pytest.mark.parametrize("at", [0, 4])
def test_what_passes_is_waited_for_and_order_is_kept(world, leader, code, at):
    cluster, _ = world
    leader.answers = [None] * at + [code] * 2
    write(cluster, 10)
    assert leader.values == expected(10)


def test_a_leader_that_falls_silent_is_asked_again_elsewhere(world, leader):
    cluster, broker = world
    leader.answers = [None, SILENCE]
    write(cluster, 2)
    assert leader.values == expected(2)
    assert broker.connections >= 3


def test_the_first_batch_goes_alone_and_then_five_are_under_way(world, leader):
    cluster, _ = world
    writer = TransactionWriter(cluster, identity())
    for index in range(30):
        writer.write(WHERE, blob(b"%d" % index + bytes(300_000)))
    in_flight = writer._requests
    assert len(in_flight) <= MAX_IN_FLIGHT
    writer.flush()
    writer.close()
    assert len(leader.values) == 30


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_a_fenced_writer_says_so_and_writes_no_more(world, leader, code):
    cluster, _ = world
    leader.answers = [code]
    writer = TransactionWriter(cluster, identity())
    writer.write(WHERE, blob(b"v"))
    with pytest.raises(Fenced, match=r"t-0: 'x' \(producer 9, epoch 4\) has been fenced"):
        writer.flush()
    with pytest.raises(InvariantBroken):
        writer.write(WHERE, blob(b"v"))
    writer.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "OUT_OF_ORDER"),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "DUPLICATE"),
        (ErrorCode.INVALID_TXN_STATE, "INVALID_TXN_STATE"),
        (ErrorCode.TRANSACTION_ABORTABLE, "TRANSACTION_ABORTABLE"),
        (ErrorCode.UNKNOWN_PRODUCER_ID, "UNKNOWN_PRODUCER_ID"),
        (ErrorCode.MESSAGE_TOO_LARGE, r"max\.message\.bytes"),
    ],
)
def test_every_other_doubt_raises(world, leader, code, words):
    cluster, _ = world
    leader.answers = [code]
    with pytest.raises(WriteFailed, match=words):
        write(cluster, 3)


def test_a_batch_that_is_a_duplicate_after_it_was_sent_twice_is_written(world, leader):
    cluster, _ = world
    leader.answers = [Leader.LOSE_ANSWER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    write(cluster, 3)
    assert leader.values == expected(3)


def test_a_second_writer_is_found_out_by_offsets_that_do_not_grow(world, leader):
    """As long as it gets that far: its batches are dropped silently, so nobody may rely on this."""
    cluster, _ = world
    write(cluster, 3)
    leader.seen = dict.fromkeys(leader.seen, 0)
    with pytest.raises(WriteFailed, match="is there another writer"):
        write(cluster, 3)


def test_patience_ends(world, leader):
    cluster, _ = world
    leader.answers = [ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000
    with pytest.raises(WriteFailed, match="NOT_ENOUGH_REPLICAS"):
        write(cluster, 1)


def test_a_topic_that_is_not_there_is_named(world):
    cluster, _ = world
    with pytest.raises(TopicNotFound, match="'elsewhere'"), TransactionWriter(cluster, identity()) as writer:
        writer.write(TopicPartition("elsewhere", 0), blob(b"v"))


def test_nothing_is_flushed_after_an_error_of_the_caller(world, leader):
    cluster, _ = world
    with pytest.raises(ZeroDivisionError), TransactionWriter(cluster, identity()):
        raise ZeroDivisionError
    assert leader.values == []
