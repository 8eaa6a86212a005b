"""A SparkSession with our recommended settings: quiet, on the loopback interface if local, with preloaded workers.

Owns how `fencepost` starts Spark. Nothing else here depends on it, and every setting can be overridden. Invariant: a
session that is already running is returned unchanged, without a warning.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.client import compiling
from fencepost.errors import ConfigError, FencepostError
from fencepost.spark.environment import is_local, is_one_process
from fencepost.spark.home import spark_home
from fencepost.spark.java import java_home
from fencepost.spark.user_cache import cache_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

#: How Spark writes its checkpoints. With the default, Hadoop starts seven processes (chmod, readlink) for every file on
#: a local disk, and a micro-batch has two files.
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
PLAIN_FILES_OF_4_0 = PLAIN_FILES.replace(".checkpointing", "")

#: The beginning of a JVM's last error message.
FAILURE = 'Exception in thread "main" '

#: Where options of the driver's JVM may come from, besides Spark's settings.
JAVA_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_A_COLLECTOR = re.compile(r"-XX:[+-]Use\w*GC")
_A_THRESHOLD = re.compile(r"-XX:Tier4\w+Threshold=")
#: When the JVM's optimising compiler takes up a method: six times as late as by default. What handles rows is called
#: that often in its first second. Spark's planner, which runs once a batch, is not, and compiling that took more of the
#: first million records than the records did.
THRESHOLDS = "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=60000"

#: Spark's default is 10,000 rows, which is little for records that Python processes by the column.
ARROW_ROWS = 65_536


class SparkFailed(FencepostError):
    """Spark did not start. The message says why, if Spark said so."""


def session(
    app_name: str = "fencepost",
    master: str = "local[*]",
    conf: Mapping[str, object] | None = None,
    *,
    log_file: str | os.PathLike[str] | None = None,
) -> "SparkSession":
    """A session on `master`, with `conf` on top of our settings.

    Spark's log and the output of its processes go to `log_file`. Without one, only its errors go to standard error.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark import __version__ as version
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(f"Spark is not installed ({error}): pip install 'fencepost[spark]'") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    given = {name: str(value) for name, value in (conf or {}).items()}
    ours = recommended(master, log_file, version)
    settings = ours | given
    settings[JAVA_OPTIONS] = " ".join(filter(None, [ours[JAVA_OPTIONS], *_tuning(given), given.get(JAVA_OPTIONS)]))
    _prepare_environment(master)
    if is_local(master):
        compiling.in_background()  # while Spark starts
    settings |= {"spark.master": master, "spark.app.name": app_name}
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    log = None if log_file is None else Path(log_file)
    written = log.stat().st_size if log is not None and log.exists() else 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if log is not None:
                _start_jvm(settings, log)
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"Spark did not start on {master!r}: {_reason(error, log, written)}") from error
    if settings.get(CHECKPOINT_FILES) in (PLAIN_FILES, PLAIN_FILES_OF_4_0):
        _without_checksum_files(spark)
    if SHUFFLE_PARTITIONS not in settings:
        spark.conf.set(SHUFFLE_PARTITIONS, str(max(1, spark.sparkContext.defaultParallelism)))
    return spark


def recommended(master: str, log_file: str | os.PathLike[str] | None = None, version: str = "") -> dict[str, str]:
    """Our settings for this master and this version of Spark; the newest unless given."""
    settings = {
        JAVA_OPTIONS: _logging_options(log_file),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "fencepost.spark.daemon",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        # A second attempt of a writing task would be refused.
        "spark.speculation": "false",
        # Replanning a micro-batch costs more than it gains: batches are small, and their size is known.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    if log_file is not None:
        # Over TCP each exchange with a worker waits for a delayed acknowledgement, twice per batch. With Unix sockets
        # some workers end with a stack trace on standard error when Spark stops. With a log file it goes there.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
    if is_one_process(master):
        # What is shuffled is read again at once, from the page cache. Compressing it costs more than it saves.
        settings["spark.shuffle.compress"] = "false"
        settings[CHECKPOINT_FILES] = PLAIN_FILES_OF_4_0 if version.startswith("4.0.") else PLAIN_FILES
    if is_local(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return settings


def _tuning(given: Mapping[str, str]) -> Iterator[str]:
    """Options of the JVM: those of ours about which nobody has chosen otherwise."""
    chosen = [given.get(name, "") for name in (JAVA_OPTIONS, "spark.driver.defaultJavaOptions")]
    chosen += [os.environ.get(name, "") for name in JAVA_VARIABLES]
    if not any(_A_COLLECTOR.search(text) for text in chosen):
        yield "-XX:+UseParallelGC"  # record batches are large objects, which Java's default collector keeps apart
    if not any(_A_THRESHOLD.search(text) for text in chosen):
        yield THRESHOLDS


def _start_jvm(settings: Mapping[str, str], log_file: Path) -> None:
    """Start Spark's JVM and context. Its standard error and that of its Python processes go to the log."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return  # a session before this one has started it
    conf = SparkConf().setAll(list(settings.items()))
    with log_file.open("ab") as log:
        gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def _without_checksum_files(spark: "SparkSession") -> None:
    """Write checkpoint files without checksum files, as Spark does by default.

    A file that is replaced is renamed before its checksum. After a kill in between it could not be read.
    """
    jvm: Any = spark.sparkContext._jvm
    root = jvm.java.net.URI.create("file:///")
    jvm.org.apache.hadoop.fs.FileSystem.get(root, spark._jsc.hadoopConfiguration()).setWriteChecksum(False)


def _reason(error: Exception, log: Path | None, written: int) -> str:
    """Spark's error in one line. `written` is the size of the log before Spark started."""
    from py4j.protocol import Py4JJavaError

    if isinstance(error, Py4JJavaError):
        found = str(error.java_exception).splitlines()[0]
    else:
        lines = [] if log is None else log.read_bytes()[written:].decode(errors="replace").splitlines()
        last_words = [line.removeprefix(FAILURE) for line in lines if line.startswith(FAILURE)]
        found = last_words[-1] if last_words else str(error)
    return found if log is None else f"{found} (more in {log})"


def _prepare_environment(master: str) -> None:
    """Settings that Spark's launcher reads only from the environment."""
    if not _is_shim(os.environ.get("JAVA_HOME")):
        os.environ["JAVA_HOME"] = str(java_home())
    if is_local(master):
        os.environ["SPARK_HOME"] = str(spark_home())
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        # Workers should run this Python, not the PATH's `python3`, and find this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        here = str(Path(__file__).parents[2])
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if here not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, paths)])


def _is_shim(home: str | None) -> bool:
    """Whether `java_home` made this directory. A second script around the first would only be slower."""
    return home is not None and Path(home).parent == cache_directory() / "java" and Path(home, "bin", "java").exists()


def _logging_options(log_file: str | os.PathLike[str] | None) -> str:
    name = "log4j2-console.properties" if log_file is None else "log4j2-file.properties"
    options = [f"-Dlog4j2.configurationFile={_quoted((Path(__file__).parent / name).as_uri())}"]
    if log_file is not None:
        options.append(f"-Dfencepost.log={_quoted(str(Path(log_file).absolute()))}")
    return " ".join(options)


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text
