"""EndTxn (26): commit or abort. The answer comes when the outcome is durable on every partition of the transaction.

A client that sends version 5 speaks transaction version 2 (KIP-890): its epoch is raised by every end, and the answer
carries the producer id and epoch of its next transaction.
"""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.fencing import code_for
from fencepost.coordinator.txn.decide import Outcome, Producer
from fencepost.coordinator.txn.model import TransactionVersion
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

FIRST_OF_TRANSACTION_V2 = 5


@handler(26, versions=(0, 5))
async def end_txn(call: Call) -> Response:
    request = call.request
    is_v2 = call.version >= FIRST_OF_TRANSACTION_V2
    try:
        call.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
        following = await call.broker.transactions.end(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            Outcome(request.committed),
            TransactionVersion.V2 if is_v2 else TransactionVersion.V0,
        )
    except KafkaError as error:
        code = code_for(call, error)
        return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_PRODUCER_EPOCH}
    return {"error_code": ErrorCode.NONE, "producer_id": following.producer_id, "producer_epoch": following.epoch}
