"""How a query of Spark Connect is stopped: the server ends the process of `foreachBatch` with SIGTERM.

In the driver of a classic session Spark cancels the batch's job instead, and the pipeline sees that as an error. Here
the signal does the same, so that the transaction is aborted at once and not by its timeout:

=========================  =============================================================================================
when the signal arrives    what happens
=========================  =============================================================================================
while rows are written     QueryStopped is raised there
while the batch commits    the commit is finished, then the process ends: an interrupted commit would be in doubt
between two batches        the process ends
=========================  =============================================================================================
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from fencepost.errors import QueryStopped
from fencepost.spark.environment import is_worker

ENDED_BY_SIGTERM = 128 + signal.SIGTERM


class _Stopping:
    def __init__(self) -> None:
        self.is_installed = False
        self.is_asked = False
        self.in_batch = False
        self.in_job = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.is_asked = True
        if self.in_job:
            self.in_job = False
            raise QueryStopped("the query was stopped")
        if not self.in_batch:
            sys.exit(ENDED_BY_SIGTERM)


_stopping = _Stopping()


@contextlib.contextmanager
def batch() -> Iterator[None]:
    """Around a batch, in the process that runs `foreachBatch`. Without effect in a driver's own process."""
    if not is_worker() or threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _stopping.is_installed:
        signal.signal(signal.SIGTERM, _stopping.on_signal)
        _stopping.is_installed = True
    _stopping.in_batch = True
    try:
        yield
    finally:
        _stopping.in_batch = False
    if _stopping.is_asked:
        sys.exit(ENDED_BY_SIGTERM)


@contextlib.contextmanager
def job() -> Iterator[None]:
    """Around what may be interrupted: raises QueryStopped there if the query is stopped."""
    if not _stopping.in_batch:
        yield
        return
    if _stopping.is_asked:
        raise QueryStopped("the query was stopped")
    _stopping.in_job = True
    try:
        yield
    finally:
        _stopping.in_job = False
