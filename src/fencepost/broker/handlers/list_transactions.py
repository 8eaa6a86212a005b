"""ListTransactions (66): the transactional ids of this coordinator, filtered (KIP-664).

By state and producer id; from version 1 by how long the transaction is open. Version 2 (a regular expression for the
id, KIP-1152) is not offered: it needs RE2, because Python's own engine can take exponential time.
"""

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.coordinator.txn.listing import Filter
from fencepost.errors import ErrorCode


@handler(66, versions=(0, 1))
def list_transactions(call: Call) -> Response:
    request = call.request
    which = Filter(
        states=request.state_filters,
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
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
