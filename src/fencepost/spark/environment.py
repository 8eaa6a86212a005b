"""Which Python and Java a Spark on this machine runs: this program's own, unless the user chose others.

Spark starts its Python processes as `python3` from the PATH of its JVM, unless PYSPARK_PYTHON names another. In a
virtual environment that is not activated, that is another Python, without fencepost.

=============================================  =========================================================================
when                                           what happens
=============================================  =========================================================================
`fencepost.spark` is imported before the JVM   this Python's directory goes to the front of the PATH, as activating its
starts                                         environment does; JAVA_HOME is set if the machine has no Java
a local session is running (`adopt`)           its Python processes start with this Python from now on
a session on a cluster is running              nothing: this Python's path need not exist on the executors
a task cannot import fencepost (`explain`)     the error says what to install and which variable to set
=============================================  =========================================================================

Invariants: the user's settings win (PYSPARK_PYTHON, PYSPARK_DRIVER_PYTHON, spark.pyspark.python, JAVA_HOME). No path of
this machine is sent to another one: the PATH stays here, and executors look up `python3` in their own.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.errors import ConfigError, FencepostError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Started = TypeVar("Started")

#: What Spark starts by default.
DEFAULT_PYTHON = "python3"
PYTHON_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
PYTHON_SETTING = "spark.pyspark.python"
#: Set in every Python process that Spark's JVM starts.
WORKER_VARIABLE = "SPARK_PYTHON_RUNTIME"
#: Set in the process of `foreachBatch` on a server of Spark Connect, which before Spark 4.2 lacks the other one.
CONNECT_WORKER_VARIABLE = "SPARK_CONNECT_LOCAL_URL"
#: How a Python process and its JVM find each other. Before Spark 4.2 only a variable of this kind tells.
FACTORY_PREFIX = "PYTHON_WORKER_FACTORY_"
#: Set in a driver started by spark-submit: its JVM is already running.
GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"

NO_MODULE = "No module named 'fencepost'"
OTHER_VERSION = "PYTHON_VERSION_MISMATCH"
#: What Spark says of a Python process that ended before it answered, or took ten seconds.
NOT_STARTED = "Python worker failed to connect back"
#: How often a process is started that does not answer in that time; less often if Spark's Python lacks packages.
STARTS_MAX, STARTS_MAX_LACKING = 6, 2
#: What Spark Connect's process for `foreachBatch` imports before it answers, beside what every worker does.
CONNECT_PACKAGES = ("grpc", "grpc_status", "google")


def prepare(environment: MutableMapping[str, str] = os.environ, executable: str = sys.executable) -> None:
    """Set up the environment for a JVM that starts later. Fast, and without effect if one is running."""
    if is_worker(environment) or _has_jvm(environment):
        return
    if not any(environment.get(name) for name in PYTHON_VARIABLES) and not _is_found(environment, executable):
        directory = Path(executable).parent
        if _is_same(directory / DEFAULT_PYTHON, executable):
            environment["PATH"] = os.pathsep.join(filter(None, [str(directory), environment.get("PATH", "")]))
    if not environment.get("JAVA_HOME") and shutil.which("java", path=environment.get("PATH", "")) is None:
        _set_java_home(environment)


def adopt(session: "SparkSession | None") -> None:
    """Make a running local session start its Python processes with this Python, unless the user chose one."""
    context = None if session is None else getattr(session, "_sc", None)  # a Connect session has none
    if context is None or not is_local(context.master) or context.getConf().get(PYTHON_SETTING):
        return
    if not os.environ.get(PYTHON_VARIABLES[0]) and not _is_found(os.environ, sys.executable):
        context.pythonExec = sys.executable


def is_local(master: str) -> bool:
    """Whether driver and executors run on this machine."""
    return re.match(r"local($|\[|-cluster)", master) is not None


def is_one_process(master: str) -> bool:
    """Whether the driver is the only executor."""
    return re.match(r"local($|\[)", master) is not None


def is_worker(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Whether this process was started by Spark's JVM to run Python code."""
    if WORKER_VARIABLE in environment or CONNECT_WORKER_VARIABLE in environment:
        return True
    return any(name.startswith(FACTORY_PREFIX) for name in environment)


def explain(error: Exception) -> ConfigError | None:
    """An error that says what to do about a process of Spark's that cannot run our code; None for any other error."""
    text = str(error)
    if NO_MODULE in text:
        what = "Spark's Python workers cannot import fencepost"
    elif OTHER_VERSION in text:
        what = "Spark's Python workers run another version of Python than this program"
    else:
        return None
    return ConfigError(
        f"{what}: before Spark starts, set PYSPARK_PYTHON to a Python that has fencepost, on every machine where Spark "
        f"runs tasks, and where a server of Spark Connect runs. This program runs {sys.executable}"
    )


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Around the start of a query, for which Spark Connect starts a process: such an error instead of Spark's."""
    try:
        yield
    except Exception as error:
        known = explain(error)
        if known is None and NOT_STARTED in str(error):
            known = ConfigError(
                "the server of Spark Connect waited ten seconds for a Python process for foreachBatch, several times, "
                "and its log says why. Its Python must have what this one has: pip install 'fencepost[connect]'. "
                "PYSPARK_PYTHON chooses that Python, and must be set before the server starts. If its machine was "
                "just busy, start the query again"
            )
        if known is None:
            raise
        raise known from None


def patiently(start: Callable[[], Started], lacks_packages: Callable[[], bool]) -> Started:
    """Start a query. Spark Connect waits ten seconds for the process of `foreachBatch`; a busy machine gets a minute.

    Nothing has begun when Spark gives up. A process that lacks packages looks the same, so that is asked then.
    """
    starts, starts_max = 0, STARTS_MAX_LACKING
    while True:
        try:
            return start()
        except Exception as error:
            if NOT_STARTED not in str(error):
                raise
            starts += 1
            if starts == 1 and not lacks_packages():
                starts_max = STARTS_MAX
            if starts >= starts_max:
                raise


def lacks_connect(session: "SparkSession") -> bool:
    """Whether a Python worker of Spark lacks what the process of `foreachBatch` needs with Spark Connect."""
    found = session.range(1, numPartitions=1).mapInArrow(_connect_packages, "has_all boolean").collect()
    return not all(row.has_all for row in found)


def _connect_packages(rows: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa  # type: ignore[import-untyped]

    has_all = all(importlib.util.find_spec(name) is not None for name in CONNECT_PACKAGES)
    for batch in rows:
        yield pa.RecordBatch.from_pydict({"has_all": [has_all] * len(batch)})


def _has_jvm(environment: MutableMapping[str, str]) -> bool:
    if GATEWAY_VARIABLE in environment:
        return True
    module = sys.modules.get("pyspark.core.context")
    return module is not None and module.SparkContext._gateway is not None


def _is_found(environment: MutableMapping[str, str], executable: str) -> bool:
    """Whether `python3` in the PATH is this Python. Symlinks are not followed: an environment's leads out of it."""
    found = shutil.which(DEFAULT_PYTHON, path=environment.get("PATH", ""))
    return found is not None and Path(found).parent == Path(executable).parent and _is_same(Path(found), executable)


def _is_same(found: Path, executable: str) -> bool:
    return bool(executable) and found.exists() and found.samefile(executable)


def _set_java_home(environment: MutableMapping[str, str]) -> None:
    from fencepost.spark.java import java_home

    try:
        environment["JAVA_HOME"] = str(java_home(environment))
    except (FencepostError, OSError):
        pass  # Spark says what is missing when it starts
