"""What became of one part of a request, in the two fields that most responses have for it."""

from collections.abc import Callable
from typing import Any

from fencepost.errors import ErrorCode, KafkaError

DONE = {"error_code": ErrorCode.NONE, "error_message": None}


def refused(error: KafkaError) -> dict[str, Any]:
    return {"error_code": error.code, "error_message": error.message or None}


def attempt(work: Callable[[], object]) -> dict[str, Any]:
    """Do it, and say whether it was done or why not."""
    try:
        work()
    except KafkaError as error:
        return refused(error)
    return DONE
