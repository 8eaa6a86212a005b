"""Produce (0): append batches to their partitions. The hot path of the broker.

acks=0 gets no answer, and a closed connection on an error; acks=1 is answered once written; acks=-1 once durable, that
is below the high watermark. A transactional batch must belong to a partition that the coordinator knows as part of the
producer's transaction (KIP-890): up to version 11 the client registered it and it is verified here, from version 12 on
it is registered here. Version 13 names topics by id.
"""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, RawAnswer, Waiting, raw_handler
from fencepost.broker.topic_rights import may_topic, require_topic
from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.log.partition import PartitionLog
from fencepost.wire import produce as wire
from fencepost.wire.batch import HEADER_BYTES, TRANSACTIONAL_FLAG, read_header
from fencepost.wire.produce import PartitionData, PartitionResult, ProduceRequest, Result
from fencepost.wire.terms import INTERNAL_TOPICS, TopicPartition

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1

#: From here on clients know TRANSACTION_ABORTABLE: abort, then go on (KIP-890).
FIRST_WITH_ABORTABLE = 11

#: Older clients do not know zstd (KIP-110).
FIRST_WITH_ZSTD = 7

#: The position of the low byte of a batch's attributes, and the bits of it that name the compression.
_FLAGS_OFFSET = 22
_CODEC_MASK = 0x07
_ZSTD = 4

Durability = tuple[int, "asyncio.Future[None]"]  #: which result waits, and for what


@raw_handler(wire.API_KEY, versions=wire.VERSIONS)
def produce(call: Call, frame: memoryview, body: int) -> RawAnswer:
    request = wire.decode_request(call.version, frame, body)
    if request.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        return _refuse(call, request, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS))
    transactional = _transactional(request)
    if transactional:
        partitions = _writable(call, transactional)
        try:
            registered = _join_transaction(call, request, transactional, partitions)
        except KafkaError as error:
            return _refuse(call, request, error)
        if registered is not None:
            # The frame is in a buffer that the next read overwrites.
            return Waiting.on(_append_when_registered(call, bytearray(frame), body, registered, partitions))
    return _append_all(call, request)


def _transactional(request: ProduceRequest) -> list[PartitionData]:
    return [data for data in request.partitions if _is_transactional(data[2])]


async def _append_when_registered(
    call: Call, frame: bytearray, body: int, registered: Any, partitions: set[TopicPartition]
) -> RawAnswer:
    request = wire.decode_request(call.version, memoryview(frame), body)
    transactional = _transactional(request)
    try:
        await registered
        # Meanwhile a topic may have been made, or a right granted: then there is one partition more.
        while not (found := _writable(call, transactional)) <= partitions:
            partitions = found
            registered = _join_transaction(call, request, transactional, partitions)
            if registered is not None:
                await registered
    except KafkaError as error:
        return _refuse(call, request, error)
    return _append_all(call, request)


def _append_all(call: Call, request: ProduceRequest) -> RawAnswer:
    results: list[Result] = []
    waits: list[Durability] = []
    version = call.version
    find = call.broker.topics.log if version < wire.FIRST_WITH_TOPIC_IDS else call.broker.topics.log_by_id
    wait_for_disk = request.acks == ACKS_ALL
    begins_at_0 = request.transactional_id is not None and version >= wire.FIRST_WITH_IMPLICIT_REGISTRATION
    is_guarded, allowed = call.broker.authorizer is not None, None
    for topic, partition, records in request.partitions:
        try:
            if is_guarded and topic != allowed:
                require_topic(call, Operation.WRITE, topic)
                allowed = topic
            log = find(topic, partition)  # type: ignore[arg-type]
            if log is None or log.topic in INTERNAL_TOPICS:
                raise _not_writable(call, topic, log)
            if records is None:
                raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request must hold one record batch per partition")
            if version < FIRST_WITH_ZSTD and _is_zstd(records):
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
            if begins_at_0:
                _check_first_sequence(log, records)
            base_offset, last_offset, append_time_ms, log_start_offset, _ = log.append(records)
        except KafkaError as error:
            call.note_errors([error.code])
            results.append(PartitionResult(topic, partition, error.code, message=error.message or None))
            continue
        if wait_for_disk and log.durable_acks:
            durable = log.when_durable(last_offset)
            if durable is not None:
                waits.append((len(results), durable))
        results.append((topic, partition, 0, base_offset, append_time_ms, log_start_offset, None))
    if waits:
        return _answer_when_durable(call, results, waits)
    return _answer(call, request, results)


