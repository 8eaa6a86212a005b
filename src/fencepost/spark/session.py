"""A SparkSession with the settings that we recommend: quiet, on the loopback where it is local, its workers warm.

Alone responsible for how Spark is started by `fencepost`; nothing else here depends on it, and every setting can be
overridden. Invariant: a session that is running already is given back as it is, with a warning of nobody's.
"""

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

#: How Spark writes its checkpoints. Its default asks Hadoop in a way that, on a local disk, starts seven processes for
#: every file (chmod, readlink), and a micro-batch has two files.
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: How a JVM begins its last words.
FAILURE = 'Exception in thread "main" '

#: Spark's default is 10,000 rows, which is little for records that go through Python by the column.
ARROW_ROWS = 65_536


class SparkFailed(FencepostError):
    """Spark did not start. The message says why, as far as Spark told."""


def session(
    app_name: str = "fencepost",
    master: str = "local[*]",
    conf: Mapping[str, object] | None = None,
    *,
    log_file: str | os.PathLike[str] | None = None,
) -> "SparkSession":
    """A session on `master`, with `conf` on top of our settings.

    Spark's log goes to `log_file`, and so does what its processes print; without one its errors, and only those, go to
    standard error.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(f"Spark is not installed ({error}): pip install 'fencepost[spark]'") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    given = {name: str(value) for name, value in (conf or {}).items()}
    ours = recommended(master, log_file)
    settings = ours | given
    settings[JAVA_OPTIONS] = " ".join(filter(None, [ours[JAVA_OPTIONS], given.get(JAVA_OPTIONS)]))
    _prepare_environment(master)
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
    if settings.get(CHECKPOINT_FILES) == PLAIN_FILES:
        _without_checksum_files(spark)
    if SHUFFLE_PARTITIONS not in settings:
        spark.conf.set(SHUFFLE_PARTITIONS, str(max(1, spark.sparkContext.defaultParallelism)))
    return spark


def recommended(master: str, log_file: str | os.PathLike[str] | None = None) -> dict[str, str]:
    """Our settings for this master."""
    settings = {
        JAVA_OPTIONS: _logging_options(log_file),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "fencepost.spark.daemon",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        # A transaction belongs to one attempt of a task: a second one beside it would only be refused.
        "spark.speculation": "false",
        # Replanning a micro-batch costs more than it finds: batches are small, and their size is known.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    if log_file is not None:
        # Over TCP each exchange with a worker meets a delayed acknowledgement, twice a batch. Over these sockets some
        # workers end with a stack trace on standard error when Spark hangs up; which is in the log then.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
    if is_one_process(master):
        settings[CHECKPOINT_FILES] = PLAIN_FILES
    if is_local(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return settings


def _start_jvm(settings: Mapping[str, str], log_file: Path) -> None:
    """Spark's JVM and context, with the standard error of it and of every Python process that it starts in the log."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return  # a session before this one has started it
    conf = SparkConf().setAll(list(settings.items()))
    with log_file.open("ab") as log:
        gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def _without_checksum_files(spark: "SparkSession") -> None:
    """A checkpoint's files have none by Spark's default either.

    A file that is written again is renamed before its checksum is: whoever was killed in between could not read it.
    """
    jvm: Any = spark.sparkContext._jvm
    root = jvm.java.net.URI.create("file:///")
    jvm.org.apache.hadoop.fs.FileSystem.get(root, spark._jsc.hadoopConfiguration()).setWriteChecksum(False)


def _reason(error: Exception, log: Path | None, written: int) -> str:
    """What Spark says is wrong, in a line; `written` is what the log held before it started."""
    from py4j.protocol import Py4JJavaError

    if isinstance(error, Py4JJavaError):
        found = str(error.java_exception).splitlines()[0]
    else:
        lines = [] if log is None else log.read_bytes()[written:].decode(errors="replace").splitlines()
        last_words = [line.removeprefix(FAILURE) for line in lines if line.startswith(FAILURE)]
        found = last_words[-1] if last_words else str(error)
    return found if log is None else f"{found} (there is more in {log})"


def _prepare_environment(master: str) -> None:
    """What Spark's launcher reads from the environment only."""
    if not _is_shim(os.environ.get("JAVA_HOME")):
        os.environ["JAVA_HOME"] = str(java_home())
    if is_local(master):
        os.environ["SPARK_HOME"] = str(spark_home())
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        # Its workers are to be this Python, whatever `python3` may be in the PATH, and to find this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        here = str(Path(__file__).parents[2])
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if here not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, paths)])


def _is_shim(home: str | None) -> bool:
    """Whether it is a directory that `java_home` made before: one around another would only be slower."""
    return home is not None and Path(home).parent == cache_directory() / "java" and Path(home, "bin", "java").exists()


def _logging_options(log_file: str | os.PathLike[str] | None) -> str:
    name = "log4j2-console.properties" if log_file is None else "log4j2-file.properties"
    options = [f"-Dlog4j2.configurationFile={_quoted((Path(__file__).parent / name).as_uri())}"]
    if log_file is not None:
        options.append(f"-Dfencepost.log={_quoted(str(Path(log_file).absolute()))}")
    return " ".join(options)


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text
