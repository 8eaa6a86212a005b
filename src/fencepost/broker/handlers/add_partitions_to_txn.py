"""AddPartitionsToTxn (24): partitions join a transaction before anything is written to them.

Versions 0 to 3 come from clients of transaction version 1, with one transaction. From version 4 many transactions
come at once, to be extended or (`verify_only`) looked up: a partition that is not part of its transaction is
TRANSACTION_ABORTABLE, which the broker that asks tells its client in words that it knows. It is all or nothing within a
transaction: one partition that does not exist, and the others are OPERATION_NOT_ATTEMPTED.
"""

import asyncio
from typing import Any

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
        partitions = _partitions(request.v3_and_below_topics)
        results = await _add(call, request.v3_and_below_transactional_id, producer, partitions)
        return {"results_by_topic_v3_and_below": _topics(results)}
    answers = await asyncio.gather(*(_answer(call, transaction) for transaction in request.transactions))
    return {"error_code": ErrorCode.NONE, "results_by_transaction": answers}


async def _answer(call: Call, transaction: Any) -> dict[str, Any]:
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    partitions = _partitions(transaction.topics)
    if transaction.verify_only:
        results = _refused(call, partitions) or _verify(call, transaction.transactional_id, producer, partitions)
    else:
        results = await _add(call, transaction.transactional_id, producer, partitions)
    return {"transactional_id": transaction.transactional_id, "topic_results": _topics(results)}


async def _add(call: Call, transactional_id: str, producer: Producer, partitions: list[TopicPartition]) -> Results:
    refused = _refused(call, partitions)
    if refused:
        return refused
    # Clients of version 2 never send this request; brokers do for them, in the batched form.
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


def _refused(call: Call, partitions: list[TopicPartition]) -> Results:
    """Empty when every partition is there."""
    refused = {where: code for where in partitions if (code := _refusal(call, where)) is not None}
    if not refused:
        return {}
    return {where: refused.get(where, ErrorCode.OPERATION_NOT_ATTEMPTED) for where in partitions}


def _refusal(call: Call, where: TopicPartition) -> ErrorCode | None:
    name, partition = where
    topics = call.broker.topics
    if call.version < FIRST_BATCHED and name in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = topics.get(name)
    if topic is None or not 0 <= partition < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _partitions(topics: Any) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def _topics(results: Results) -> list[dict[str, Any]]:
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