def _refuse(call: Call, request: ProduceRequest, error: KafkaError) -> RawAnswer:
    """Every partition of the request."""
    results = wire.error_results(request, error.code, error.message or None)
    call.note_errors([error.code] * len(results))
    return _answer(call, request, results)


def _answer(call: Call, request: ProduceRequest, results: list[Result]) -> RawAnswer:
    if request.acks == ACKS_NONE:
        for _, _, error_code, *_, message in results:
            if error_code:
                # No answer can carry the error. A closed connection makes the client look again.
                raise Malformed(f"Produce with acks=0 failed: {ErrorCode(error_code).name} {message or ''}")
        return None
    return [wire.encode_response(call.version, call.correlation_id, results)]


def _answer_when_durable(call: Call, results: list[Result], waits: Sequence[Durability]) -> Waiting:
    answer = Waiting(holds_back=False)
    remaining = len(waits)

    def one_is_durable(index: int, future: "asyncio.Future[None]") -> None:
        nonlocal remaining
        if future.cancelled() or future.exception() is not None:
            topic, partition, *_ = results[index]
            results[index] = PartitionResult(topic, partition, ErrorCode.KAFKA_STORAGE_ERROR)
            call.note_errors([ErrorCode.KAFKA_STORAGE_ERROR])
        remaining -= 1
        if not remaining:
            answer.release([wire.encode_response(call.version, call.correlation_id, results)])

    for index, future in waits:
        future.add_done_callback(functools.partial(one_is_durable, index))
    return answer


def _not_writable(call: Call, topic: str | bytes, log: PartitionLog | None) -> KafkaError:
    if log is not None:
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{log.topic} is internal: only the broker writes to it")
    if isinstance(topic, bytes) and call.broker.topics.by_id(topic) is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_first_sequence(log: PartitionLog, records: memoryview) -> None:
    """In transaction version 2 every transaction has its own epoch and begins at sequence 0 (KIP-890).

    If the log does not know the producer and its batch has another sequence, an earlier batch was refused or lost. To
    append this one first would reverse their order.
    """
    if not _is_transactional(records):
        return
    header = read_header(records)
    if header.base_sequence > 0 and header.producer_id not in log.producers.by_id:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} began at sequence {header.base_sequence}, not 0",
        )


def _is_zstd(records: memoryview) -> bool:
    return len(records) >= HEADER_BYTES and records[_FLAGS_OFFSET] & _CODEC_MASK == _ZSTD


def _is_transactional(records: memoryview | None) -> bool:
    return records is not None and len(records) >= HEADER_BYTES and bool(records[_FLAGS_OFFSET] & TRANSACTIONAL_FLAG)


def _producer(records: memoryview | None) -> tuple[int, int]:
    header = read_header(records or b"")
    return header.producer_id, header.producer_epoch


def _writable(call: Call, transactional: list[PartitionData]) -> set[TopicPartition]:
    """The partitions that exist and that this client may write to."""
    topics = call.broker.topics
    found = set()
    for topic, partition, _ in transactional:
        log = topics.log_by_id(topic, partition) if isinstance(topic, bytes) else topics.log(topic, partition)
        if log is None or log.topic in INTERNAL_TOPICS:
            continue
        if may_topic(call, Operation.WRITE, log.topic, quietly=True):
            found.add(TopicPartition(log.topic, log.partition))
    return found


def _join_transaction(
    call: Call, request: ProduceRequest, transactional: list[PartitionData], partitions: set[TopicPartition]
) -> Any:
    """Verify or register the partitions. None if that is done, else what to await."""
    if request.transactional_id is None:
        # As in Kafka: nobody is authorized for a missing id.
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records without a transactional id"
        )
    call.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
    producers = {_producer(records) for _, _, records in transactional}
    if len(producers) > 1:
        # Only one can be the id's. Records of another would open a transaction that nobody ends.
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )
    if not partitions:
        return None
    producer = (request.transactional_id, *producers.pop(), partitions)
    if call.version >= wire.FIRST_WITH_IMPLICIT_REGISTRATION:
        return call.broker.transactions.add_partitions_from_produce(*producer)
    understood = call.version >= FIRST_WITH_ABORTABLE
    missing = ErrorCode.TRANSACTION_ABORTABLE if understood else ErrorCode.INVALID_TXN_STATE
    call.broker.transactions.verify_partitions(*producer, missing=missing)
    return None
