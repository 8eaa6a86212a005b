"""AddOffsetsToTxn (25): the offsets of a group join a transaction.

The partition of `__consumer_offsets` that holds the group becomes part of it, like any other. Clients of transaction
version 2 leave this request out: TxnOffsetCommit from version 5 does it for them.
"""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.fencing import code_for
from fencepost.coordinator.runtime import coordinator_error
from fencepost.coordinator.txn.decide import Producer
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition, coordinator_partition


@handler(25, versions=(0, 4))
async def add_offsets_to_txn(call: Call) -> Response:
    request = call.request
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        call.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
        call.require(Operation.READ, Resource.GROUP, request.group_id)
        count = call.broker.topics.ensure_internal(CONSUMER_OFFSETS).partitions
        partition = TopicPartition(CONSUMER_OFFSETS, coordinator_partition(request.group_id, count))
        await call.broker.transactions.add_partitions(request.transactional_id, producer, [partition])
    except KafkaError as error:
        return {"error_code": code_for(call, coordinator_error(error))}
    return {"error_code": ErrorCode.NONE}
