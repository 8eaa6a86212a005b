"""InitProducerId (22): a producer id and epoch, for an idempotent producer or for a transactional id.

A transactional id gets a higher epoch than ever before, which fences earlier users. An open transaction is aborted
first, and the answer waits for that. From version 3 on a producer may name its present id and epoch (KIP-360). It can
then go on after an error, and never fences a successor. Version 6 (two-phase commit, KIP-939) is not offered.
"""

from fencepost.broker.acl import Operation, Resource, refusal
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.fencing import code_for
from fencepost.broker.producer_clients import ProducerClient
from fencepost.coordinator.txn.decide import Producer
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

FIRST_WITH_PRODUCER_FENCED = 4


@handler(22, versions=(0, 5))
async def init_producer_id(call: Call) -> Response:
    request = call.request
    try:
        _check_rights(call)
        expected = _expected(request.producer_id, request.producer_epoch)
        producer = await call.broker.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
    except KafkaError as error:
        code = code_for(call, error, first_with_producer_fenced=FIRST_WITH_PRODUCER_FENCED)
        return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_PRODUCER_EPOCH}
    if request.transactional_id is not None:
        client = ProducerClient(call.client_id or "", call.session.address, producer.producer_id)
        call.broker.producer_clients.note(request.transactional_id, client)
    return {"error_code": ErrorCode.NONE, "producer_id": producer.producer_id, "producer_epoch": producer.epoch}


def _check_rights(call: Call) -> None:
    """Without a transactional id: whoever may write to any topic may do so idempotently (KIP-679)."""
    if call.request.transactional_id is not None:
        call.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, call.request.transactional_id)
        return
    allowed = call.may(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, quietly=True)
    if not allowed and not call.may_some(Operation.WRITE, Resource.TOPIC):
        raise refusal(Resource.CLUSTER)


def _expected(producer_id: int, epoch: int) -> Producer | None:
    if (producer_id == NO_PRODUCER_ID) != (epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and an epoch must be given together")
    return None if producer_id == NO_PRODUCER_ID else Producer(producer_id, epoch)
