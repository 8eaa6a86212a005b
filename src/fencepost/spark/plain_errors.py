"""Our errors as a Spark user sees them: one line, without a traceback.

A Python process of Spark sends an exception to the JVM as text, and the user gets that text as the error message:
thirty lines of traceback, and the line that matters at the end. Our messages do not need the traceback. Spark omits it
if SPARK_HIDE_TRACEBACK is set when it writes the text (`pyspark.util.handle_worker_exception`). So we set it when one
of our errors leaves our code.

Invariants: the variable is only set in a process of Spark, which ends with that error, so other errors keep their
tracebacks. A bug of ours (InvariantBroken) keeps its traceback, too.
"""

import contextlib
import os
from collections.abc import Iterator

from fencepost.errors import FencepostError, InvariantBroken
from fencepost.spark.environment import is_worker

HIDE_VARIABLE = "SPARK_HIDE_TRACEBACK"


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Wraps all our code that Spark's Python processes call. Also a decorator, but not for generators."""
    try:
        yield
    except InvariantBroken:
        raise
    except FencepostError:
        if is_worker():
            os.environ[HIDE_VARIABLE] = "1"
        raise
