"""AddPartitionsToTxn (24): partitions join a transaction before anything is written to them.

Versions 0 to 3 come from clients of transaction version 1, with one transaction. Version 4 and later come from brokers,
which have the right CLUSTER_ACTION, with many transactions. Partitions are added to each, or with `verify_only` looked
up: one that is not part of its transaction gets TRANSACTION_ABORTABLE. Within a transaction it is all or nothing: if
one partition does not exist or may not be written, the others get OPERATION_NOT_ATTEMPTED.
"""

import asyncio
from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.fencing import code_for
from fencepost.coordinator.txn.decide import Producer
from fencepost.coordinator.txn.model import TransactionVersion, by_topic
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import INTERNAL_TOPICS, TopicPartition

FIRST_BATCHED = 4

Results = dict[TopicPartition, ErrorCode]


@handler(24, versions=(0, 5))
async def add_partitions_to_txn(call: Call) -> Response:
    request = call.request
    if call.version < FIRST_BATCHED:
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = await _answer(call, request.v3_and_below_transactional_id, producer, request.v3_and_below_topics)
        return {"results_by_topic_v3_and_below": topics}
    if not call.may(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "results_by_transaction": []}
    answers = await asyncio.gather(*(_answer_one(call, transaction) for transaction in request.transactions))
    return {"results_by_transaction": answers}


async def _answer_one(call: Call, transaction: Any) -> dict[str, Any]:
    name, producer = transaction.transactional_id, Producer(transaction.producer_id, transaction.producer_epoch)
    topics = await _answer(call, name, producer, transaction.topics, verify_only=transaction.verify_only)
    return {"transactional_id": name, "topic_results": topics}


async def _answer(
    call: Call, transactional_id: str, producer: Producer, topics: Any, *, verify_only: bool = False
) -> list[dict[str, Any]]:
    partitions = [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]
    results = _refused(call, transactional_id, partitions)
    if not results and verify_only:
        results = _verify(call, transactional_id, producer, partitions)
    elif not results:
        results = await _add(call, transactional_id, producer, partitions)
    return [
        {
            "name": topic,
            "results_by_partition": [
                {"partition_index": partition, "partition_error_code": results[TopicPartition(topic, partition)]}
                for partition in partitions
            ],
        }
        for topic, partitions in by_topic(results).items()
    ]


async def _add(call: Call, transactional_id: str, producer: Producer, partitions: list[TopicPartition]) -> Results:
    # Clients of transaction version 2 never send this request. Brokers send it for them, in the batched form.
    version = TransactionVersion.V0 if call.version < FIRST_BATCHED else TransactionVersion.V2
    try:
        await call.broker.transactions.add_partitions(transactional_id, producer, partitions, version)
    except KafkaError as error:
        return dict.fromkeys(partitions, code_for(call, error))
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _verify(call: Call, transactional_id: str, producer: Producer, partitions: list[TopicPartition]) -> Results:
    try:
        missing = call.broker.transactions.missing_partitions(transactional_id, producer, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return {where: ErrorCode.TRANSACTION_ABORTABLE if where in missing else ErrorCode.NONE for where in partitions}


def _refused(call: Call, transactional_id: str, partitions: list[TopicPartition]) -> Results:
    """Empty if every partition exists and the client may write to all of them."""
    from_client = call.version < FIRST_BATCHED
    if from_client and not call.may(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused = {where: code for where in partitions if (code := _refusal(call, where)) is not None}
    if not refused:
        return {}
    return {where: refused.get(where, ErrorCode.OPERATION_NOT_ATTEMPTED) for where in partitions}


def _refusal(call: Call, where: TopicPartition) -> ErrorCode | None:
    from_client = call.version < FIRST_BATCHED
    if from_client and (where.topic in INTERNAL_TOPICS or not call.may(Operation.WRITE, Resource.TOPIC, where.topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = call.broker.topics.get(where.topic)
    return None if topic is not None and topic.has(where.partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
