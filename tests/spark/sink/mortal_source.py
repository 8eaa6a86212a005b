"""`format("mortal")`: our source and sink, in whose commit process a test can have an accident.

The option `accident` is `KIND:STEP:BATCH`. The process that commits has it when it comes to that step of that batch:
`exit` ends the process at once, as kill -9 would; `kill` kills the driver first, its JVM and its program; `lose` loses
the answer to a commit, and the connection.
"""

import os
import signal
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from fencepost.client.connection import Connection, Pending
from fencepost.client.registration import END_TXN
from fencepost.errors import ConnectionLost
from fencepost.spark.sink import steps
from fencepost.spark.source.data_source import FencepostDataSource

NAME = "mortal"
ENDTXN_SENT = "ENDTXN_SENT"
EXIT_STATUS = 9


class MortalDataSource(FencepostDataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        given = dict(self.options)
        prepare(given.pop("accident", None))
        return FencepostDataSource(given).streamWriter(schema, overwrite)


def prepare(accident: str | None) -> None:
    """For this process, which may have served other queries before."""
    steps.hook = steps.no_hook
    Connection.receive = RECEIVE  # type: ignore[method-assign]
    if accident is None:
        return
    kind, step, batch = accident.split(":")
    current: list[int] = []

    def look(here: str, batch_id: int) -> None:
        current[:] = [batch_id]
        if (here, batch_id) == (step, int(batch)):
            if kind == "kill":
                kill_driver()
            os._exit(EXIT_STATUS)

    def receive(self: Connection, pending: Pending, **more: Any) -> Any:
        if pending.api_key != END_TXN or current != [int(batch)] or step != ENDTXN_SENT:
            return RECEIVE(self, pending, **more)
        if kind == "exit":
            os._exit(EXIT_STATUS)
        current.clear()  # once
        RECEIVE(self, pending, **more)
        self.close()
        raise ConnectionLost(f"{self.address}: the answer was lost")

    steps.hook = lambda here, batch_id: look(here.name, batch_id)
    Connection.receive = receive  # type: ignore[method-assign]


def kill_driver() -> None:
    """The JVM that started this process, and the program that started the JVM."""
    jvm = os.getppid()
    while "java" not in Path(f"/proc/{jvm}/comm").read_text():
        jvm = parent_of(jvm)
    program = parent_of(jvm)
    for process in (jvm, program):
        os.kill(process, signal.SIGKILL)


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))


RECEIVE = Connection.receive
