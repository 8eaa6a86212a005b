"""Spark's own cluster manager with two workers on two loopback addresses, each a process of its own.

Speculation needs it: Spark starts the copy of a slow task only on another host, and not at all in local mode. On Linux
every address of 127/8 is this machine, so one machine can be two hosts.
"""

import contextlib
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from fencepost.child import Child
from fencepost.errors import FencepostError
from fencepost.spark.java import java_home

HOSTS = ("127.0.0.2", "127.0.0.3")
MASTER_HOST = "127.0.0.1"
START_TIMEOUT_S = 120.0
REGISTERED = "Registering worker"


class ClusterFailed(FencepostError):
    """Spark's cluster did not start."""


class StandaloneSpark:
    def __init__(self, directory: Path, spark_home: Path) -> None:
        self._directory = directory
        self._spark_home = spark_home
        with socket.socket() as probe:
            probe.bind((MASTER_HOST, 0))
            self._port = int(probe.getsockname()[1])
        self._processes: list[Child] = []

    @property
    def master(self) -> str:
        return f"spark://{MASTER_HOST}:{self._port}"

    @property
    def conf(self) -> dict[str, str]:
        return {
            "spark.driver.host": MASTER_HOST,
            "spark.driver.bindAddress": MASTER_HOST,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.pyspark.python": sys.executable,
        }

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        package = "org.apache.spark.deploy"
        port = str(self._port)
        self._start(
            "master", f"{package}.master.Master", "--host", MASTER_HOST, "--port", port, "--webui-port", "0",
            host=MASTER_HOST,
        )  # fmt: skip
        try:
            self._await(lambda: _answers(self._port), "the master did not listen")
            for host in HOSTS:
                work = str(self._directory / f"work-{host}")
                self._start(
                    f"worker-{host}", f"{package}.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g",
                    "--webui-port", "0", "--work-dir", work, self.master, host=host,
                )  # fmt: skip
            self._await(lambda: self._log("master").count(REGISTERED) >= len(HOSTS), "the workers did not register")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes:
            process.kill_all()
        self._processes.clear()

    def _start(self, name: str, main: str, *arguments: str, host: str) -> None:
        variables = {
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(self._spark_home),
            "SPARK_LOCAL_IP": host,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it has a fixed port
            "SPARK_LOCAL_DIRS": str(self._directory / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        process = Child(self._directory / f"{name}.log", f"Spark's {name}", logs_output=True)
        self._processes.append(process)
        process.start([str(self._spark_home / "bin" / "spark-class"), main, *arguments], variables)

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not condition():
            dead = any(not process.is_running for process in self._processes)
            if dead or time.monotonic() > deadline_s:
                said = "\n".join(path.read_text(errors="replace")[-1500:] for path in self._directory.glob("*.log"))
                raise ClusterFailed(f"Spark's cluster did not start, {what}:\n{said}")
            time.sleep(0.2)

    def _log(self, name: str) -> str:
        path = self._directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((MASTER_HOST, port), 1):
        return True
    return False
