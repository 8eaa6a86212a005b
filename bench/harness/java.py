"""Apache Kafka's jars: where they are, and how its programs are started as Kafka's own scripts start them.

The jars come from Maven (`make kafka`) into `.cache/kafka/lib`; `FENCEPOST_KAFKA_LIB` names another directory.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LOGGING = ROOT / "tools" / "kafka" / "log4j2.properties"

#: `kafka-run-class.sh` gives these to every Kafka program.
PERFORMANCE_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
#: `kafka-server-start.sh`
SERVER_HEAP = ("-Xmx1G", "-Xms1G")
#: `kafka-producer-perf-test.sh` and its consumer twin; the other tools get 256 MB.
PERF_HEAP = ("-Xmx512M",)
TOOL_HEAP = ("-Xmx256M",)
#: For programs that end after a second: do not spend another one on compiling them well.
QUICK = ("-Xmx256M", "-XX:TieredStopAtLevel=1")


class JavaMissing(RuntimeError):
    """There is no Java, or Kafka's jars have not been fetched."""


def library() -> Path:
    return Path(os.environ.get("FENCEPOST_KAFKA_LIB") or ROOT / ".cache" / "kafka" / "lib")


def spark_library() -> Path:
    """Spark's own Kafka connector (`make spark-kafka`)."""
    found = Path(os.environ.get("FENCEPOST_SPARK_KAFKA_LIB") or ROOT / ".cache" / "spark-kafka" / "lib")
    if not any(found.glob("spark-sql-kafka-*.jar")):
        raise JavaMissing(f"Spark's Kafka connector is not in {found}: `make spark-kafka` fetches it")
    return found


def java_home_binary(name: str = "java") -> str:
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home) / "bin" / name if home else None
    found = str(candidate) if candidate and candidate.exists() else shutil.which(name)
    if found is None:
        raise JavaMissing(f"{name} was not found: Java 17 or later is needed to run Apache Kafka")
    return found


def available() -> str | None:
    """None when Kafka can be run here, otherwise what is missing."""
    try:
        java_home_binary()
        class_path()
    except JavaMissing as error:
        return str(error)
    return None


def class_path(*more: Path) -> str:
    if not any(library().glob("kafka-tools-*.jar")):
        raise JavaMissing(f"Apache Kafka's jars are not in {library()}: `make kafka` fetches them")
    return os.pathsep.join([*map(str, more), f"{library()}/*"])


def command(
    main: str, *arguments: str, heap: Sequence[str] = TOOL_HEAP, more_classes: Sequence[Path] = ()
) -> list[str]:
    """The command line that runs one of Kafka's main classes."""
    return [
        java_home_binary(),
        *heap,
        *PERFORMANCE_OPTIONS,
        f"-Dlog4j2.configurationFile={LOGGING}",
        "-cp",
        class_path(*more_classes),
        main,
        *arguments,
    ]


def run(
    main: str, *arguments: str, heap: Sequence[str] = TOOL_HEAP, timeout_s: float = 120, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's programs to its end and keep what it printed; the exit code is the caller's to judge."""
    return subprocess.run(
        command(main, *arguments, heap=heap),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
