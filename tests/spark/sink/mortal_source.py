"""`format("mortal")`: our source and sink, in whose commit process a test can have an accident.

The option `accident` is `KIND:STEP:BATCH`. The process that commits has it when it comes to that step of that batch:
`exit` ends the process at once, as kill -9 would; `lose` loses the connection to the broker after the commit was sent;
`pause` waits until the file of the option `until` is there.
"""

import os
import time
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
        accident, until = given.pop("accident", None), given.pop("until", None)
        prepare(accident, until)
        self.options = given
        try:
            return super().streamWriter(schema, overwrite)
        finally:
            self.options = {
                **given,
                **({"accident": accident} if accident else {}),
                **({"until": until} if until else {}),
            }


def prepare(accident: str | None, until: str | None) -> None:
    """Of this process, which may have served other queries before."""
    steps.hook = steps.no_hook
    Connection.receive = RECEIVE  # type: ignore[method-assign]
    if accident is None:
        return
    kind, step, batch = accident.split(":")
    current: list[int] = []

    def look(here: str, batch_id: int) -> None:
        current[:] = [batch_id]
        if (here, batch_id) == (step, int(batch)):
            if kind == "exit":
                os._exit(EXIT_STATUS)
            if kind == "pause":
                Path(f"{until}.reached").touch()
                while not Path(str(until)).exists():
                    time.sleep(0.01)

    def receive(self: Connection, pending: Pending, **more: Any) -> Any:
        if pending.api_key == END_TXN and current == [int(batch)] and step == ENDTXN_SENT:
            if kind == "exit":
                os._exit(EXIT_STATUS)
            current.clear()  # once
            answer = RECEIVE(self, pending, **more)
            self.close()
            raise ConnectionLost(f"{self.address}: lost after {answer.error_code}")
        return RECEIVE(self, pending, **more)

    steps.hook = lambda here, batch_id: look(here.name, batch_id)
    Connection.receive = receive  # type: ignore[method-assign]


RECEIVE = Connection.receive
