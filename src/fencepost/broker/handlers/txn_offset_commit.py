"""TxnOffsetCommit (28): offsets that take effect when the transaction commits, and never if it aborts (KIP-98).

From version 3 on the member and generation that read the input are fenced as well (KIP-447). The group's partition of
`__consumer_offsets` must be in the transaction. Up to version 4 AddOffsetsToTxn puts it there and this handler checks
it. From version 5 on this handler puts it there (KIP-890). Version 4 understands TRANSACTION_ABORTABLE.
"""

from functools import partial

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.offset_topics import answer_commit, refuse_commit
from fencepost.coordinator.group.decide import Results
from fencepost.coordinator.group.requests import Identity, OffsetToCommit
from fencepost.coordinator.runtime import retriable_errors
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition

FIRST_WITH_ABORTABLE = 4
FIRST_THAT_REGISTERS = 5


@handler(28, versions=(0, 5))
async def txn_offset_commit(call: Call) -> Response:
    request = call.request
    try:
        call.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
        call.require(Operation.READ, Resource.GROUP, request.group_id)
    except KafkaError as error:
        return refuse_commit(request.topics, error.code)
    return await answer_commit(call, request.topics, partial(_commit, call))


async def _commit(call: Call, offsets: list[OffsetToCommit]) -> Results:
    request, groups, transactions = call.request, call.broker.groups, call.broker.transactions
    group_id, producer = request.group_id, (request.producer_id, request.producer_epoch)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group without a name cannot commit offsets in a transaction")
    with retriable_errors():
        partitions = [TopicPartition(CONSUMER_OFFSETS, groups.partition_of(group_id))]
        if call.version >= FIRST_THAT_REGISTERS:
            registered = transactions.add_partitions_from_produce(request.transactional_id, *producer, partitions)
            if registered is not None:
                await registered
        else:
            knows_abortable = call.version >= FIRST_WITH_ABORTABLE
            transactions.verify_partitions(
                request.transactional_id,
                *producer,
                partitions,
                missing=ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE,
            )
    # Nothing is awaited between that and the append, so the transaction cannot end in between.
    who = Identity(request.member_id, request.generation_id, request.group_instance_id)
    return await groups.offsets.commit_in_transaction(group_id, who, *producer, offsets)
