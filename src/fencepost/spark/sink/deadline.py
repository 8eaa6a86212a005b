"""Cancels a job whose transaction has exceeded its timeout: the coordinator aborts the transaction anyway.

Otherwise a stuck writer (its machine stopped, its disk gone) would block the batch for ever: a second copy of it is
refused its permit, and Spark waits for the first.
"""

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from fencepost.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Call = Callable[[str], object]


class JobDeadline:
    """A `with` block around the jobs of the calling thread. Spark cancels them when the time is over."""

    def __init__(self, session: "SparkSession", timeout_s: float, then: Callable[[], None] | None = None) -> None:
        """`then` is called as well when the time is over."""
        # A classic session knows only the tags of the calling thread, but another thread cancels. Its context has all.
        self._add, self._remove, self._cancel = _by_session(session) if is_connect(session) else _by_context(session)
        self._timeout_s = timeout_s
        self._tag = f"fencepost-{uuid.uuid4()}"
        self._then = then
        self._timer: threading.Timer | None = None
        self.has_passed = False

    def __enter__(self) -> Self:
        self._add(self._tag)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._remove(self._tag)

    def start(self) -> None:
        """Start the clock. Any thread may call this."""
        self._timer = threading.Timer(self._timeout_s, self._pass)
        self._timer.daemon = True
        self._timer.start()

    def _pass(self) -> None:
        self.has_passed = True
        if self._then is not None:
            self._then()
        self._cancel(self._tag)


def _by_session(session: Any) -> tuple[Call, Call, Call]:
    return session.addTag, session.removeTag, session.interruptTag


def _by_context(session: Any) -> tuple[Call, Call, Call]:
    context = session.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
