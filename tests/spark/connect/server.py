"""A server of Spark Connect in a process of its own, and sessions of it. It can be killed and started again.

The server's Python finds fencepost and these tests, so a function that a test sends to it may come from a module.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from fencepost.child import Child
from fencepost.lab.kit.servers import HOST, free_ports
from fencepost.lab.scenarios import orders
from fencepost.spark.home import spark_home
from fencepost.spark.session import recommended
from tests import quick_spark
from tests.conftest import ROOT, wait_until

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
#: In place of a jar: the class is one of Spark's.
NO_JAR = "spark-internal"
TIMEOUT_S = 120.0
#: By default a session asks a server that is gone for ten minutes, also when its program ends.
RETRIES = 3


class ConnectServer:
    def __init__(
        self, home: Path, *, conf: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        quick_spark.hasten()
        home.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.home = home
        self.orders = orders.Orders(home / "orders")  #: to its Python processes
        self.url = f"sc://{HOST}:{self.port}"
        daemon = {"spark.python.daemon.module": "fencepost.lab.scenarios.spark_daemon"}
        self._conf = {
            **recommended("local[2]", version=pyspark.__version__),
            **quick_spark.settings(home),
            **daemon,
            **(conf or {}),
        }
        self._variables = {orders.VARIABLE: str(self.orders.directory), **(variables or {})}
        self._child = Child(home / "server.log", "the server of Spark Connect", logs_output=True)
        self._sessions: list[SparkSession] = []

    def start(self) -> "ConnectServer":
        conf = {**self._conf, "spark.connect.grpc.binding.port": str(self.port)}
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._child = Child(self.home / "server.log", "the server of Spark Connect", logs_output=True)
        self._child.start(
            [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2,4]", "--class", MAIN, *options, NO_JAR],
            {"PYTHONPATH": paths, "SPARK_LOCAL_IP": HOST, **self._variables},
            self.home,
        )
        wait_until(self._answers, "the server of Spark Connect listens", TIMEOUT_S)
        return self

    def _answers(self) -> bool:
        assert self._child.is_running, self._child.said()
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1.0):
            return True
        return False

    def session(self, session_id: str | None = None) -> SparkSession:
        """A new session, or another client of one that the server has."""
        url = self.url if session_id is None else f"{self.url}/;session_id={session_id}"
        made: Any = SparkSession.builder.remote(url).create()
        made.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
        self._sessions.append(made)
        return made

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def said(self) -> str:
        return self._child.said()

    def kill(self) -> None:
        """The JVM alone, with SIGKILL. Its Python processes notice by themselves, or not."""
        self._child.signal(signal.SIGKILL)
        self._child.wait(TIMEOUT_S)

    def forget_sessions(self) -> None:
        """Those of a server that was killed."""
        for session in self._sessions:
            session.client.close()  # type: ignore[attr-defined]
        self._sessions.clear()

    def stop(self) -> None:
        for session in self._sessions:
            session.stop()
        self._sessions.clear()
        self._child.kill_all()
