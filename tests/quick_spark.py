"""A Spark for tests that starts in half the time: its classes come ready from an archive, and it optimises little.

Spark spends most of its first ten seconds on loading and verifying some 20,000 classes, and the tests start it dozens
of times. So the first process that needs Spark makes an archive of them (class data sharing), with a small pipeline
from beginning to end, and all later ones map it. Where it cannot be made (a trimmed Java), Spark starts as it does for
everybody. Python processes are forked (`quick_python`). Everything goes through the environment, nothing is different
in what is tested.
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.spark.environment import PYTHON_VARIABLES
from fencepost.spark.home import spark_home
from fencepost.spark.java import find_java
from tests import quick_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
ARCHIVES = ROOT / ".cache" / "spark-classes"
#: Short runs are over before the optimising compiler pays.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
#: Read by Spark's scripts: for the driver's JVM and its executors', and for the one that makes its command line.
DRIVER_VARIABLE, LAUNCHER_VARIABLE = "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"
#: Less than a test has, which may be the first to need the archive.
TIMEOUT_S = 90.0


def hasten() -> None:
    """For this process and those that it starts."""
    if DRIVER_VARIABLE in os.environ:
        return
    os.environ[LAUNCHER_VARIABLE] = OPTIONS
    archive = classes()
    options = f"{OPTIONS} -XX:SharedArchiveFile={archive}" if archive is not None else OPTIONS
    os.environ[DRIVER_VARIABLE] = f'{options} -Dspark.executor.extraJavaOptions="{options}"'
    python = quick_python.start()
    os.environ.update(dict.fromkeys(PYTHON_VARIABLES, python))


def start(
    name: str, home: Path, *, log_file: Path | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """A Spark with two cores, everything local. What it writes goes to `home`."""
    from fencepost.spark.session import session

    hasten()
    given = {**settings(home), **(conf or {})}
    return session(name, "local[2]", given, log_file=os.environ.get("SPARK_TEST_LOG", log_file))


def settings(home: Path) -> dict[str, str]:
    """Of every Spark that tests start. What it writes goes to `home`."""
    return {
        # A query over a few rows ends before generated code pays.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.local.dir": str(home),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "16m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.pollingDelay": "10",
    }


def classes() -> Path | None:
    """The archive. Made once: whoever comes second waits for it."""
    java = find_java()
    key = hashlib.sha256(f"{java} {spark_home()} {OPTIONS}".encode()).hexdigest()[:16]
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    made, tried = ARCHIVES / f"{key}.jsa", ARCHIVES / f"{key}.tried"
    with (ARCHIVES / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() and not tried.exists():
            # On a machine that is so busy, it goes without; a test's own time is not over yet.
            with contextlib.suppress(subprocess.TimeoutExpired):
                _make(made)
            tried.touch()
    return made if made.exists() else None


def _make(archive: Path) -> None:
    draft = archive.with_suffix(".draft")
    environment = {
        **os.environ,
        DRIVER_VARIABLE: f"{OPTIONS} -XX:ArchiveClassesAtExit={draft}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])),
    }
    with tempfile.TemporaryDirectory() as directory:
        # The JVM ends after its Python has, and has what it says here closed: so this waits for both.
        subprocess.run(
            [sys.executable, "-m", "tests.quick_spark", directory],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    if draft.exists():
        draft.rename(archive)


def run_small_pipeline(checkpoint: str) -> None:
    """From a topic to another: so that the classes of a stream, a foreachBatch and a shuffle are in use."""
    import fencepost
    from fencepost.client import Cluster
    from fencepost.client.admin import NewTopic, create_topics
    from fencepost.spark import write, write_stream
    from fencepost.spark.session import session

    with fencepost.Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        create_topics(cluster, {"in": NewTopic(2), "out": NewTopic(2)})
        spark = session("archive", "local[2]")
        numbers = spark.range(1000).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
        write(numbers, bootstrap_servers=broker.bootstrap_servers, topic="in")
        rows = (
            spark.readStream.format("fencepost")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 500)  # the first batch is written by tasks, the second by the driver
            .load()
        )
        query = write_stream(
            rows.select("key", "value"),
            pipeline="archive",
            bootstrap_servers=broker.bootstrap_servers,
            checkpoint=checkpoint,
            topic="out",
            trigger={"availableNow": True},
        )
        query.awaitTermination()
        spark.stop()


if __name__ == "__main__":
    run_small_pipeline(sys.argv[1])
