"""Runs Apache Kafka's programs from its jars, with the options of Kafka's own scripts."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import FencepostError

LOGGING = Path(__file__).with_name("log4j2.properties")

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
SERVER = ("-Xmx1G", "-Xms1G", *PERFORMANCE_OPTIONS)
#: Most tools.
TOOL = ("-Xmx256M", *PERFORMANCE_OPTIONS)
#: `kafka-producer-perf-test.sh` and its consumer twin.
PERF_TOOL = ("-Xmx512M", *PERFORMANCE_OPTIONS)
#: For programs that end after a second: do not spend another one on optimising them.
QUICK = ("-Xmx256M", "-XX:TieredStopAtLevel=1", *PERFORMANCE_OPTIONS)


class JavaMissing(FencepostError):
    """There is no Java, or Kafka's jars have not been fetched."""


def find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    places = [*([f"{home}/bin"] if home else []), os.environ.get("PATH", "")]
    java = shutil.which("java", path=os.pathsep.join(places))
    if java is None:
        raise JavaMissing("java was not found: Apache Kafka needs Java 17 or later")
    return java


@dataclass(frozen=True, slots=True)
class Jars:
    """A directory with Apache Kafka's jars."""

    library: Path

    @property
    def class_path(self) -> str:
        if not any(self.library.glob("kafka_2.13-*.jar")):
            raise JavaMissing(f"Apache Kafka's jars are not in {self.library}: `make kafka` fetches them")
        return f"{self.library}/*"

    def command(self, main: str, *arguments: str, options: Sequence[str] = TOOL) -> list[str]:
        """The command line that runs a main class, or a source file."""
        logging = f"-Dlog4j2.configurationFile={LOGGING}"
        return [find_java(), *options, logging, "-cp", self.class_path, main, *arguments]

    def run(
        self,
        main: str,
        *arguments: str,
        options: Sequence[str] = TOOL,
        timeout_s: float = 180,
        stdin: str | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run it to its end. The caller judges the exit status."""
        return subprocess.run(
            self.command(main, *arguments, options=options),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
