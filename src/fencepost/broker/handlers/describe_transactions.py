"""DescribeTransactions (65): what the coordinator knows of transactional ids (KIP-664).

Two tagged fields are ours: the client that took the id, and its host. Only fencepost's own client gets them, because
not every client passes over tagged fields that it does not know.
"""

from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.coordinator.txn.model import by_topic
from fencepost.errors import ErrorCode, KafkaError

#: As it calls itself in ApiVersions.
OUR_CLIENT = "fencepost"


@handler(65, versions=(0, 0))
def describe_transactions(call: Call) -> Response:
    return {"transaction_states": [_describe(call, name) for name in call.request.transactional_ids]}


def _describe(call: Call, transactional_id: str) -> dict[str, Any]:
    try:
        call.require(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id)
        transaction = call.broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return {"error_code": error.code, "transactional_id": transactional_id}
    described = {
        "error_code": ErrorCode.NONE,
        "transactional_id": transactional_id,
        "transaction_state": transaction.state.label,
        "transaction_timeout_ms": transaction.timeout_ms,
        "transaction_start_time_ms": transaction.start_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": partitions}
            for topic, partitions in by_topic(transaction.partitions).items()
            if call.may(Operation.DESCRIBE, Resource.TOPIC, topic, quietly=True)
        ],
    }
    client = call.broker.producer_clients.of(transactional_id, transaction.producer_id)
    if client is not None and call.session.software == OUR_CLIENT:
        described |= {"client_id": client.client_id, "client_host": client.host}
    return described
