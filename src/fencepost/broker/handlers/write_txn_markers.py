"""WriteTxnMarkers (27): end a transaction on partitions directly, without its coordinator.

Brokers send it to each other to end transactions. An administrator (`kafka-transactions abort`) sends it to end a
hanging transaction on a partition. Answered when the markers are durable.
"""

import asyncio
from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.coordinator.txn.markers import Marker
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import TopicPartition


@handler(27, versions=(1, 2))
async def write_txn_markers(call: Call) -> Response:
    # An administrator has ALTER, another broker CLUSTER_ACTION.
    allowed = call.may(Operation.ALTER, Resource.CLUSTER, quietly=True)
    if not allowed and not call.may(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        return {"markers": [_refuse(marker) for marker in call.request.markers]}
    return {"markers": await asyncio.gather(*(_end(call, marker) for marker in call.request.markers))}


def _refuse(marker: Any) -> dict[str, Any]:
    refused = {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    topics = [
        {"name": topic.name, "partitions": [{"partition_index": index, **refused} for index in topic.partition_indexes]}
        for topic in marker.topics
    ]
    return {"producer_id": marker.producer_id, "topics": topics}


async def _end(call: Call, request: Any) -> dict[str, Any]:
    marker = Marker(
        request.producer_id,
        request.producer_epoch,
        request.transaction_result,
        request.coordinator_epoch,
        request.transaction_version,
    )
    topics = [
        {"name": topic.name, "partitions": await _end_on_topic(call, topic.name, topic.partition_indexes, marker)}
        for topic in request.topics
    ]
    return {"producer_id": request.producer_id, "topics": topics}


async def _end_on_topic(call: Call, topic: str, partitions: list[int], marker: Marker) -> list[dict[str, Any]]:
    codes = await asyncio.gather(
        *(_end_on_partition(call, TopicPartition(topic, partition), marker) for partition in partitions)
    )
    return [
        {"partition_index": partition, "error_code": code} for partition, code in zip(partitions, codes, strict=True)
    ]


async def _end_on_partition(call: Call, where: TopicPartition, marker: Marker) -> ErrorCode:
    try:
        durable = call.broker.transactions.append_marker(where, marker)
        if durable is not None:
            await durable
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
