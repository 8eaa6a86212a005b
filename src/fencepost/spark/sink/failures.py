"""Which errors another attempt at a batch may not have, how long to wait for it, and how a failed batch is reported."""

import random
from collections.abc import Sequence

from fencepost.errors import (
    BatchFailed,
    BootstrapFailed,
    ConnectionLost,
    GaveUp,
    OutcomeUnknown,
    TransactionFailed,
    WriteFailed,
)

PAUSE_S = 0.2
PAUSE_MAX_S = 10.0

#: A batch that exceeded the transaction timeout twice will do so again.
TIMEOUTS_MAX = 2
#: Spark recognises by this text that its own `stop()` interrupted our function. Its regular expression overflows the
#: stack on the long message of a cancelled job, so this text comes alone.
STOPPED = "py4j.protocol.Py4JJavaError: An error occurred while calling the sink: java.lang.InterruptedException"
#: The cluster cannot be reached, so the failure cannot be put into the ledger.
AWAY = (OutcomeUnknown, GaveUp, ConnectionLost, BootstrapFailed)
#: Errors that another attempt may not have.
AGAIN = (WriteFailed, TransactionFailed, *AWAY)


def pause_s(attempts: int) -> float:
    """How long to wait after so many attempts."""
    return min(PAUSE_MAX_S, PAUSE_S * 2.0 ** (attempts - 1)) * random.uniform(0.5, 1.0)


def batch_failed(pipeline: str, batch_id: int, reasons: Sequence[str], error: Exception) -> BatchFailed:
    """The error of a batch that failed for these reasons, the last time with `error`."""
    is_unknown = isinstance(error, OutcomeUnknown)
    outcome = "the next start will find out if it is committed" if is_unknown else "nothing of it is visible"
    tries = "; then ".join(dict.fromkeys(reasons))
    return BatchFailed(f"pipeline {pipeline!r}: batch {batch_id} failed {len(reasons)} times, and {outcome}: {tries}")
