"""ListTransactions (66): the transactional ids of this coordinator, filtered (KIP-664).

By state and producer id; from version 1 by how long the transaction is open. Version 2 (a regular expression for the
id, KIP-1152) is not offered: it needs RE2, because Python's own engine can take exponential time.
"""

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.coordinator.txn.states import BY_LABEL
from fencepost.errors import ErrorCode


@handler(66, versions=(0, 1))
def list_transactions(call: Call) -> Response:
    request = call.request
    states, producer_ids = request.state_filters, frozenset(request.producer_id_filters)
    return {
        "error_code": ErrorCode.NONE,
        "unknown_state_filters": [state for state in states if state not in BY_LABEL],
        "transaction_states": [
            {
                "transactional_id": transaction.transactional_id,
                "producer_id": transaction.producer_id,
                "transaction_state": transaction.state.label,
            }
            for transaction in call.broker.transactions.list(states, producer_ids, request.duration_filter)
            if call.may(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transaction.transactional_id, quietly=True)
        ],
    }
