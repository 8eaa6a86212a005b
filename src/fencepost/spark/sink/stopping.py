"""How a query of Spark Connect is stopped: the server ends the process of `foreachBatch` with SIGTERM.

In the driver of a classic session Spark cancels the batch's job instead, and the pipeline sees that as an error. Here
the signal does the same, so that the transaction is aborted at once and not by its timeout:

=================================  =====================================================================================
when the signal arrives            what happens
=================================  =====================================================================================
while the id is fenced, while      QueryStopped is raised there. Spark is asked to cancel the jobs, the transaction is
rows are computed or written       aborted, and the process ends
while the batch commits            the commit is finished, then the process ends: an interrupted one would be in doubt
between two batches, or in the     the process ends at once, as it does without fencepost. Nothing is open
user's own code
=================================  =====================================================================================

Invariant: after the signal no batch begins, so a run that was stopped does not take the pipeline from its successor.
"""

import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from fencepost.errors import QueryStopped
from fencepost.spark.environment import is_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The server may be going away, and Spark's client would ask it for ten minutes.
RETRIES_AFTER_STOP = 2


class _Stopping:
    def __init__(self) -> None:
        self.is_installed = False
        self.is_asked = False
        self.in_batch = False
        self.is_interruptible = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.is_asked = True
        if self.is_interruptible:
            self.check()
        if not self.in_batch:
            _end()

    def check(self) -> None:
        if self.is_asked:
            self.is_interruptible = False  # a second signal must not interrupt the abort
            raise QueryStopped("the query was stopped")


_stopping = _Stopping()


def is_asked() -> bool:
    """Whether this process must end after the batch that it is at."""
    return _stopping.is_asked


@contextlib.contextmanager
def batch() -> Iterator[None]:
    """Around a batch, in the process that runs `foreachBatch`. Without effect in a driver's own process."""
    if not is_worker() or not _is_main_thread():
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
            _end()


@contextlib.contextmanager
def interruptible(session: "SparkSession") -> Iterator[None]:
    """Around what may be interrupted: raises QueryStopped there if the query is stopped, and cancels its jobs."""
    if not _stopping.in_batch or not _is_main_thread():
        yield
        return
    tag = f"fencepost-{uuid.uuid4()}"
    session.addTag(tag)
    try:
        _stopping.is_interruptible = True
        _stopping.check()  # it may have been asked before
        yield
    except QueryStopped:
        _cancel(session, tag)
        raise
    finally:
        _stopping.is_interruptible = False
        session.removeTag(tag)


def _cancel(session: Any, tag: str) -> None:
    """The server would finish jobs that nobody waits for. Their tasks could write after the abort."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    with contextlib.suppress(Exception):  # the transaction is aborted all the same
        session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES_AFTER_STOP)])
        session.interruptTag(tag)


def _is_main_thread() -> bool:
    """Only there can a signal raise an error."""
    return threading.current_thread() is threading.main_thread()


def _end() -> None:
    """As if nobody had handled the signal."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
