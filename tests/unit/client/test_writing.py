"""Writing against a leader that is told what to answer, and that keeps sequences as a real one does."""

import socket
from typing import Any

import pytest

from fencepost.client import Cluster, ProducerIdentity, TransactionProtocol
from fencepost.client.writing import MAX_IN_FLIGHT, TransactionWriter
from fencepost.errors import ErrorCode, Fenced, InvariantBroken, NotAuthorized, WriteFailed
from fencepost.wire import batch
from fencepost.wire.records import Record, decode_batch, encode_batch
from fencepost.wire.terms import TopicPartition
from tests.fakes.frames import HANG_UP, SILENCE
from tests.unit.client.scripted import METADATA, TOPIC, TOPIC_ID, ScriptedBroker

PRODUCE, ADD_PARTITIONS = 0, 24
WHERE = TopicPartition(TOPIC, 0)


def identity(protocol: TransactionProtocol = TransactionProtocol.V2) -> ProducerIdentity:
    return ProducerIdentity("x", 9, 4, protocol)


class Leader:
    """A log with Kafka's rule for sequences."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.values: list[bytes] = []
        self.next_sequence = 0
        self.seen: dict[int, int] = {}
        broker.answers |= {PRODUCE: self.produce, ADD_PARTITIONS: {}}

    def produce(self, request: Any) -> dict[str, Any]:
        return produced(request, *self._append(request.topic_data[0].partition_data[0].records))

    def lose_answer(self, request: Any) -> Any:
        self.produce(request)
        return HANG_UP

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


def produced(request: Any, code: ErrorCode, offset: int = -1) -> dict[str, Any]:
    (topic,) = request.topic_data
    result = {"index": 0, "error_code": code, "base_offset": offset}
    return {"responses": [{"name": topic.name, "topic_id": topic.topic_id, "partition_responses": [result]}]}


def refused(code: ErrorCode) -> Any:
    """An answer with this code."""
    return lambda request: produced(request, code)


@pytest.fixture(autouse=True)
def leader(broker: ScriptedBroker) -> Leader:
    return Leader(broker)


def blob(*values: bytes) -> bytes:
    return bytes(encode_batch([Record(None, value) for value in values]))


def write(cluster: Cluster, count: int, protocol: TransactionProtocol = TransactionProtocol.V2) -> TransactionWriter:
    with TransactionWriter(cluster, identity(protocol)) as writer:
        for index in range(count):
            writer.write(WHERE, blob(b"%d" % index, b"and"))
    return writer


def expected(count: int) -> list[bytes]:
    return [value for index in range(count) for value in (b"%d" % index, b"and")]


def test_batches_are_written_in_order_with_sequences_from_zero(cluster, leader):
    writer = write(cluster, 20)
    assert leader.values == expected(20)
    written = writer.written[WHERE]
    assert (written.records, written.first_offset, written.last_offset) == (40, 0, 39)


def test_topics_are_named_by_id_where_both_sides_can(broker, cluster):
    write(cluster, 1)
    (request,) = broker.requests(PRODUCE)
    assert (request.topic_data[0].topic_id, request.transactional_id, request.acks) == (TOPIC_ID, "x", -1)


def test_with_protocol_1_the_partition_is_registered_first(broker, cluster):
    broker.transaction_version = 1
    write(cluster, 3, TransactionProtocol.V1)
    assert broker.keys() == [ADD_PARTITIONS, PRODUCE, PRODUCE, PRODUCE]
    assert {request.topic_data[0].name for request in broker.requests(PRODUCE)} == {TOPIC}


@pytest.mark.parametrize("is_written", [True, False], ids=["lost answer", "lost request"])
@pytest.mark.parametrize("at", [0, 1, 3, 7])
def test_a_batch_without_an_answer_is_sent_again_with_all_that_followed_it(broker, cluster, leader, at, is_written):
    broker.queued[PRODUCE] = [None] * at + [leader.lose_answer if is_written else HANG_UP]
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
def test_what_passes_is_waited_for_and_order_is_kept(broker, cluster, leader, code, at):
    broker.queued[PRODUCE] = [None] * at + [refused(code)] * 2
    write(cluster, 10)
    assert leader.values == expected(10)


def test_a_leader_that_falls_silent_is_asked_again_elsewhere(broker, cluster, leader):
    broker.queued[PRODUCE] = [None, SILENCE]
    write(cluster, 2)
    assert leader.values == expected(2)
    assert broker.connections >= 3


def test_a_leader_that_moved_before_anything_was_sent_is_looked_up_again(broker, cluster, leader):
    """Its old address takes no connection."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        moved = broker.metadata()
        moved["brokers"][0]["port"] = unused.getsockname()[1]
    broker.queued[METADATA] = [moved]
    write(cluster, 3)
    assert leader.values == expected(3)


