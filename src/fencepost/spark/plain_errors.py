"""Errors of ours as a user of Spark sees them: one line, without a traceback.

A Python process of Spark's sends an exception to the JVM as text, and that text becomes the message of the exception
that the user gets: a traceback of thirty lines, with the one that matters at its end. The message of an error of ours
says what is wrong without it. Spark leaves the traceback out if SPARK_HIDE_TRACEBACK is set when it writes the text
(`pyspark.util.handle_worker_exception`). So it is set when an error of ours leaves our code.

Invariants: the variable is set only in a process of Spark's, which ends with that error, so other errors keep their
tracebacks; and so does a bug of ours (InvariantBroken).
"""

import contextlib
import os
from collections.abc import Iterator

from fencepost.errors import FencepostError, InvariantBroken
from fencepost.spark.environment import is_worker

HIDE_VARIABLE = "SPARK_HIDE_TRACEBACK"


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Around all code of ours that Spark's Python processes call; also as a decorator, but not of a generator."""
    try:
        yield
    except InvariantBroken:
        raise
    except FencepostError:
        if is_worker():
            os.environ[HIDE_VARIABLE] = "1"
        raise
