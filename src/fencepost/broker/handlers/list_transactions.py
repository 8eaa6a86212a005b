"""ListTransactions (66): the transactional ids of this coordinator, filtered (KIP-664).

By state and producer id; from version 1 by how long the transaction is open, from version 2 by a pattern for the id.
"""

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.coordinator.txn.listing import Filter
from fencepost.coordinator.txn.pattern import Pattern
from fencepost.errors import ErrorCode, KafkaError


@handler(66, versions=(0, 2))
def list_transactions(call: Call) -> Response:
    request = call.request
    text = request.transactional_id_pattern
    try:
        pattern = Pattern(text) if text else None
    except KafkaError as error:
        return {"error_code": error.code}
    which = Filter(
        states=request.state_filters,
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        pattern=pattern,
    )
    return {
        "error_code": ErrorCode.NONE,
        "unknown_state_filters": which.unknown_states,
        "transaction_states": [
            {
                "transactional_id": transaction.transactional_id,
                "producer_id": transaction.producer_id,
                "transaction_state": transaction.state.label,
            }
            for transaction in call.broker.transactions.list(which)
        ],
    }
