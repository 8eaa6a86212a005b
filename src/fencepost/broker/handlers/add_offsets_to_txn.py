"""AddOffsetsToTxn (25): the offsets of a group join a transaction.

The partition of `__consumer_offsets` that holds the group becomes part of it, like any other. Clients of transaction
version 2 leave this request out: TxnOffsetCommit from version 5 does it for them. Before version 2 a fenced producer
is told INVALID_PRODUCER_EPOCH.
"""

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.coordinator.runtime import coordinator_error
from fencepost.coordinator.txn.decide import Producer
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition, coordinator_partition

FIRST_WITH_PRODUCER_FENCED = 2


@handler(25, versions=(0, 4))
async def add_offsets_to_txn(call: Call) -> Response:
    request = call.request
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        count = call.broker.topics.ensure_internal(CONSUMER_OFFSETS).partitions
        partition = TopicPartition(CONSUMER_OFFSETS, coordinator_partition(request.group_id, count))
        await call.broker.transactions.add_partitions(request.transactional_id, producer, [partition])
    except KafkaError as error:
        code = coordinator_error(error).code
        if code is ErrorCode.PRODUCER_FENCED and call.version < FIRST_WITH_PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return {"error_code": code}
    return {"error_code": ErrorCode.NONE}
