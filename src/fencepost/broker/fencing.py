"""What a fenced producer is told, by the version of its request (KIP-588)."""

from fencepost.broker.dispatch import Call
from fencepost.errors import ErrorCode, KafkaError


def code_for(call: Call, error: KafkaError, *, first_with_producer_fenced: int = 2) -> ErrorCode:
    """The code of `error`. Clients before that version know INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED."""
    if error.code is ErrorCode.PRODUCER_FENCED and call.version < first_with_producer_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