def test_the_first_batch_goes_alone_and_then_five_are_under_way(cluster, leader):
    writer = TransactionWriter(cluster, identity())
    for index in range(30):
        writer.write(WHERE, blob(b"%d" % index + bytes(300_000)))
    assert len(writer._requests) <= MAX_IN_FLIGHT
    writer.flush()
    writer.close()
    assert len(leader.values) == 30


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_a_fenced_writer_says_so_and_writes_no_more(broker, cluster, code):
    broker.queued[PRODUCE] = [refused(code)]
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
def test_every_other_doubt_raises(broker, cluster, code, words):
    broker.queued[PRODUCE] = [refused(code)]
    with pytest.raises(WriteFailed, match=words):
        write(cluster, 3)


def test_a_batch_that_is_a_duplicate_after_it_was_sent_twice_is_written(broker, cluster, leader):
    broker.queued[PRODUCE] = [leader.lose_answer, refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)]
    write(cluster, 3)
    assert leader.values == expected(3)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Write on topic 't'"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Write on transactional id 'x'"),
    ],
)
def test_a_right_that_is_missing_is_named_and_nothing_is_tried_again(broker, cluster, code, words):
    broker.answers[PRODUCE] = refused(code)
    with pytest.raises(NotAuthorized, match=words):
        write(cluster, 1)
    assert len(broker.requests(PRODUCE)) == 1


def test_a_topic_that_one_may_no_longer_see_lacks_the_right_to_write(broker, cluster):
    hidden = {"name": TOPIC, "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    broker.answers[METADATA] = {"topics": [hidden]}
    with pytest.raises(NotAuthorized, match="Write on topic 't'"):
        write(cluster, 1)


def test_a_second_writer_is_found_out_by_offsets_that_do_not_grow(cluster, leader):
    """As long as it gets that far: its batches are dropped silently, so nobody may rely on this."""
    write(cluster, 3)
    leader.seen = dict.fromkeys(leader.seen, 0)
    with pytest.raises(WriteFailed, match="is there another writer"):
        write(cluster, 3)


def test_patience_ends(broker, impatient):
    broker.answers[PRODUCE] = refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(WriteFailed, match="NOT_ENOUGH_REPLICAS"):
        write(impatient, 1)


def test_nothing_is_flushed_after_an_error_of_the_caller(cluster, leader):
    with pytest.raises(ZeroDivisionError), TransactionWriter(cluster, identity()):
        raise ZeroDivisionError
    assert leader.values == []


def test_the_work_of_a_write_does_not_grow_with_the_partitions(cluster, broker, monkeypatch):
    """To look at all of a thousand partitions for each small batch would be a million looks."""
    count = 300
    usual = broker.metadata()
    (topic,) = usual["topics"]
    partitions = [{**topic["partitions"][0], "partition_index": index} for index in range(count)]
    broker.answers |= {METADATA: {**usual, "topics": [{**topic, "partitions": partitions}]}, PRODUCE: taken}
    looked_up: list[TopicPartition] = []
    find = cluster.leader_address

    def leader_address(*where: Any) -> Any:
        looked_up.append(TopicPartition(*where))
        return find(*where)

    monkeypatch.setattr(cluster, "leader_address", leader_address)
    with TransactionWriter(cluster, identity()) as writer:
        for index in range(2 * count):
            writer.write(TopicPartition(TOPIC, index % count), blob(b"x"))
    assert {written.records for written in writer.written.values()} == {2} and len(writer.written) == count
    assert len(looked_up) == 2 * count


def taken(request: Any) -> dict[str, Any]:
    """All partitions of a request, each with the next offset by its sequence."""
    (topic,) = request.topic_data
    results = [
        {"index": entry.index, "error_code": 0, "base_offset": batch.read_header(entry.records).base_sequence}
        for entry in topic.partition_data
    ]
    return {"responses": [{"name": topic.name, "topic_id": topic.topic_id, "partition_responses": results}]}
